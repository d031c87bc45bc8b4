//! The config as written: the one source of its schema, its defaults and its
//! reading. Nothing outside this room sees these types.
//!
//! `errorMessage` in a schema says in our words what was expected there; the
//! checks use it, and so do editors.

use std::{net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    AfterModelMode, AskMode, Denials, Log, LogFormat, LogLevel,
    coverage::RawCoverage,
    otlp::RawTelemetry,
    raw_audit::RawAudit,
    raw_auth::{RawAuth, RawBrowsers},
    raw_bounds::{RawLimits, RawTimeouts},
    raw_hooks::{RawHookDefaults, RawHookFile, RawHooks, RawSwitches},
    raw_policies::RawPolicy,
    raw_sessions::{RawEvents, RawSessions},
    raw_tls::RawTls,
    raw_upstreams::RawUpstreams,
    schema_validation::is_base_url,
};

/// The config of hookgate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Config")]
pub(super) struct RawConfig {
    /// Where agents connect.
    #[serde(default = "default_listen")]
    pub(super) listen: RawAddress,
    /// How agents are spoken to; in plain text if absent.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) tls: Option<RawTls>,
    /// The listener for operators: health, metrics, reload.
    #[serde(default)]
    pub(super) admin: RawAdmin,
    /// The model APIs that are called, at least one of them.
    pub(super) upstreams: RawUpstreams,
    /// Which methods of the model APIs pass although hookgate does not see their
    /// content.
    #[serde(default)]
    pub(super) coverage: RawCoverage,
    /// How callers are known; nobody is asked if absent.
    #[expect(dead_code, reason = "resolved from where it stands, with its places")]
    pub(super) auth: Option<RawAuth>,
    /// Which web pages may call; none if absent.
    #[serde(default)]
    pub(super) browsers: RawBrowsers,
    /// Which hooks run on which event; the same block as in a settings.json.
    #[serde(default)]
    pub(super) hooks: RawHooks,
    /// Policies, each on every event that it knows. They look before hooks run,
    /// and again at what hooks changed.
    #[serde(default)]
    pub(super) policies: Vec<RawPolicy>,
    /// settings.json files whose hooks run too, in this order, before `hooks`.
    #[serde(default)]
    #[expect(dead_code, reason = "read one by one, to read all that can be read")]
    pub(super) hook_files: Vec<RawHookFile>,
    /// Switches for all hooks.
    #[serde(default, rename = "hooksConfig")]
    pub(super) hooks_config: RawSwitches,
    /// What hooks get that do not say otherwise.
    #[serde(default)]
    pub(super) hook_defaults: RawHookDefaults,
    /// The working directory of hook processes; the config file's directory if
    /// absent.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) hook_directory: Option<RawPath>,
    /// How an agent is told that a hook said no.
    #[serde(default)]
    pub(super) denials: Denials,
    /// What it means where nobody can be asked that a hook wants the user asked.
    #[serde(default)]
    pub(super) ask: AskMode,
    /// Whether `AfterModel` hooks see each chunk or the whole answer.
    #[serde(default)]
    pub(super) after_model: AfterModelMode,
    /// What is read off model calls.
    #[serde(default)]
    pub(super) events: RawEvents,
    /// What is remembered of agents' sessions, and where.
    #[serde(default)]
    pub(super) sessions: RawSessions,
    /// Bounds of size and number.
    #[serde(default)]
    pub(super) limits: RawLimits,
    /// Bounds of time.
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
    /// What is logged, and how.
    #[serde(default)]
    pub(super) log: RawLog,
    /// What was fired, asked, refused and told; nothing is written down if
    /// absent.
    pub(super) audit: Option<RawAudit>,
    /// What operators see of it elsewhere.
    #[serde(default)]
    #[expect(dead_code, reason = "resolved from where it stands, with its places")]
    pub(super) telemetry: RawTelemetry,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub(super) struct RawAdmin {
    /// Where operators connect.
    pub(super) listen: RawAddress,
    /// How operators are spoken to; in plain text if absent.
    pub(super) tls: Option<RawTls>,
    /// What operators must show as `Authorization: Bearer …`; nothing if absent.
    pub(super) token: Option<RawSecret>,
}

/// A secret: never written in the config, only where it is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Secret", extend("writeOnly" = true, "errorMessage" = "must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself"))]
pub(super) enum RawSecret {
    /// The environment variable that holds it.
    Env(String),
    /// The file that holds it and nothing else.
    File(String),
}

/// An IP address and a port.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Address", with = "String", extend("format" = "socket-address", "errorMessage" = "must be an IP address and a port such as `127.0.0.1:8787`"))]
pub(super) struct RawAddress(pub(super) SocketAddr);

/// The base of a model API.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "BaseUrl", with = "String", extend("format" = "base-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user, query or fragment"))]
pub(super) struct RawUrl(pub(super) Url);

/// A path; if relative, to the directory of the config file.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Path", with = "String", extend("minLength" = 1, "errorMessage" = "must be a path"))]
pub(super) struct RawPath(pub(super) PathBuf);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Log")]
pub(super) struct RawLog {
    /// How a line is written.
    pub(super) format: LogFormat,
    /// From which level on.
    pub(super) level: LogLevel,
}

fn default_listen() -> RawAddress {
    RawAddress(SocketAddr::from(([127, 0, 0, 1], 8787)))
}

impl Default for RawAdmin {
    fn default() -> Self {
        Self {
            listen: RawAddress(SocketAddr::from(([127, 0, 0, 1], 8788))),
            tls: None,
            token: None,
        }
    }
}

impl TryFrom<String> for RawUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).ok().filter(is_base_url);
        url.map(Self).ok_or("not the base of a model API")
    }
}

impl From<RawLog> for Log {
    fn from(raw: RawLog) -> Self {
        Self {
            format: raw.format,
            level: raw.level,
        }
    }
}
