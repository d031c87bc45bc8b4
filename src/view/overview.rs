//! The state of the gateway at one look.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::config::applied;
use crate::{
    config::StoreSettings,
    dialect::Api,
    hook,
    state::{App, Snapshot},
    timestamp::rfc3339,
};

/// The state of the gateway at one look.
#[derive(Debug, Serialize, ToSchema)]
pub struct Overview {
    /// True if the gateway is shutting down.
    pub shutting_down: bool,
    /// Model calls per second, averaged over the last minute.
    pub calls_per_second: f64,
    /// Requests in flight, once their body is received.
    pub in_flight: i64,
    /// Open connections on all listeners.
    pub connections: i64,
    /// Sessions held by this process.
    pub sessions: usize,
    /// Hooks that could deny something but let it pass when they fail.
    pub guards_failing_open: Vec<OpenGuard>,
    /// The config in use.
    pub config: ConfigStatus,
    /// Upstreams that are configured.
    pub upstreams: Vec<UpstreamStatus>,
    /// The store of sessions.
    pub session_store: SessionStoreStatus,
    /// The decision log, if it is written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_log: Option<DecisionLogStatus>,
}

/// A hook that could deny something but lets it pass when it fails.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenGuard {
    /// Name of the event.
    pub event: &'static str,
    /// Name of the hook.
    pub hook: String,
    /// File and line of the config.
    pub at: String,
}

/// The config in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigStatus {
    /// Version of the config, as in the decision log.
    pub version: String,
    /// Time since which it is in use: RFC 3339 in UTC.
    pub applied: String,
    /// Seconds since that time.
    pub age_s: u64,
    /// Number of settings that are probably not intended.
    pub warnings: usize,
    /// True if the last reload was refused.
    pub last_reload_refused: bool,
}

/// State of one upstream.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpstreamStatus {
    /// Name in `upstreams`, or of its fallback, as in `/metrics`.
    pub name: String,
    /// True if its circuit breaker is open.
    pub circuit_open: bool,
}

/// The store of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionStoreStatus {
    /// Kind: `memory` or `redis`.
    pub kind: &'static str,
    /// Failed requests to the store since the start of the process.
    pub failures: u64,
}

/// State of the decision log.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecisionLogStatus {
    /// True if writing currently fails.
    pub failing: bool,
    /// Records that were written since the start of the process.
    pub lines: u64,
    /// Records that are missing, because they could not be written.
    pub dropped_lines: u64,
}

/// Returns the state of the gateway.
pub fn overview(app: &App) -> Overview {
    let snapshot = app.snapshot();
    let resources = &app.resources;
    let metrics = &resources.metrics;
    let config = &snapshot.config;
    let applied = applied(app);
    let age = applied.map_or(0, |time| Timestamp::now().duration_since(time).as_secs());
    let guards = config.guards_that_fail_open();
    let guards = guards.map(|(event, hook)| OpenGuard {
        event: event.as_str(),
        hook: hook.label().to_owned(),
        at: format!("{}:{}", hook.span.file.display(), hook.span.line),
    });
    Overview {
        shutting_down: resources.draining.is_cancelled(),
        calls_per_second: resources.traffic.calls_per_second(),
        in_flight: metrics.in_flight.get(),
        connections: metrics.connections.get(),
        sessions: snapshot.sessions.store().count(),
        guards_failing_open: guards.collect(),
        config: ConfigStatus {
            version: config.version.clone(),
            applied: applied.map(rfc3339).unwrap_or_default(),
            age_s: u64::try_from(age).unwrap_or_default(),
            warnings: hook::warnings(config).len(),
            last_reload_refused: app.refused_reload().is_some(),
        },
        upstreams: upstreams(&snapshot),
        session_store: SessionStoreStatus {
            kind: match config.sessions.store {
                StoreSettings::Memory => "memory",
                StoreSettings::Redis { .. } => "redis",
            },
            failures: metrics.session_store_failures.get(),
        },
        decision_log: config.audit.as_ref().map(|_| DecisionLogStatus {
            failing: metrics.audit_failing.get() != 0,
            lines: metrics.audit_lines.get(),
            dropped_lines: metrics.audit_dropped_lines.get(),
        }),
    }
}

/// Returns the configured upstreams, and every fallback whose circuit breaker is open.
fn upstreams(snapshot: &Snapshot) -> Vec<UpstreamStatus> {
    let open: Vec<&str> = snapshot.upstreams.open_circuits().collect();
    let apis = Api::ALL.into_iter();
    let configured = apis.filter(|api| snapshot.upstreams.get(*api).is_some());
    let mut names: Vec<&str> = configured.map(Api::upstream).collect();
    names.extend(&open);
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    let statuses = names.into_iter().map(|name| UpstreamStatus {
        name: name.to_owned(),
        circuit_open: open.contains(&name),
    });
    statuses.collect()
}
