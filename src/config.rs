//! The config file, parsed once into types that cannot be wrong.
//!
//! All problems are found at once, each with its place. This room starts
//! nothing. Which transports and protocols there are, `Known` tells it; which
//! fields a hook has by its type, only `FIELDS` in `raw_hooks.rs` knows.
//! To add a setting, add it to `raw.rs`, to the types here, and to
//! `docs/config.md`; `config/schema.json` follows from `raw.rs`.

mod audit;
mod auth;
mod bounds;
mod case_file;
mod coverage;
mod hook_block;
mod hook_spec;
mod load;
mod matcher;
mod otlp;
mod raw;
mod raw_audit;
mod raw_auth;
mod raw_bounds;
mod raw_hooks;
mod raw_policies;
mod raw_sessions;
mod raw_tls;
mod raw_upstreams;
mod schema;
mod schema_errors;
mod schema_validation;
mod secret;
mod sessions;
mod source_span;
mod spanned_yaml;
mod tls;
mod units;
mod upstreams;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use url::Url;

pub use self::{
    audit::{AuditMode, AuditSettings, Rotation},
    auth::{
        Auth, Browsers, CALLER_NAME, CERTIFICATE_PREFIX, CertificateName, Grant, JwksOrigin,
        JwtSpec, KeySpec, MtlsSpec, TOKEN_PREFIX, is_caller_name,
    },
    bounds::{Limits, Timeouts},
    case_file::{
        Act, Case, CaseFile, DEFAULT_MODEL, Expected, ExpectedVerdict, RehearsedCall, model_path,
        parse_headers,
    },
    coverage::{CoverageSettings, KnownMethod},
    hook_spec::{
        AnswerBy, FailureMode, HookGroup, HookMode, HookSettings, HookSpec, HookView, PolicySpec,
        SystemMessages, When,
    },
    matcher::Matcher,
    otlp::OtlpSettings,
    raw_hooks::BUILTIN,
    secret::SecretSetting,
    sessions::{EventSettings, RedisUrl, SessionSettings, StoreSettings},
    source_span::{Place, Problem},
    tls::{ClientCertificates, Tls},
    units::Size,
    upstreams::{CircuitSettings, Credential, FallbackConfig, UpstreamConfig, UpstreamsConfig},
};
use crate::event::{EventKind, EventName, EventVisitor, OutputPart};

/// Everything the operator decided.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where agents connect.
    pub listen: SocketAddr,
    /// How agents are spoken to, if not in plain text.
    pub tls: Option<Tls>,
    /// The operators' listener.
    pub admin: Admin,
    /// The model APIs.
    pub upstreams: UpstreamsConfig,
    /// Which methods pass although hookgate does not see their content.
    pub coverage: CoverageSettings,
    /// How callers are known.
    pub auth: Auth,
    /// Which web pages may call.
    pub browsers: Browsers,
    /// Policies on every event that they know, in order.
    pub policies: Vec<PolicySpec>,
    /// What each caller may use: policies after all others, so that they look at
    /// what those made of a call.
    pub caller_policies: Vec<PolicySpec>,
    /// Which hooks run on which event: those of hook files in order, then those
    /// of the config itself. Disabled hooks are left out, and so are groups
    /// without hooks.
    pub hooks: BTreeMap<EventName, Vec<HookGroup>>,
    /// The working directory of hook processes. Absolute.
    pub hook_directory: PathBuf,
    /// How an agent is told that a hook said no.
    pub denials: Denials,
    /// What it means where nobody can be asked that a hook wants the user asked.
    pub ask: AskMode,
    /// What `AfterModel` hooks see of a streamed answer.
    pub after_model: AfterModelMode,
    /// What is read off model calls.
    pub events: EventSettings,
    /// What is remembered of agents' sessions, and where.
    pub sessions: SessionSettings,
    /// Bounds of size and number.
    pub limits: Limits,
    /// Bounds of time.
    pub timeouts: Timeouts,
    /// What is logged, and how.
    pub log: Log,
    /// The decision log, if there is one.
    pub audit: Option<AuditSettings>,
    /// The collector of traces and logs, if there is one.
    pub otlp: Option<OtlpSettings>,
    /// What it is known by: the SHA-256 over the config and the hook files that
    /// it names, shortened to 16 digits. Secrets are not in it.
    pub version: String,
    /// Every file this was read from: the config, hook files, secret files.
    pub files: Vec<PathBuf>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Problem>,
}

/// The listener for health, metrics and reload.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Where operators connect.
    pub listen: SocketAddr,
    /// How they are spoken to, if not in plain text.
    pub tls: Option<Tls>,
    /// What they must show, if anything.
    pub token: Option<SecretString>,
}

