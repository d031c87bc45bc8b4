//! The config file as a type: all settings, with their defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

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
    listeners::{AdminSettings, ListenerSpans, Tls, TlsSection, set_by_loader},
    policies::{HookMode, PolicySpec},
    proofs::{ProofCases, ProofSettings},
    record::RecordSettings,
    revisions::{RevisionSettings, source::SourceSettings},
    rollout::{RolloutSettings, shadow::ShadowSettings},
    sessions::{EventSettings, SessionSettings, StoreSettings},
    telemetry::{LogSettings, Telemetry},
    tool_names::{ToolMeaning, ToolMeaningSchema},
    trace::TraceSettings,
    upstreams::UpstreamsConfig,
};
use crate::{
    config::{
        config_document::ConfigDocument,
        config_files::ConfigFiles,
        policy_layer::PolicyLayer,
        schema::scalars::{AddressSchema, FilePathSchema},
        secret::Secret,
        source_span::{Problem, SourceSpan},
    },
    event::EventName,
};

/// The config of hookgate.
///
/// Settings that refer to files or to each other are resolved by the loader, and set after
/// the rest is deserialized.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(description = "The config of hookgate.", deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "the loader reads three sections before, and the schema has them"
)]
pub struct Config {
    /// Address of the listener for agents.
    #[serde(default = "default_listen")]
    #[schemars(with = "AddressSchema")]
    pub listen: SocketAddr,
    /// TLS for agents. Default: plain text.
    #[serde(default, deserialize_with = "set_by_loader")]
    #[schemars(with = "Option<TlsSection>")]
    pub tls: Option<Tls>,
    /// The listener for operators: health, metrics and reload.
    #[serde(default)]
    pub admin: AdminSettings,
    /// The model APIs, at least one.
    pub upstreams: UpstreamsConfig,
    /// Methods and fields of the model APIs that pass although hookgate does not inspect what
    /// they refer to, and what the APIs keep.
    #[serde(default)]
    pub coverage: CoverageSettings,
    /// Authentication of callers. Default: none.
    // One without a method is refused, so the display does not add one with the defaults.
    #[serde(default)]
    #[schemars(with = "Option<Auth>", extend("x-optional" = true))]
    pub auth: Auth,
    /// Web pages that may call. Default: none.
    #[serde(default)]
    pub browsers: Browsers,
    /// Hooks by event; the same block as in a settings.json.
    // Those of hook files in order, then those of the config itself, without disabled
    // hooks and without empty groups.
    #[serde(default, deserialize_with = "set_by_loader")]
    #[schemars(with = "HooksBlock")]
    pub hooks: BTreeMap<EventName, Vec<HookGroup>>,
    /// Policies, each on every event that it supports. They run before hooks, and again
    /// on what hooks changed.
    #[serde(default)]
    #[schemars(extend("default" = []))]
    pub policies: Vec<PolicySpec>,
    /// Interval and timeouts of the proofs of policies and hooks with `must_deny`, `must_allow` or
    /// `must_mask`.
    #[serde(default)]
    pub proof: ProofSettings,
    /// settings.json files whose hooks also run, in this order, before `hooks`.
    #[serde(default, deserialize_with = "set_by_loader")]
    #[schemars(extend("default" = []))]
    pub(crate) hook_files: Vec<HookFile>,
    /// Switches for all hooks.
    #[serde(default, rename = "hooksConfig", deserialize_with = "set_by_loader")]
    pub(crate) hook_switches: Switches,
    /// Defaults for all hooks.
    #[serde(default, deserialize_with = "set_by_loader")]
    pub(crate) hook_defaults: HookDefaults,
    /// Names of tools that mean the same as others, in addition to the built-in ones, or
    /// instead of them.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ToolMeaningSchema>", extend("default" = {}))]
    pub tool_names: BTreeMap<String, ToolMeaning>,
    /// Working directory of hook processes. Default: the directory of the config file.
    // Absolute, once it is set.
    #[serde(default)]
    #[schemars(with = "Option<FilePathSchema>", extend("default" = null))]
    pub hook_directory: PathBuf,
    /// Form in which a denial is returned to the agent.
    #[serde(default)]
    pub denials: Denials,
    /// The decision for a hook's `ask` where the user cannot be asked.
    #[serde(default)]
    pub ask: AskMode,
    /// Input of `AfterModel` hooks for a streamed response: each chunk or the whole response.
    #[serde(default)]
    pub after_model: AfterModelMode,
    /// Events that are derived from model calls.
    #[serde(default)]
    pub events: EventSettings,
    /// Tracking of agents' sessions.
    #[serde(default)]
    pub sessions: SessionSettings,
    /// Limits of size and number.
    #[serde(default)]
    pub limits: Limits,
    /// Timeouts of connections, requests and shutdown.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Logs of this process.
    #[serde(default)]
    pub log: LogSettings,
    /// The audit log of requests, events and decisions. Default: none is written.
    pub audit: Option<AuditSettings>,
    /// Recordings of exchanges with their content. Default: none.
    pub record: Option<RecordSettings>,
    /// Exporters of traces and logs.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// The live trace of exchanges, in memory.
    #[serde(default)]
    pub trace: TraceSettings,
    /// The folder in which configs that were in use are kept. Default: none are kept.
    pub revisions: Option<RevisionSettings>,
    /// The rollout of another config to a share of the sessions. Default: none.
    pub rollout: Option<RolloutSettings>,
    /// Bundles with policies and hooks, instead of those in this file. Default: none.
    pub source: Option<SourceSettings>,
    /// Another config that evaluates a share of the live calls. Default: none.
    pub shadow: Option<ShadowSettings>,
    /// Positions of the addresses of the listeners.
    #[serde(skip)]
    pub listener_spans: ListenerSpans,
    /// Position of the setting `rollout.to`.
    #[serde(skip)]
    pub rollout_span: SourceSpan,
    /// Position of the setting `shadow.config`.
    #[serde(skip)]
    pub shadow_span: SourceSpan,
    /// Policies made of the models and tools that each caller may use. They run after
    /// all others and see their edits.
    #[serde(skip)]
    pub caller_policies: Vec<PolicySpec>,
    /// Hooks that a switch disables, by event.
    #[serde(skip)]
    pub disabled_hooks: Vec<(EventName, HookSpec)>,
    /// The version: a SHA-256 over the config, its hook files, bundles and case files, shortened
    /// to 16 digits. Secrets are not included.
    #[serde(skip)]
    pub version: String,
    /// The config for display, without secrets.
    #[serde(skip)]
    pub document: Arc<ConfigDocument>,
    /// All files of the config: the config itself, hook files, secret files.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// Texts of the files that the config was loaded from, secrets not included.
    #[serde(skip)]
    pub texts: Arc<ConfigFiles>,
    /// The bundles whose policies and hooks the config has, the organisation's first.
    #[serde(skip)]
    pub layers: Vec<PolicyLayer>,
    /// Settings that are valid but probably not intended.
    #[serde(skip)]
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Returns all hooks that no switch disables.
    pub fn enabled_hooks(&self) -> impl Iterator<Item = &HookSpec> {
        let groups = self.hooks.values().flatten();
        groups.flat_map(|group| &group.hooks)
    }

