//! The config: parsed once into types that cannot hold invalid settings.
//!
//! - `settings` declares the types, which are also the source of the JSON Schema;
//! - `schema` generates that schema and validates documents against it;
//! - `load` resolves secrets, files and defaults, and deserializes the result.
//!
//! All problems are reported at once, each with its position. This module starts
//! nothing. Transports, protocols, policies and methods are known by the
//! [`Registry`] that the caller passes.
//!
//! To add a setting, add a field to a type in `settings` and a line to
//! `docs/config.md`, and regenerate `config/schema.json` by
//! `UPDATE=1 cargo test --lib config::`. A new secret also needs a line in
//! `load/secrets.rs`, and a field of one type of hook a line in `FIELDS` in
//! `settings/hooks.rs`.

mod config_document;
mod config_files;
mod load;
mod matcher;
mod overrides;
mod policy_layer;
mod registry;
mod schema;
mod secret;
mod setting_origins;
mod settings;
mod source_span;
mod spanned_yaml;
mod start_settings;
mod units;

pub use self::{
    config_document::{ConfigDocument, ConfigSection, YamlValue, to_yaml},
    config_files::ConfigFiles,
    matcher::Matcher,
    overrides::{MissingSecrets, Overrides},
    policy_layer::{BUNDLE_CONFIG, BundleCapability, BundleTrust, PolicyLayer},
    registry::{Format, PolicyShape, Registry},
    secret::{PLACEHOLDER_SECRET, Secret},
    settings::{
        admin_users::{AdminRole, AdminUser, LoginSettings, TOKEN_USER},
        audit::{
            AuditMode, AuditSettings, Rotation,
            sink::{AuditSinkSettings, MASKABLE_FIELDS, SinkBatch, SinkFormat, SinkMask},
        },
        auth::{
            Auth, Browsers, CALLER_NAME, CERTIFICATE_PREFIX, CallerLimits, CertificateName, Grant,
            JwksOrigin, JwtSpec, KeySpec, MtlsSpec, OnStoreLoss, TOKEN_PREFIX, is_caller_name,
        },
        config_file::Config,
        coverage::{CompactionMode, CoverageSettings, StoreMode},
        decisions::{AfterModelMode, AskMode, Denials},
        hooks::{AnswerBy, BUILTIN, FailureMode, HookGroup, HookSpec},
        limits::{Limits, Timeouts},
        listeners::{AdminSettings, ClientCertificates, ListenerSpans, Tls},
        policies::{CallerPattern, HookMode, HookSettings, PolicySpec, When},
        proofs::{
            ProofCase, ProofCases, ProofEntry, ProofSettings, ProofToolCall, ProofToolResult,
        },
        record::{
            RecordRedaction, RecordRetention, RecordSelection, RecordSettings, RecordedKind,
            SampleUnit,
        },
        revisions::{
            RevisionSettings,
            source::{BundleOrigin, PollRange, SourceSettings},
        },
        rollout::{
            AbortConditions, RolloutSettings, RolloutUnit,
            shadow::{CpuShare, ShadowBudget, ShadowHooks, ShadowSettings},
        },
        sessions::{EventSettings, SessionSettings, StoreSettings},
        system_messages::SystemMessages,
        telemetry::{LogLevel, LogLineFormat, LogSettings, OtlpSettings, Telemetry},
        tool_names::ToolMeaning,
        trace::{ContentSettings, TraceSettings},
        upstreams::{
            CircuitSettings, FallbackConfig, HeaderText, UpstreamConfig, UpstreamCredential,
            UpstreamsConfig,
        },
    },
    source_span::{ConfigError, Problem, SourceSpan},
    units::{Size, parse_duration},
};
pub(crate) use self::{
    schema::{UnknownKeys, formats::is_http_url, scalars::FilePathSchema, validate},
    spanned_yaml::{SpannedYaml, escape_key},
};

#[cfg(test)]
mod tests;