/// How an agent is told that a hook said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Denials {
    /// As an answer of the model: shown once, and the turn ends.
    #[default]
    Message,
    /// As a 403 error.
    Error,
}

/// What it means where nobody can be asked that a hook wants the user asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskMode {
    /// No.
    #[default]
    Deny,
    /// Yes.
    Allow,
}

/// What `AfterModel` hooks see of a streamed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterModelMode {
    /// Each chunk, as it comes.
    #[default]
    Chunk,
    /// The whole answer, once; the agent waits for it.
    Buffered,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// How a line is written.
    pub format: LogFormat,
    /// From which level on.
    pub level: LogLevel,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// From which level on something is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// And what should be looked at.
    Warn,
    /// And what happened.
    #[default]
    Info,
    /// And how.
    Debug,
    /// And everything else.
    Trace,
}

/// What the command line says; it outranks the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Instead of `listen`.
    pub listen: Option<SocketAddr>,
    /// Instead of `admin.listen`.
    pub admin_listen: Option<SocketAddr>,
    /// Instead of `upstreams.gemini.url`.
    pub upstream: Option<Url>,
    /// Settings files after those of `hook_files`; relative to the current
    /// directory.
    pub hooks: Vec<PathBuf>,
    /// Where every model API is, if the file names none at all.
    pub missing_upstreams: Option<Url>,
    /// What becomes of a secret that is not there.
    pub missing_secrets: MissingSecrets,
}

/// What becomes of a secret that is not where the config says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingSecrets {
    /// It is a problem.
    #[default]
    Refused,
    /// One is made up: nobody outside is called, so none is needed.
    MadeUp,
}

/// What other rooms give a meaning to.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What a hook's `type` may be.
    pub transports: Vec<&'static str>,
    /// What a hook file's `protocol` may be.
    pub protocols: Vec<&'static str>,
    /// What `policy` may be.
    pub policies: Vec<PolicyShape>,
    /// How some texts are written.
    pub formats: Vec<Format>,
    /// The methods of the model APIs.
    pub methods: Vec<KnownMethod>,
}

/// A policy, as far as the config is concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyShape {
    /// Its name.
    pub name: &'static str,
    /// The JSON Schema of its settings.
    pub schema: Value,
}

/// How some texts are written.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Its name in a schema's `format`.
    pub name: &'static str,
    /// What is wrong with a text, if anything, as the rest of a sentence.
    pub check: fn(&str) -> Result<(), String>,
}

/// Why a config was refused: everything that is wrong with it.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// In the order of the files, and of the lines in a file. Never empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        let problems = vec![problem];
        Self { problems }
    }
}

impl Config {
    /// Reads the config file at `path`, and all files that it names.
    pub fn load(path: &Path, overrides: &Overrides, known: &Known) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => load::load(&text, path, overrides, known),
            Err(error) => {
                let message = format!("`{}` cannot be read: {error}", path.display());
                Err(Problem::nowhere(message).into())
            }
        }
    }

    /// Parses `text` as if it stood in `file`; files that it names are read.
    pub fn parse(text: &str, file: &Path, known: &Known) -> Result<Self, ConfigError> {
        load::load(text, file, &Overrides::default(), known)
    }

    /// A config of defaults and of what the command line says, which must name
    /// an upstream.
    pub fn without_file(overrides: &Overrides, known: &Known) -> Result<Self, ConfigError> {
        if overrides.upstream.is_none() && overrides.missing_upstreams.is_none() {
            let message = "without a config file, `--upstream` is needed";
            return Err(Problem::nowhere(message).into());
        }
        load::load("", Path::new(""), overrides, known)
    }

    /// The JSON Schema of the config file.
    pub fn schema(known: &Known) -> Value {
        schema::schema::<raw::RawConfig>(known)
    }

    /// Hooks that could refuse something, and whose failure lets it pass.
    pub fn guards_that_fail_open(&self) -> impl Iterator<Item = (EventName, &HookSpec)> {
        let guarded = self.hooks.iter().filter(|(event, _)| can_refuse(**event));
        let hooks = guarded.flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|it| &it.hooks);
            hooks.map(|hook| (*event, hook))
        });
        hooks.filter(|(_, hook)| {
            let fails_open = hook.on_failure == FailureMode::Open && hook.kind != BUILTIN;
            fails_open && hook.mode == HookMode::Enforce
        })
    }
}

/// Whether hooks on `event` can refuse anything.
fn can_refuse(event: EventName) -> bool {
    struct Asking;

    impl EventVisitor for Asking {
        type Output = bool;

        fn visit<E: EventKind>(self) -> bool {
            E::HONOURS.contains(&OutputPart::Flow)
        }
    }

    event.visit(Asking)
}

#[cfg(test)]
mod tests;
