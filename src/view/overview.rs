//! The state of the gateway at one look.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::config::applied;
use crate::{
    audit_log::AuditLog,
    config::{Config, HookSpec, StoreSettings},
    dialect::Api,
    event::EventName,
    observe::{AUDIT_SINK, ExportFailure, Metrics, otlp::Signal, trace::TraceStatus},
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
    /// Size of the live trace, which keeps the last calls.
    pub trace: TraceStatus,
    /// Replicas that share the Redis, this one included, at its last heartbeat; 0 before the
    /// first, absent without a Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u64>,
    /// Hooks that could deny something but let it pass when they fail.
    pub guards_failing_open: Vec<GuardHook>,
    /// Hooks that fail closed and have no case that proves them.
    pub guards_without_proof: Vec<GuardHook>,
    /// The config in use.
    pub config: ConfigStatus,
    /// Upstreams that are configured.
    pub upstreams: Vec<UpstreamStatus>,
    /// The store of sessions.
    pub session_store: SessionStoreStatus,
    /// The decision log, if it is written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_log: Option<DecisionLogStatus>,
    /// Recordings, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingStatus>,
    /// Signals that the OTLP collector is sent, if there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub otlp: Vec<OtlpStatus>,
}

/// A hook that could deny something.
#[derive(Debug, Serialize, ToSchema)]
pub struct GuardHook {
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
    /// Its HTTP sink, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkStatus>,
}

/// State of the decision log's HTTP sink.
#[derive(Debug, Serialize, ToSchema)]
pub struct SinkStatus {
    /// Written lines that are not sent yet.
    pub lag_lines: i64,
    /// Lines that were sent since the start of the process.
    pub sent_lines: u64,
    /// Lines that the endpoint refused for good.
    pub refused_lines: u64,
    /// Lines that rotation removed or the disk damaged before they were sent.
    pub lost_lines: u64,
    /// Last failed attempt since the start of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<ExportFailure>,
}

/// State of the recordings since the start of the process.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordingStatus {
    /// Exchanges that were written.
    pub exchanges: u64,
    /// Exchanges that are missing.
    pub dropped: u64,
    /// Failures to write, and segments that could not be removed or were removed too early.
    pub failures: u64,
}

/// State of the export of one signal to the OTLP collector.
#[derive(Debug, Serialize, ToSchema)]
pub struct OtlpStatus {
    /// Signal: `traces` or `logs`.
    pub signal: &'static str,
    /// Spans or log records that were sent since the start of the process.
    pub sent: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Last failed attempt since the start of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<ExportFailure>,
}

/// Returns the state of the gateway.
pub fn overview(app: &App) -> Overview {
    let snapshot = app.snapshot();
    let resources = &app.resources;
    let metrics = &resources.metrics;
    let config = &snapshot.config;
    let applied = applied(app);
    let age = applied.map_or(0, |time| Timestamp::now().duration_since(time).as_secs());
    Overview {
        shutting_down: resources.draining.is_cancelled(),
        calls_per_second: resources.traffic.calls_per_second(),
        in_flight: metrics.in_flight.get(),
        connections: metrics.connections.get(),
        sessions: snapshot.sessions.store().count(),
        trace: resources.trace.status(),
        replicas: snapshot.shared.fleet.as_ref().map(|fleet| fleet.replicas()),
        guards_failing_open: guards(config.guards_that_fail_open()),
        guards_without_proof: guards(config.guards_without_proof()),
        config: ConfigStatus {
            version: config.version.clone(),
            applied: applied.map(rfc3339).unwrap_or_default(),
            age_s: u64::try_from(age).unwrap_or_default(),
            warnings: snapshot.warnings().len(),
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
        decision_log: config.audit.as_ref().map(|audit| DecisionLogStatus {
            failing: snapshot.audit.as_deref().is_some_and(AuditLog::is_failing),
            lines: metrics.audit_lines.get(),
            dropped_lines: metrics.audit_dropped_lines.get(),
            sink: audit.sink.as_ref().map(|_| sink(metrics)),
        }),
        recording: config.record.as_ref().map(|_| RecordingStatus {
            exchanges: metrics.recording_exchanges.get(),
            dropped: metrics.recording_dropped.get(),
            failures: metrics.recording_failures.get(),
        }),
        otlp: otlp(config, metrics),
    }
}

fn guards<'a>(hooks: impl Iterator<Item = (EventName, &'a HookSpec)>) -> Vec<GuardHook> {
    let guards = hooks.map(|(event, hook)| GuardHook {
        event: event.as_str(),
        hook: hook.label().to_owned(),
        at: format!("{}:{}", hook.span.file.display(), hook.span.line),
    });
    guards.collect()
}

fn sink(metrics: &Metrics) -> SinkStatus {
    let lines = |outcome: &'static str| metrics.audit_sink_lines.with([outcome.into()]).get();
    SinkStatus {
        lag_lines: metrics.audit_sink_lag.get(),
        sent_lines: lines("sent"),
        refused_lines: lines("refused"),
        lost_lines: lines("lost"),
        last_failure: metrics.export_failures.last(AUDIT_SINK),
    }
}

/// Returns the state of each signal that the collector is sent.
fn otlp(config: &Config, metrics: &Metrics) -> Vec<OtlpStatus> {
    let Some(collector) = &config.telemetry.otlp else {
        return Vec::new();
    };
    let signals = [
        (collector.traces, Signal::Traces.as_str()),
        (collector.logs, Signal::Logs.as_str()),
    ];
    let items = |signal: &'static str, outcome: &'static str| {
        let labels = [signal.into(), outcome.into()];
        metrics.otlp_items.with(labels).get()
    };
    let sent = signals.into_iter().filter(|(is_sent, _)| *is_sent);
    let statuses = sent.map(|(_, signal)| OtlpStatus {
        signal,
        sent: items(signal, "sent"),
        dropped: items(signal, "dropped"),
        last_failure: metrics.export_failures.last(signal),
    });
    statuses.collect()
}

/// Returns the configured upstreams, also of the config that is rolled out, and every fallback
/// whose circuit breaker is open.
fn upstreams(snapshot: &Snapshot) -> Vec<UpstreamStatus> {
    let open = snapshot.open_circuits();
    let apis = Api::ALL.into_iter();
    let is_served = |api| snapshot.arms().any(|arm| arm.upstreams.get(api).is_some());
    let configured = apis.filter(|api| is_served(*api));
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
