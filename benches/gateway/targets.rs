//! Targets: the proxies and gateways between agent and upstream that are compared.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, scenarios::Scenario};

/// A proxy or gateway between agent and upstream, or a direct connection.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Name of the target that it is compared with.
    pub(crate) reference: Option<&'static str>,
    pub(crate) kind: TargetKind,
}

/// In settings and configs, `HOOKS` is replaced by the address of the hook server,
/// `BENCH` by the copy of this binary that hooks run, `FUNCTIONS` by function names, `REDIS` by
/// the path of a file with the URL of a Redis.
#[derive(Clone, Debug)]
pub(crate) enum TargetKind {
    Direct,
    /// A role of this binary, and its setting.
    Role(&'static str, String),
    Nginx(PathBuf),
    Litellm(PathBuf),
    Agentgateway(PathBuf),
    /// hookgate's binary, and its config without listeners and upstreams.
    Hookgate(PathBuf, String),
    /// A required program is not installed.
    Missing,
}

const GUARDS: &str = r#"
policies:
  - { policy: model_allow, models: ["bench*"] }
  - { policy: tool_guard, allow: FUNCTIONS }
"#;

/// One cheap hook on an event that is derived from the session.
const DERIVED: &str = r#"
hooks:
  BeforeAgent:
    - hooks: [{ type: builtin, policy: prompt_guard, deny: ["(?i)project aurora"] }]
"#;

/// Additional line of the list of policies.
const REDACT_POLICY: &str = "  - { policy: redact }\n";

const NO_TRACE: &str = "trace: { exchanges: 0 }\n";

/// The live trace with its default size.
const DEFAULT_TRACE: &str = "trace: { exchanges: 2000 }\n";

/// Records every call, masked.
const RECORD_ALL: &str =
    "record: { path: recordings, what: { sample: 1 }, keep: { days: 1, size: 256MiB } }\n";

/// Keeps the content of each call in the live trace.
const KEEP_CONTENT: &str = "trace: { content: { sample: 1.0 } }\n";

/// A shadow of the same config, whose own shadow has no effect.
const SHADOW: &str = "shadow: { config: hookgate.yaml, sample: 0.1 }\n";

/// Limits for many large request bodies.
const LARGE_LIMITS: &str = r"
limits: { memory: 4GiB, body: 128MiB }
timeouts: { body: 10m }
";

/// A caller with the key of all requests, whose limits are never reached. `STORE` is the store
/// of its counters, `MORE` has further limits.
const CALLER_LIMITS: &str = r#"
auth:
  keys: [{ name: bench, sha256: "0dc21f1c9ec85f1d30e1ad08284fa6cfbf2946d7aa5de5ad1f81ac2b8f92a074" }]
  limits: { requests_per_minute: 1000000, store: STOREMORE }
"#;

/// Further limits of a caller.
const ALL_LIMITS: &str = ", tokens_per_day: 1000000000, in_flight: 100";

const WORKER: &str = "exec 'BENCH' worker-hook";

/// Interpreter of a command hook.
#[derive(Clone, Copy)]
enum Language {
    Bash,
    Python,
    Node,
}

pub(crate) fn all() -> Vec<Target> {
    let mut all = proxies();
    all.extend(traces());
    all.extend(limits());
    all.extend(hooks());
    all.extend(commands(
        Language::Bash,
        ["cold-bash", "lower-bound-bash", ""],
    ));
    all.extend(commands(
        Language::Python,
        ["cold-python3", "lower-bound-python3", "warm-python3"],
    ));
    all.extend(commands(
        Language::Node,
        ["cold-node", "lower-bound-node", "warm-node"],
    ));
    let heavy = LARGE_LIMITS.to_owned() + &hook(&command_hook(Language::Bash, ""));
    all.push(hookgate("heavy-bash", Some("lower-bound-bash"), heavy));
    if let Some(old) = env::var_os("HOOKGATE_OLD") {
        let old_targets: Vec<Target> = all
            .iter()
            .filter_map(|target| target.with_old_binary(Path::new(&old)))
            .collect();
        all.extend(old_targets);
    }
    all
}

fn proxies() -> Vec<Target> {
    let nginx = nginx().map_or(TargetKind::Missing, TargetKind::Nginx);
    let given = |variable, kind: fn(PathBuf) -> TargetKind| {
        env::var_os(variable).map_or(TargetKind::Missing, |program| kind(program.into()))
    };
    let litellm = given("HOOKGATE_LITELLM", TargetKind::Litellm);
    let agentgateway = given("HOOKGATE_AGENTGATEWAY", TargetKind::Agentgateway);
    let guards_and = |more: &str| GUARDS.to_owned() + more;
    vec![
        target("direct", None, TargetKind::Direct),
        role("bare", "bare", String::new()),
        target("nginx", Some("bare"), nginx),
        target("litellm", Some("bare"), litellm),
        target("agentgateway", Some("bare"), agentgateway),
        hookgate("none", Some("bare"), String::new()),
        hookgate("policies", Some("none"), guards_and("")),
        role(
            "lower-bound-policies",
            "lower-bound-policies",
            String::new(),
        ),
        hookgate(
            "redact",
            Some("lower-bound-redact"),
            guards_and(REDACT_POLICY),
        ),
        role("lower-bound-redact", "lower-bound-redact", String::new()),
        hookgate("derived", Some("none"), DERIVED.to_owned()),
    ]
}

/// Targets without the live trace, with readers of the trace, with a shadow, and with a recording.
fn traces() -> Vec<Target> {
    let guards_and = |more: &str| GUARDS.to_owned() + more;
    vec![
        hookgate("no-trace", Some("none"), NO_TRACE.to_owned()),
        hookgate("policies-no-trace", Some("policies"), guards_and(NO_TRACE)),
        hookgate("policies-shadow", Some("policies"), guards_and(SHADOW)),
        hookgate("viewer", None, guards_and(DEFAULT_TRACE)),
        hookgate("console", None, guards_and(REDACT_POLICY) + KEEP_CONTENT),
        hookgate("recording", Some("none"), RECORD_ALL.to_owned()),
    ]
}

/// The rate limit of a caller, or all of its limits, in the gateway's memory and in Redis.
fn limits() -> Vec<Target> {
    let mut all = Vec::new();
    for (own, shared, more) in [
        ("own-rate", "shared-rate", ""),
        ("own-limits", "shared-limits", ALL_LIMITS),
    ] {
        let limited = |store| CALLER_LIMITS.replace("STORE", store).replace("MORE", more);
        all.push(hookgate(own, Some("none"), limited("memory")));
        let redis_store = limited("{ redis: { url: { file: \"REDIS\" } } }");
        let mut shared = hookgate(shared, Some(own), redis_store);
        if redis().is_none() {
            shared.kind = TargetKind::Missing;
        }
        all.push(shared);
    }
    all
}

fn hooks() -> Vec<Target> {
    let worker = format!("type: worker, name: worker, command: \"{WORKER}\"");
    vec![
        hookgate(
            "http",
            Some("lower-bound-http"),
            hook("type: http, name: http, url: \"http://HOOKS/hook\""),
        ),
        role("lower-bound-http", "lower-bound-http", "HOOKS".to_owned()),
        hookgate("worker", Some("lower-bound-worker"), hook(&worker)),
        role(
            "lower-bound-worker",
            "lower-bound-worker",
            WORKER.to_owned(),
        ),
        hookgate(
            "after",
            Some("none"),
            hook(&worker).replace("BeforeModel", "AfterModel"),
        ),
    ]
}

/// A command hook started for each event, a bare spawn of the same command, and the
/// prewarmed hook if it has a name.
fn commands(language: Language, [cold, lower_bound, warm]: [&'static str; 3]) -> Vec<Target> {
    let Some(command) = language.command() else {
        return [cold, lower_bound, warm]
            .map(|name| target(name, None, TargetKind::Missing))
            .into();
    };
    let cold = hookgate(cold, Some(lower_bound), hook(&command_hook(language, "")));
    let lower_bound = role(lower_bound, "lower-bound-command", command);
    let mut all = vec![cold, lower_bound];
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

/// The config of one `BeforeModel` hook.
fn hook(settings: &str) -> String {
    format!("hooks: {{ BeforeModel: [{{ hooks: [{{ {settings}, on_failure: closed }}] }}] }}\n")
}

fn target(name: &str, reference: Option<&'static str>, kind: TargetKind) -> Target {
    Target {
        name: name.to_owned(),
        reference,
        kind,
    }
}

fn role(name: &str, role: &'static str, setting: String) -> Target {
    target(name, None, TargetKind::Role(role, setting))
}

fn hookgate(name: &str, reference: Option<&'static str>, config: String) -> Target {
    let default_binary = || env!("CARGO_BIN_EXE_hookgate").into();
    let program = env::var_os("HOOKGATE_BIN").map_or_else(default_binary, PathBuf::from);
    target(name, reference, TargetKind::Hookgate(program, config))
}

impl Target {
    /// The same target with another hookgate binary.
    fn with_old_binary(&self, program: &Path) -> Option<Self> {
        let TargetKind::Hookgate(_, config) = &self.kind else {
            return None;
        };
        // Earlier releases have neither trace nor recordings nor a shadow.
        if ["trace:", "record:", "shadow:"]
            .iter()
            .any(|key| config.contains(key))
        {
            return None;
        }
        let kind = TargetKind::Hookgate(program.to_owned(), config.clone());
        Some(target(&format!("old-{}", self.name), self.reference, kind))
    }

    pub(crate) fn participates(&self, scenario: &Scenario) -> bool {
        scenario.targets.contains(&self.set_up())
    }

    /// Path of its program.
    pub(crate) fn program(&self) -> Result<&Path> {
        match &self.kind {
            TargetKind::Hookgate(program, _)
            | TargetKind::Nginx(program)
            | TargetKind::Litellm(program)
            | TargetKind::Agentgateway(program) => Ok(program),
            TargetKind::Direct | TargetKind::Role(..) | TargetKind::Missing => {
                Err("the target has no program".into())
            }
        }
    }

    /// Name without the prefix of the other binary.
    pub(crate) fn set_up(&self) -> &str {
        self.name.trim_start_matches("old-")
    }
}

impl Language {
    /// Command that runs its hook, if the interpreter is installed.
    fn command(self) -> Option<String> {
        let (program, file) = match self {
            Self::Bash => return Some("cat >/dev/null; echo '{}'".to_owned()),
            // The interpreter itself, because the first in PATH may be a wrapper script.
            Self::Python => (
                output_of("python3", "-c", "import sys; print(sys.executable)")?,
                "empty_output.py",
            ),
            Self::Node => (
                output_of("node", "-p", "process.execPath")?,
                "empty_output.mjs",
            ),
        };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gateway/hook_scripts");
        Some(format!("'{program}' '{folder}/{file}'"))
    }
}

/// Output of a program.
fn output_of(program: &str, option: &str, code: &str) -> Option<String> {
    let output = Command::new(program).args([option, code]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn nginx() -> Option<PathBuf> {
    installed(["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"])
}

pub(crate) fn redis() -> Option<PathBuf> {
    installed(["/usr/bin/redis-server", "/usr/local/bin/redis-server"])
}

fn installed<const N: usize>(paths: [&str; N]) -> Option<PathBuf> {
    paths
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}
