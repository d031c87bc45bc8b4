//! Who is compared: all ways from an agent to the upstream.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::scenes::Scene;

/// A way from the agent to the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    /// The one that it is compared with.
    pub(crate) against: Option<&'static str>,
    pub(crate) kind: Kind,
}

/// In settings and configs `HOOKS` is the address of a hook's server, `BENCH` the
/// copy of this binary that hooks run from, and `FUNCTIONS` a list of function names.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Direct,
    /// A role of this binary, and its setting.
    Role(&'static str, String),
    Nginx(PathBuf),
    /// hookgate's binary, and what stands in the config beside listeners and
    /// upstreams.
    Hookgate(PathBuf, String),
    /// What it needs is not there.
    Missing,
}

const GUARDS: &str = r#"
policies:
  - { policy: model_allow, models: ["bench*"] }
  - { policy: tool_guard, allow: FUNCTIONS }
"#;

/// One cheap hook on what only a session tells.
const DERIVED: &str = r#"
hooks:
  BeforeAgent:
    - hooks: [{ type: builtin, policy: prompt_guard, deny: ["(?i)project aurora"] }]
"#;

/// Bodies that are held may be many and large.
const ROOM: &str = r"
limits: { memory: 4GiB, body: 128MiB }
timeouts: { body: 10m }
";

const WORKER: &str = "exec 'BENCH' worker-hook";

/// What starts in front of each event.
#[derive(Clone, Copy)]
enum Language {
    Bash,
    Python,
    Node,
}

pub(crate) fn all() -> Vec<Contestant> {
    let mut all = proxies();
    all.extend(hooks());
    all.extend(commands(Language::Bash, ["cold-bash", "floor-bash", ""]));
    all.extend(commands(
        Language::Python,
        ["cold-python3", "floor-python3", "warm-python3"],
    ));
    all.extend(commands(
        Language::Node,
        ["cold-node", "floor-node", "warm-node"],
    ));
    let heavy = ROOM.to_owned() + &hook(&command_hook(Language::Bash, ""));
    all.push(hookgate("heavy-bash", Some("floor-bash"), heavy));
    if let Some(old) = env::var_os("HOOKGATE_OLD") {
        let olds: Vec<Contestant> = all
            .iter()
            .filter_map(|it| it.old(Path::new(&old)))
            .collect();
        all.extend(olds);
    }
    all
}

fn proxies() -> Vec<Contestant> {
    let nginx = nginx().map_or(Kind::Missing, Kind::Nginx);
    let guards_and = |more: &str| GUARDS.to_owned() + more;
    vec![
        one("direct", None, Kind::Direct),
        role("bare", "bare", String::new()),
        one("nginx", Some("bare"), nginx),
        hookgate("none", Some("bare"), String::new()),
        hookgate("policies", Some("none"), guards_and("")),
        role("floor-policies", "floor-policies", String::new()),
        hookgate(
            "redact",
            Some("floor-redact"),
            guards_and("  - { policy: redact }\n"),
        ),
        role("floor-redact", "floor-redact", String::new()),
        hookgate("derived", Some("none"), DERIVED.to_owned()),
    ]
}

fn hooks() -> Vec<Contestant> {
    let worker = format!("type: worker, name: worker, command: \"{WORKER}\"");
    vec![
        hookgate(
            "http",
            Some("floor-http"),
            hook("type: http, name: http, url: \"http://HOOKS/hook\""),
        ),
        role("floor-http", "floor-http", "HOOKS".to_owned()),
        hookgate("worker", Some("floor-worker"), hook(&worker)),
        role("floor-worker", "floor-worker", WORKER.to_owned()),
        hookgate(
            "after",
            Some("none"),
            hook(&worker).replace("BeforeModel", "AfterModel"),
        ),
    ]
}

/// A command hook that is started for each event, a bare spawn of the same, and
/// the hook prewarmed and not waited for if it has a name.
fn commands(language: Language, [cold, floor, warm]: [&'static str; 3]) -> Vec<Contestant> {
    let Some(command) = language.command() else {
        return [cold, floor, warm]
            .map(|name| one(name, None, Kind::Missing))
            .into();
    };
    let cold = hookgate(cold, Some(floor), hook(&command_hook(language, "")));
    let floor = role(floor, "floor-command", command);
    let mut all = vec![cold, floor];
    if !warm.is_empty() {
        all.push(hookgate(
            warm,
            Some("none"),
            hook(&command_hook(language, ", prewarm: 4, answer: line")),
        ));
    }
    all
}

fn command_hook(language: Language, more: &str) -> String {
    let command = language.command().unwrap_or_default();
    format!("name: command, command: \"{command}\"{more}")
}

/// The config of one hook in front of model calls.
fn hook(settings: &str) -> String {
    format!("hooks: {{ BeforeModel: [{{ hooks: [{{ {settings}, on_failure: closed }}] }}] }}\n")
}

fn one(name: &str, against: Option<&'static str>, kind: Kind) -> Contestant {
    Contestant {
        name: name.to_owned(),
        against,
        kind,
    }
}

fn role(name: &str, role: &'static str, setting: String) -> Contestant {
    one(name, None, Kind::Role(role, setting))
}

fn hookgate(name: &str, against: Option<&'static str>, config: String) -> Contestant {
    let built = || env!("CARGO_BIN_EXE_hookgate").into();
    let program = env::var_os("HOOKGATE_BIN").map_or_else(built, PathBuf::from);
    one(name, against, Kind::Hookgate(program, config))
}

impl Contestant {
    /// The same with another hookgate.
    fn old(&self, program: &Path) -> Option<Self> {
        let Kind::Hookgate(_, config) = &self.kind else {
            return None;
        };
        let kind = Kind::Hookgate(program.to_owned(), config.clone());
        Some(one(&format!("old-{}", self.name), self.against, kind))
    }

    pub(crate) fn takes_part(&self, scene: &Scene) -> bool {
        scene.contestants.contains(&self.set_up())
    }

    /// Its name, whichever hookgate it is.
    pub(crate) fn set_up(&self) -> &str {
        self.name.trim_start_matches("old-")
    }
}

impl Language {
    /// What runs its hook, if it is installed.
    fn command(self) -> Option<String> {
        let (program, file) = match self {
            Self::Bash => return Some("cat >/dev/null; echo '{}'".to_owned()),
            // Not what is found first: that may be a script that looks for it.
            Self::Python => (
                says("python3", "-c", "import sys; print(sys.executable)")?,
                "nothing.py",
            ),
            Self::Node => (says("node", "-p", "process.execPath")?, "nothing.mjs"),
        };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gateway/hooks");
        Some(format!("'{program}' '{folder}/{file}'"))
    }
}

/// What a program prints.
fn says(program: &str, option: &str, code: &str) -> Option<String> {
    let output = Command::new(program).args([option, code]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// Where Debian and others put it.
fn nginx() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
    places.into_iter().map(PathBuf::from).find(|it| it.exists())
}
