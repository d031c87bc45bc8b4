//! Prometheus metrics. Names, labels and help texts of all of them are in this file.

pub(super) mod bundles;
mod initial_series;
mod labelled;

use std::{collections::BTreeMap, fmt, time::Duration};

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use serde::Serialize;

use self::labelled::Labelled;
use super::{export_failures::ExportFailures, kept_series::KeptSeries};
use crate::{
    event::{EventName, HookStatus},
    mutex::Mutex,
};

/// Declares [`Metrics`] and registers its fields: `help`, field, type and name; the
/// registry puts `hookgate_` before the name. An expression after the name replaces
/// the default value.
macro_rules! metrics {
    (@initial $kind:ty) => { <$kind>::default() };
    (@initial $kind:ty, $initial:expr) => { $initial };
    ($($(#[doc = $help:literal])+ $vis:vis $field:ident: $kind:ty = $name:literal $(, $initial:expr)?;)+) => {
        /// All metrics of a process. Label values come from the config and from fixed
        /// lists, never from requests, so the number of series is bounded.
        pub struct Metrics {
            registry: Registry,
            /// Locked while metrics of the current config are replaced and written.
            scrape: Mutex<()>,
            /// Series that each call counts.
            kept: FrequentSeries,
            /// Last failures of exports, for the overview.
            pub export_failures: ExportFailures,
            $($(#[doc = $help])+ $vis $field: $kind,)+
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("hookgate");
                $(
                    let $field: $kind = metrics!(@initial $kind $(, $initial)?);
                    // The registry adds the full stop.
                    let help = concat!($($help),+).trim().trim_end_matches('.');
                    registry.register($name, help, $field.clone());
                )+
                let metrics = Self {
                    registry,
                    scrape: Mutex::default(),
                    kept: FrequentSeries::default(),
                    export_failures: ExportFailures::default(),
                    $($field,)+
                };
                metrics.create_fixed_series();
                metrics
            }
        }
    };
}

metrics! {
    /// Requests answered, by operation, status and action.
    requests: Labelled<Counter, 3> = "requests", Labelled::new(["operation", "status", "action"]);
    /// Time from a request's head to the end of its response.
    request_duration: Labelled<Histogram, 1> = "request_duration_seconds",
        Labelled::durations(["operation"]);
    /// Errors of hookgate's own that agents received, by reason.
    pub errors: Labelled<Counter, 1> = "errors", Labelled::new(["reason"]);
    /// Hook runs, by event, hook and status.
    hook_runs: Labelled<Counter, 3> = "hook_runs", Labelled::new(["event", "hook", "status"]);
    /// Duration of hook runs, by event and hook.
    hook_duration: Labelled<Histogram, 2> = "hook_duration_seconds",
        Labelled::durations(["event", "hook"]);
    /// Response chunks handed to hooks.
    pub chunks: Counter = "chunks";
    /// Events that hooks denied or stopped.
    pub denials: Labelled<Counter, 1> = "denials", Labelled::new(["event"]);
    /// Result of the last proof of a guard: 1 if it succeeded, 0 if it failed.
    guard_proven: Labelled<Gauge, 1> = "guard_proven", Labelled::new(["hook"]);
    /// Version of the config in use.
    config_info: Labelled<Gauge, 1> = "config_info", Labelled::new(["revision"]);
    /// Config reloads, by outcome.
    config_reloads: Labelled<Counter, 1> = "config_reloads", Labelled::new(["outcome"]);
    /// Requests for bundles, by outcome.
    pub bundle_fetches: Labelled<Counter, 2> = "bundle_fetches",
        Labelled::new(["bundle", "outcome"]);
    /// Time at which the bundle in use was built, in seconds since 1970.
    pub bundle_created: Labelled<Gauge, 1> = "bundle_created_timestamp_seconds",
        Labelled::new(["bundle"]);
    /// Freshness of the bundle in use: 1 if it is that of its server, 0 if it may be out of date.
    pub bundle_is_current: Labelled<Gauge, 1> = "bundle_is_current", Labelled::new(["bundle"]);
    /// Result of the last config reload: 1 if it succeeded, 0 if it was rejected.
    config_last_reload_successful: Gauge = "config_last_reload_successful", gauge_at(1);
    /// Requests in flight, once they are authenticated and their body is received.
    pub in_flight: Gauge = "in_flight";
    /// Requests that are being authenticated, or whose body is being received.
    pub receiving: Gauge = "receiving";
    /// Bytes of requests and responses that are buffered.
    pub buffered_bytes: Gauge = "buffered_bytes";
    /// Open connections on all listeners.
    pub connections: Gauge = "connections";
    /// Connections rejected or closed early, by reason.
    pub rejected_connections: Labelled<Counter, 1> = "connections_rejected",
        Labelled::new(["reason"]);
    /// Hook processes that are running.
    pub hook_processes: Gauge = "hook_processes";
    /// Session lookups, by result and by how the session is identified.
    session_lookups: Labelled<Counter, 2> = "session_lookups", Labelled::new(["result", "source"]);
    /// Sessions held by this process.
    pub sessions: Gauge = "sessions";
    /// Failed requests to the shared session store.
    pub session_store_failures: Counter = "session_store_failures";
    /// Scope of the limits of callers: 1 if counted in Redis for all replicas, 0 if counted in this
    /// process.
    pub limits_shared: Gauge = "limits_shared";
    /// Failed requests to the Redis of shared limits and heartbeats.
    pub fleet_store_failures: Counter = "fleet_store_failures";
    // The caller is a name from the config, or `other`: names from tokens and certificates must
    // not become label values.
    /// Requests of authenticated callers, by caller and outcome.
    pub caller_requests: Labelled<Counter, 2> = "caller_requests",
        Labelled::new(["caller", "outcome"]);
    /// Tokens used by callers with a daily quota.
    pub caller_tokens: Labelled<Counter, 1> = "caller_tokens", Labelled::new(["caller"]);
    /// Requests rejected because authentication failed, by reason.
    pub auth_failures: Labelled<Counter, 1> = "auth_failures", Labelled::new(["reason"]);
    /// Records written to the decision log.
    pub audit_lines: Counter = "audit_lines";
    /// Records missing from the decision log because it could not be written.
    pub audit_dropped_lines: Counter = "audit_dropped_lines";
    /// State of the decision log: 1 if writing it fails, 0 otherwise.
    pub audit_failing: Gauge = "audit_failing";
    // Lines are `sent`, `refused` or `lost`.
    /// Lines of the decision log for its HTTP sink, by outcome.
    pub audit_sink_lines: Labelled<Counter, 1> = "audit_sink_lines", Labelled::new(["outcome"]);
    /// Written lines of the decision log that its HTTP sink has not sent yet.
    pub audit_sink_lag: Gauge = "audit_sink_lag_lines";
    /// Failed attempts of the decision log's HTTP sink, by reason.
    pub audit_sink_failures: Labelled<Counter, 1> = "audit_sink_failures",
        Labelled::new(["reason"]);
    /// Exchanges written to recordings.
    pub recording_exchanges: Counter = "recording_exchanges";
    /// Exchanges missing from recordings, for lack of memory or because writing failed.
    pub recording_dropped: Counter = "recording_dropped";
    /// Failures to write recordings or to remove old ones.
    pub recording_failures: Counter = "recording_failures";
    // Items of the signals `traces` and `logs` are `sent` or `dropped`.
    /// Spans and log records for the OTLP collector, by signal and outcome.
    pub otlp_items: Labelled<Counter, 2> = "otlp_items", Labelled::new(["signal", "outcome"]);
    /// State of the circuit breaker of an upstream: 1 if open, 0 if closed.
    circuit_breaker_open: Labelled<Gauge, 1> = "circuit_breaker_open", Labelled::new(["upstream"]);
    /// Failures of upstreams, by reason.
    pub upstream_failures: Labelled<Counter, 2> = "upstream_failures",
        Labelled::new(["upstream", "reason"]);
    /// Requests sent to the fallback of an upstream.
    pub upstream_fallbacks: Labelled<Counter, 1> = "upstream_fallbacks",
        Labelled::new(["upstream"]);
    /// Records of the live trace that slow subscribers lost.
    pub trace_lost_rows: Counter = "trace_lost_rows";
    /// Details of calls that the live trace did not keep for lack of memory.
    pub trace_dropped_details: Counter = "trace_dropped_details";
    /// Calls that the live trace did not keep for lack of memory.
    pub trace_dropped_records: Counter = "trace_dropped_records";
    /// Share of the sessions under the config that is rolled out, in percent.
    pub rollout_share: Gauge = "rollout_share_percent";
    /// Calls and reported events during a rollout, by config.
    pub rollout_calls: Labelled<Counter, 1> = "rollout_calls", Labelled::new(["config"]);
    /// Rollouts that a difference of the two configs has ended.
    pub rollout_aborts: Counter = "rollout_aborts";
    /// State of the shadow: 1 if it is running, 0 otherwise.
    pub shadow_running: Gauge = "shadow_running";
    // The rule is a name from a config, or empty.
    /// Results of the shadow, by rule and change.
    pub shadow_verdicts: Labelled<Counter, 2> = "shadow_verdicts",
        Labelled::new(["rule", "change"]);
    /// Exchanges that the shadow did not evaluate, because its queue or memory was full.
    pub shadow_dropped: Counter = "shadow_dropped";
    /// Ends of shadows, by reason.
    pub shadow_ends: Labelled<Counter, 1> = "shadow_ends", Labelled::new(["reason"]);
    /// Bytes that the live trace holds, exchanges in flight included.
    pub trace_bytes: Gauge = "trace_bytes";
}

/// Series that each call counts.
#[derive(Default)]
struct FrequentSeries {
    /// By operation, status and action.
    requests: KeptSeries<(&'static str, u16, &'static str), (Counter, Histogram)>,
    /// By event, status and hook.
    hook_runs: KeptSeries<(EventName, HookStatus, String), Counter>,
    /// By event and hook.
    hook_duration: KeptSeries<(EventName, String), Histogram>,
    /// By result and source.
    session_lookups: KeptSeries<(&'static str, &'static str), Counter>,
}

/// Outcome of a config reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The new config is in force.
    Applied,
    /// The new config has errors; the previous one stays in force.
    Rejected,
}

impl ReloadOutcome {
    /// Returns the label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Rejected => "rejected",
        }
    }
}

