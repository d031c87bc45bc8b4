//! A config as written, and as loaded.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    audit::AuditSettings,
    auth::{Auth, Browsers},
    coverage::CoverageSettings,
    decisions::{AfterModelMode, AskMode, Denials},
    hooks::{
        BUILTIN, FailureMode, HookDefaults, HookFile, HookGroup, HookSpec, HooksBlock, Switches,
    },
    limits::{Limits, Timeouts},
    listeners::{AdminSection, AdminSettings, Tls, TlsSection},
    policies::{HookMode, PolicySpec},
    sessions::{EventSettings, SessionSettings},
    telemetry::{LogSettings, OtlpSettings, Telemetry},
    upstreams::UpstreamsConfig,
};
use crate::{
    config::{
        schema::scalars::{AddressSchema, FilePathSchema},
        source_span::Problem,
    },
    event::{EventKind, EventName, EventVisitor, OutputPart},
};

/// A loaded config, with secrets and files resolved.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the listener for agents.
    pub listen: SocketAddr,
    /// TLS for agents; plain text without it.
    pub tls: Option<Tls>,
    /// The listener for operators.
    pub admin: AdminSettings,
    /// The model APIs that are called.
    pub upstreams: UpstreamsConfig,
    /// Methods that pass without being inspected.
    pub coverage: CoverageSettings,
    /// Authentication of callers and their limits.
    pub auth: Auth,
    /// Web pages that may call.
    pub browsers: Browsers,
    /// Policies on every event that they support, in order.
    pub policies: Vec<PolicySpec>,
    /// Policies made of the models and tools that each caller may use. They run after
    /// all others and see their edits.
    pub caller_policies: Vec<PolicySpec>,
    /// Hooks by event: those of hook files in order, then those of the config itself,
    /// without disabled hooks and without empty groups.
    pub hooks: BTreeMap<EventName, Vec<HookGroup>>,
    /// The absolute working directory of hook processes.
    pub hook_directory: PathBuf,
    /// How a denial is returned to the agent.
    pub denials: Denials,
    /// The decision for a hook's `ask` where the user cannot be asked.
    pub ask: AskMode,
    /// The input of `AfterModel` hooks for a streamed response.
    pub after_model: AfterModelMode,
    /// Events that are derived from model calls.
    pub events: EventSettings,
    /// Tracking of agents' sessions.
    pub sessions: SessionSettings,
    /// Limits of size and number.
    pub limits: Limits,
    /// Timeouts of connections, requests and shutdown.
    pub timeouts: Timeouts,
    /// Logs of this process.
    pub log: LogSettings,
    /// The audit log, if enabled.
    pub audit: Option<AuditSettings>,
    /// The OpenTelemetry collector, if any.
    pub otlp: Option<OtlpSettings>,
    /// The version: a SHA-256 over the config and its hook files, shortened to 16
    /// digits. Secrets are not included.
    pub version: String,
    /// All files of the config: the config itself, hook files, secret files.
    pub files: Vec<PathBuf>,
    /// Settings that are valid but probably not intended.
    pub warnings: Vec<Problem>,
}

/// The config of hookgate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Config")]
#[expect(
    dead_code,
    reason = "sections that depend on files or on each other are read by the loader"
)]
pub(crate) struct ConfigFile {
    /// Address of the listener for agents.
    #[serde(default = "default_listen")]
    #[schemars(with = "AddressSchema")]
    pub(crate) listen: SocketAddr,
    /// TLS for agents. Default: plain text.
    tls: Option<TlsSection>,
    /// The listener for operators: health, metrics and reload.
    #[serde(default)]
    pub(crate) admin: AdminSection,
    /// The model APIs, at least one.
    pub(crate) upstreams: UpstreamsConfig,
    /// Methods of the model APIs that pass although hookgate does not inspect their
    /// content.
    #[serde(default)]
    pub(crate) coverage: CoverageSettings,
    /// Authentication of callers. Default: none.
    #[serde(default)]
    #[schemars(with = "Option<Auth>")]
    pub(crate) auth: Auth,
    /// Web pages that may call. Default: none.
    #[serde(default)]
    pub(crate) browsers: Browsers,
    /// Hooks by event; the same block as in a settings.json.
    #[serde(default)]
    hooks: HooksBlock,
    /// Policies, each on every event that it supports. They run before hooks, and again
    /// on what hooks changed.
    #[serde(default)]
    pub(crate) policies: Vec<PolicySpec>,
    /// settings.json files whose hooks also run, in this order, before `hooks`.
    #[serde(default)]
    hook_files: Vec<HookFile>,
    /// Switches for all hooks.
    #[serde(default, rename = "hooksConfig")]
    hooks_config: Switches,
    /// Defaults for all hooks.
    #[serde(default)]
    hook_defaults: HookDefaults,
    /// Working directory of hook processes. Default: the directory of the config file.
    #[schemars(with = "Option<FilePathSchema>")]
    hook_directory: Option<PathBuf>,
    /// How a denial is returned to the agent.
    #[serde(default)]
    pub(crate) denials: Denials,
    /// The decision for a hook's `ask` where the user cannot be asked.
    #[serde(default)]
    pub(crate) ask: AskMode,
    /// Whether `AfterModel` hooks receive each chunk or the whole response.
    #[serde(default)]
    pub(crate) after_model: AfterModelMode,
    /// Events that are derived from model calls.
    #[serde(default)]
    pub(crate) events: EventSettings,
    /// Tracking of agents' sessions.
    #[serde(default)]
    pub(crate) sessions: SessionSettings,
    /// Limits of size and number.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// Timeouts of connections, requests and shutdown.
    #[serde(default)]
    pub(crate) timeouts: Timeouts,
    /// Logs of this process.
    #[serde(default)]
    pub(crate) log: LogSettings,
    /// The audit log of requests, events and decisions. Default: none is written.
    pub(crate) audit: Option<AuditSettings>,
    /// Exporters of traces and logs.
    #[serde(default)]
    pub(crate) telemetry: Telemetry,
}

impl Config {
    /// Returns the hooks that could deny something but let it pass when they fail.
    pub fn guards_that_fail_open(&self) -> impl Iterator<Item = (EventName, &HookSpec)> {
        let guarded = self.hooks.iter().filter(|(event, _)| can_deny(**event));
        let hooks = guarded.flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|group| &group.hooks);
            hooks.map(|hook| (*event, hook))
        });
        hooks.filter(|(_, hook)| {
            let fails_open = hook.on_failure == FailureMode::Open && hook.kind != BUILTIN;
            fails_open && hook.mode == HookMode::Enforce
        })
    }
}

/// Checks whether hooks on `event` can deny anything.
pub(crate) fn can_deny(event: EventName) -> bool {
    struct HonoursFlow;

    impl EventVisitor for HonoursFlow {
        type Output = bool;

        fn visit<E: EventKind>(self) -> bool {
            E::HONOURS.contains(&OutputPart::Flow)
        }
    }

    event.visit(HonoursFlow)
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8787))
}
