//! Start of the upstream, the hook server and the targets.

use std::{
    env, fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use crate::{
    Result, load,
    processes::Process,
    request_bodies,
    targets::{self, Target, TargetKind},
};

pub(crate) struct Environment {
    upstream: Process,
    hooks: Process,
    /// Absent if it is not installed.
    redis: Option<Process>,
    /// Copy of this binary for the bare proxy and the lower bounds.
    proxy: PathBuf,
    /// Copy of this binary for hooks.
    hook: PathBuf,
    folder: PathBuf,
}

/// A target that has been started.
pub(crate) struct Running {
    pub(crate) target: Target,
    pub(crate) address: String,
    /// Address of the admin listener; empty if the target is not hookgate.
    pub(crate) admin: String,
    process: Option<Process>,
}

impl Running {
    /// The process between agent and upstream.
    pub(crate) fn root(&self) -> Result<u32> {
        Ok(self
            .process
            .as_ref()
            .ok_or("the target has no process")?
            .id())
    }
}

impl Environment {
    pub(crate) fn start() -> Result<Self> {
        let folder = env::temp_dir().join(format!("hookgate-bench-{}", std::process::id()));
        fs::create_dir_all(folder.join("logs"))?;
        let upstream = copy(&folder, "upstream")?;
        let hook = copy(&folder, "hook")?;
        Ok(Self {
            upstream: Process::role(&upstream, &["upstream"])?,
            hooks: Process::role(&hook, &["http-hook"])?,
            redis: targets::redis()
                .map(|program| redis(&program, &folder))
                .transpose()?,
            proxy: copy(&folder, "proxy")?,
            hook,
            folder,
        })
    }

    /// Processes of the upstream, the hook server and Redis.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        let servers = [&self.upstream, &self.hooks].into_iter().chain(&self.redis);
        servers.map(Process::id)
    }

    pub(crate) fn run(&self, target: &Target) -> Result<Running> {
        let upstream = &self.upstream.address;
        let process = match &target.kind {
            TargetKind::Direct => None,
            TargetKind::Role(role, setting) => {
                let setting = self.with_placeholders_replaced(setting)?;
                Some(Process::role(&self.proxy, &[role, upstream, &setting])?)
            }
            TargetKind::Nginx(program) => Some(self.nginx(program)?),
            TargetKind::Litellm(program) => Some(self.litellm(program)?),
            TargetKind::Agentgateway(program) => Some(self.agentgateway(program)?),
            TargetKind::Hookgate(program, config) => Some(self.hookgate(
                &target.name,
                program,
                &self.with_placeholders_replaced(config)?,
            )?),
            TargetKind::Missing => return Err(format!("{} is not installed", target.name).into()),
        };
        let address = process
            .as_ref()
            .map_or(upstream, |process| &process.address)
            .clone();
        let admin = match (&process, &target.kind) {
            (Some(process), TargetKind::Hookgate(..)) => process.admin_address()?,
            _ => String::new(),
        };
        Ok(Running {
            target: target.clone(),
            address,
            admin,
            process,
        })
    }

    fn with_placeholders_replaced(&self, text: &str) -> Result<String> {
        let functions = serde_json::to_string(&request_bodies::function_names())?;
        Ok(text
            .replace("FUNCTIONS", &functions)
            .replace("HOOKS", &self.hooks.address)
            .replace("REDIS", &redis_file(&self.folder).display().to_string())
            .replace("BENCH", &self.hook.display().to_string()))
    }

    fn hookgate(&self, name: &str, program: &Path, config: &str) -> Result<Process> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        let upstream = &self.upstream.address;
        let config = format!(
            "listen: 127.0.0.1:0\nadmin: {{ listen: \"127.0.0.1:0\" }}\nupstreams: {{ gemini: {{ url: \"http://{upstream}\" }}, anthropic: {{ url: \"http://{upstream}\" }}, openai: {{ url: \"http://{upstream}\" }} }}\n{config}"
        );
        let file = folder.join("hookgate.yaml");
        fs::write(&file, config)?;
        let arguments = ["serve", "--config", &file.to_string_lossy()];
        Process::listening(program, &arguments, &self.folder.join("logs").join(name))
    }

    fn nginx(&self, program: &Path) -> Result<Process> {
        let folder = self.folder.join("nginx");
        fs::create_dir_all(&folder)?;
        let address = free_address()?.to_string();
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

    /// LiteLLM with its route for the Gemini API, which forwards responses unchanged. Its only
    /// worker is ready when it listens.
    fn litellm(&self, program: &Path) -> Result<Process> {
        let address = free_address()?;
        let upstream = &self.upstream.address;
        let config = format!(
            "model_list:\n- model_name: \"*\"\n  litellm_params: {{ model: \"gemini/*\", api_base: \"http://{upstream}\", api_key: k }}\n\
             litellm_settings: {{ telemetry: false }}\n\
             general_settings: {{ master_key: {}, dangerously_permit_weak_or_unset_master_key: true }}\n",
            load::API_KEY
        );
        let file = self.folder.join("litellm.yaml");
        fs::write(&file, config)?;
        let (file, port) = (file.to_string_lossy(), address.port().to_string());
        let program = program.to_string_lossy();
        // Prevents a download of its price list.
        let environment = "LITELLM_LOCAL_MODEL_COST_MAP=True";
        let arguments = ["--config", &file, "--host", "127.0.0.1", "--port", &port];
        let arguments = [[environment, &program].as_slice(), &arguments].concat();
        Process::at(&address.to_string(), Path::new("/usr/bin/env"), &arguments)
    }

    fn agentgateway(&self, program: &Path) -> Result<Process> {
        let address = free_address()?;
        let (port, upstream) = (address.port(), &self.upstream.address);
        let config = format!(
            "binds: [{{ port: {port}, listeners: [{{ routes: [{{ backends: [{{ host: \"{upstream}\" }}] }}] }}] }}]\n"
        );
        let file = self.folder.join("agentgateway.yaml");
        fs::write(&file, config)?;
        Process::at(
            &address.to_string(),
            program,
            &["-f", &file.to_string_lossy()],
        )
    }
}

/// Starts a Redis without persistence, and writes the file with its URL.
fn redis(program: &Path, folder: &Path) -> Result<Process> {
    let address = free_address()?;
    fs::write(redis_file(folder), format!("redis://{address}"))?;
    let port = address.port().to_string();
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", ""];
    Process::at(&address.to_string(), program, &arguments)
}

fn redis_file(folder: &Path) -> PathBuf {
    folder.join("redis.url")
}

/// A local address with a free port.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Copies this binary, so that agent, proxies, upstream and hooks share no code pages. Processes
/// of one file share its pages: the CPU caches would hold code of a proxy that the upstream has
/// just run, which is true for no other target.
fn copy(folder: &Path, name: &str) -> Result<PathBuf> {
    let copy = folder.join(name);
    fs::copy(env::current_exe()?, &copy)?;
    Ok(copy)
}

impl Drop for Environment {
    fn drop(&mut self) {
        // A leftover temporary folder is harmless.
        fs::remove_dir_all(&self.folder).ok();
    }
}