impl Metrics {
    /// Returns all metrics in the `OpenMetrics` text format, with the version of the config in
    /// use, its guards, and whether they are proven, and its circuit breakers, and whether they
    /// are open.
    pub fn to_text_with_config<'a>(
        &self,
        revision: &str,
        guards: impl Iterator<Item = (String, bool)>,
        circuits: impl Iterator<Item = (&'a str, bool)>,
    ) -> String {
        let _scrape = self.scrape.lock();
        let mut proven: BTreeMap<String, bool> = BTreeMap::new();
        for (name, is_proven) in guards {
            *proven.entry(name).or_insert(true) &= is_proven;
        }
        self.config_info.clear();
        self.config_info.with([revision.to_owned().into()]).set(1);
        self.guard_proven.clear();
        for (name, is_proven) in proven {
            let gauge = self.guard_proven.with([name.into()]);
            gauge.set(is_proven.into());
        }
        self.circuit_breaker_open.clear();
        for (name, is_open) in circuits {
            let gauge = self.circuit_breaker_open.with([name.to_owned().into()]);
            gauge.set(is_open.into());
        }
        self.to_text()
    }

    /// Returns all metrics in the `OpenMetrics` text format.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing into a `String` cannot fail.
        let _infallible = text::encode(&mut out, &self.registry);
        out
    }

    /// Counts an answered request and its duration.
    pub fn record_request(
        &self,
        operation: &'static str,
        status: u16,
        action: &'static str,
        duration: Duration,
    ) {
        let key = (operation, status, action);
        let find = || {
            let values = [operation.into(), status.to_string().into(), action.into()];
            let durations = self.request_duration.with([operation.into()]);
            (key, (self.requests.with(values), durations))
        };
        let (requests, durations) = self.kept.requests.get(|known| *known == key, find);
        requests.inc();
        durations.observe(duration.as_secs_f64());
    }

    /// Counts a hook run and its duration.
    pub fn record_hook_run(
        &self,
        event: EventName,
        hook: &str,
        status: HookStatus,
        duration: Duration,
    ) {
        self.count_hook_runs(event, hook, status, 1);
        let find = || {
            let values = [event.as_str().into(), hook.to_owned().into()];
            ((event, hook.to_owned()), self.hook_duration.with(values))
        };
        let is_key = |known: &(EventName, String)| known.0 == event && known.1 == hook;
        let durations = self.kept.hook_duration.get(is_key, find);
        durations.observe(duration.as_secs_f64());
    }

    /// Counts hook runs whose duration was not measured.
    pub fn count_hook_runs(&self, event: EventName, hook: &str, status: HookStatus, runs: u64) {
        let find = || {
            let hook_runs = self.hook_runs(event, hook, status);
            ((event, status, hook.to_owned()), hook_runs)
        };
        let is_key = |known: &(EventName, HookStatus, String)| {
            known.0 == event && known.1 == status && known.2 == hook
        };
        self.kept.hook_runs.get(is_key, find).inc_by(runs);
    }

    fn hook_runs(&self, event: EventName, hook: &str, status: HookStatus) -> Counter {
        let (event, status) = (event.as_str().into(), status.as_str().into());
        self.hook_runs.with([event, hook.to_owned().into(), status])
    }

    /// Counts a config reload.
    pub fn record_reload(&self, outcome: ReloadOutcome) {
        let successful = i64::from(outcome == ReloadOutcome::Applied);
        self.config_reloads.with([outcome.as_str().into()]).inc();
        self.config_last_reload_successful.set(successful);
    }

    /// Counts a session lookup.
    pub fn record_session_lookup(&self, result: &'static str, source: &'static str) {
        let key = (result, source);
        let find = || {
            let values = [result.into(), source.into()];
            (key, self.session_lookups.with(values))
        };
        let lookups = self.kept.session_lookups.get(|known| *known == key, find);
        lookups.inc();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn gauge_at(value: i64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}