    /// Returns all hooks that no switch disables, for changing them.
    pub fn enabled_hooks_mut(&mut self) -> impl Iterator<Item = &mut HookSpec> {
        let groups = self.hooks.values_mut().flatten();
        groups.flat_map(|group| &mut group.hooks)
    }

    /// Returns the hooks that could deny something, or exclude tools, but let it pass when they
    /// fail.
    pub fn guards_that_fail_open(&self) -> impl Iterator<Item = (EventName, &HookSpec)> {
        self.guards(FailureMode::Open)
    }

    /// Returns the hooks that fail closed and have no case that proves them.
    pub fn guards_without_proof(&self) -> impl Iterator<Item = (EventName, &HookSpec)> {
        let closed = self.guards(FailureMode::Closed);
        closed.filter(|(event, hook)| event.is_provable() && hook.proof.is_empty())
    }

    /// Returns the names of hooks that fail closed or have a proof, and of policies with a proof;
    /// hooks each with its event.
    pub fn strict_guards(&self) -> BTreeSet<(Option<EventName>, &str)> {
        let hooks = self.hooks.iter().flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|group| &group.hooks);
            let strict = hooks
                .filter(|hook| hook.on_failure == FailureMode::Closed || !hook.proof.is_empty());
            strict.map(|hook| (Some(*event), hook.label()))
        });
        let policies = self.policies.iter();
        let policies = policies.filter(|policy| !policy.proof.is_empty());
        hooks
            .chain(policies.map(|policy| (None, policy.label())))
            .collect()
    }

    /// Returns the URL of the Redis in which callers are limited for all replicas together.
    pub const fn limits_redis(&self) -> Option<&Secret> {
        let store = match &self.auth.limits.store {
            Some(store) => store,
            None => &self.sessions.store,
        };
        store.redis()
    }

    /// Removes files, recordings, exporters, shared stores, prewarmed processes and proofs.
    pub fn isolate(&mut self) {
        (self.audit, self.record, self.telemetry.otlp) = (None, None, None);
        self.sessions.transcripts = None;
        self.sessions.store = StoreSettings::Memory;
        for policy in &mut self.policies {
            policy.proof = ProofCases::default();
        }
        for hook in self.enabled_hooks_mut() {
            hook.proof = ProofCases::default();
            hook.settings.0.shift_remove("prewarm");
        }
    }

    /// Removes `shadow: true` of all hooks.
    pub fn remove_shadow_hooks(&mut self) {
        for hook in self.enabled_hooks_mut() {
            hook.shadow = false;
        }
    }

    /// Returns the hooks with this failure mode that could deny something, or exclude tools.
    fn guards(&self, mode: FailureMode) -> impl Iterator<Item = (EventName, &HookSpec)> {
        let hooks = self.hooks.iter().flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|group| &group.hooks);
            hooks.map(|hook| (*event, hook))
        });
        hooks.filter(move |(event, hook)| {
            let is_guard = event.can_fail_closed() && hook.mode == HookMode::Enforce;
            is_guard && hook.on_failure == mode && hook.kind != BUILTIN
        })
    }
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8787))
}
