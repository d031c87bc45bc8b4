//! Who is compared, and how each is started in front of the same upstream.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{Result, bodies, processes::Process};

/// A way from the agent to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// The one that it is compared with.
    pub(crate) against: Option<&'static str>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Direct,
    /// A role of this binary.
    Role(&'static str),
    Nginx,
    /// What stands in the config beside listeners and upstreams.
    Hookgate(&'static str),
    /// hookgate of `HOOKGATE_OLD`, without hooks.
    Old(&'static str),
}

const GUARDS: &str = "policies:\n  - { policy: model_allow, models: [\"bench*\"] }\n  - { policy: tool_guard, allow: FUNCTIONS }\n";
const REDACT: &str = "policies:\n  - { policy: model_allow, models: [\"bench*\"] }\n  - { policy: tool_guard, allow: FUNCTIONS }\n  - { policy: redact }\n";
const HTTP: &str = "hooks:\n  BeforeModel:\n    - hooks:\n        - { type: http, name: http, url: \"http://HOOKS/hook\", on_failure: closed }\n";
const WORKER: &str = "hooks:\n  BeforeModel:\n    - hooks:\n        - { type: worker, name: worker, command: \"exec BENCH worker-hook\", on_failure: closed }\n";

pub(crate) fn all() -> Vec<Contestant> {
    let one = |name, against, kind| Contestant {
        name,
        against,
        kind,
    };
    let mut all = vec![
        one("direct", None, Kind::Direct),
        one("bare", None, Kind::Role("bare")),
        one("nginx", Some("bare"), Kind::Nginx),
        one("none", Some("bare"), Kind::Hookgate("")),
        one("policies", Some("none"), Kind::Hookgate(GUARDS)),
        one("floor-policies", None, Kind::Role("floor-policies")),
        one("redact", Some("floor-redact"), Kind::Hookgate(REDACT)),
        one("floor-redact", None, Kind::Role("floor-redact")),
        one("http", Some("floor-http"), Kind::Hookgate(HTTP)),
        one("floor-http", None, Kind::Role("floor-http")),
        one("worker", Some("floor-worker"), Kind::Hookgate(WORKER)),
        one("floor-worker", None, Kind::Role("floor-worker")),
    ];
    if env::var_os("HOOKGATE_OLD").is_some() {
        all.push(one("old-none", Some("bare"), Kind::Old("")));
        all.push(one("old-policies", Some("old-none"), Kind::Old(GUARDS)));
        all.push(one("old-redact", Some("floor-redact"), Kind::Old(REDACT)));
        all.push(one("old-http", Some("floor-http"), Kind::Old(HTTP)));
        all.push(one("old-worker", Some("floor-worker"), Kind::Old(WORKER)));
    }
    all
}

impl Contestant {
    /// Whether it can be started here.
    pub(crate) fn is_installed(&self) -> bool {
        self.kind != Kind::Nginx || nginx().is_some()
    }
}

/// What all contestants stand in front of, and where their files lie.
pub(crate) struct World {
    pub(crate) upstream: Process,
    hooks: Process,
    folder: PathBuf,
}

/// A contestant under way.
pub(crate) struct Running {
    pub(crate) contestant: Contestant,
    pub(crate) address: String,
    pub(crate) process: Option<Process>,
}

impl World {
    pub(crate) fn start() -> Result<Self> {
        let folder = env::temp_dir().join(format!("hookgate-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self {
            upstream: Process::role(&["upstream"])?,
            hooks: Process::role(&["http-hook"])?,
            folder,
        })
    }

    pub(crate) fn run(&self, contestant: &Contestant) -> Result<Running> {
        let upstream = &self.upstream.address;
        let process = match contestant.kind {
            Kind::Direct => None,
            Kind::Role(role) => Some(self.role(role)?),
            Kind::Nginx => Some(self.nginx()?),
            Kind::Hookgate(config) => {
                let program = env::var_os("HOOKGATE_BIN")
                    .map_or_else(|| env!("CARGO_BIN_EXE_hookgate").into(), PathBuf::from);
                Some(self.hookgate(contestant.name, &program, config)?)
            }
            Kind::Old(config) => {
                let program = env::var_os("HOOKGATE_OLD").ok_or("no old one")?;
                Some(self.hookgate(contestant.name, Path::new(&program), config)?)
            }
        };
        let address = process
            .as_ref()
            .map_or_else(|| upstream.clone(), |it| it.address.clone());
        Ok(Running {
            contestant: contestant.clone(),
            address,
            process,
        })
    }

    fn role(&self, role: &str) -> Result<Process> {
        let upstream = self.upstream.address.as_str();
        let worker = format!("exec {} worker-hook", env::current_exe()?.display());
        let setting = match role {
            "floor-http" => self.hooks.address.as_str(),
            "floor-worker" => worker.as_str(),
            _ => "",
        };
        Process::role(&[role, upstream, setting])
    }

    fn hookgate(&self, name: &str, program: &Path, config: &str) -> Result<Process> {
        // The log lies elsewhere: hookgate watches the folder of its config.
        let (folder, logs) = (self.folder.join(name), self.folder.join("logs"));
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&logs)?;
        let upstream = &self.upstream.address;
        let config = config
            .replace(
                "FUNCTIONS",
                &serde_json::to_string(&bodies::function_names())?,
            )
            .replace("HOOKS", &self.hooks.address)
            .replace("BENCH", &env::current_exe()?.display().to_string());
        let config = format!(
            "listen: 127.0.0.1:0\nadmin: {{ listen: \"127.0.0.1:0\" }}\nupstreams: {{ gemini: {{ url: \"http://{upstream}\" }} }}\n{config}"
        );
        let file = folder.join("hookgate.yaml");
        fs::write(&file, config)?;
        let arguments = ["serve", "--config", &file.to_string_lossy()];
        Process::listening(program, &arguments, &logs.join(name))
    }

    fn nginx(&self) -> Result<Process> {
        let program = nginx().ok_or("nginx is not installed")?;
        let folder = self.folder.join("nginx");
        fs::create_dir_all(&folder)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        drop(listener);
        let at = folder.display();
        let upstream = &self.upstream.address;
        let config = format!(
            "daemon off; worker_processes auto; pid {at}/pid; error_log {at}/error.log;\n\
             worker_rlimit_nofile 20000; events {{ worker_connections 10000; }}\n\
             http {{ access_log off; client_max_body_size 0; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; tcp_nodelay on; keepalive_requests 1000000;\n\
             upstream model {{ server {upstream}; keepalive 64; keepalive_requests 1000000; }}\n\
             server {{ listen {address}; location / {{ proxy_pass http://model; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s; }} }} }}\n"
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, config)?;
        Process::at(&address, program, &["-c", &file.to_string_lossy()])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What is left in a folder for temporary files harms nobody.
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Where Debian and others put it.
fn nginx() -> Option<&'static Path> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
    places.into_iter().map(Path::new).find(|it| it.exists())
}
