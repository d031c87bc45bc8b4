//! Prometheus metrics. Names, labels and help texts of all of them are in this file.

pub(super) mod bundles;
mod errors;
mod exports;
mod initial_series;
mod shadow;
mod upstreams;

use std::{borrow::Cow, collections::BTreeMap, fmt, time::Duration};

use prometheus_client::{
    encoding::text,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use serde::Serialize;

use super::{export_failures::ExportFailures, kept_series::KeptSeries};
use crate::{
    event::{EventName, HookStatus},
    mutex::Mutex,
};

/// Names and values of the labels of a series.
type Labels<const COUNT: usize> = [(&'static str, Cow<'static, str>); COUNT];

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
    requests: Family<Labels<3>, Counter> = "requests";
    /// Time from a request's head to the end of its response.
    request_duration: Family<Labels<1>, Histogram> = "request_duration_seconds", duration_histograms();
    /// Errors of hookgate's own that agents received, by reason.
    errors: Family<Labels<1>, Counter> = "errors";
    /// Hook runs, by event, hook and status.
    hook_runs: Family<Labels<3>, Counter> = "hook_runs";
    /// Duration of hook runs, by event and hook.
    hook_duration: Family<Labels<2>, Histogram> = "hook_duration_seconds", duration_histograms();
    /// Response chunks handed to hooks.
    chunks: Counter = "chunks";
    /// Events that hooks denied or stopped.
    denials: Family<Labels<1>, Counter> = "denials";
    /// Result of the last proof of a guard: 1 if it succeeded, 0 if it failed.
    guard_proven: Family<Labels<1>, Gauge> = "guard_proven";
    /// Version of the config in use.
    config_info: Family<Labels<1>, Gauge> = "config_info";
    /// Config reloads, by outcome.
    config_reloads: Family<Labels<1>, Counter> = "config_reloads";
    /// Requests for bundles, by outcome.
    bundle_fetches: Family<Labels<2>, Counter> = "bundle_fetches";
    /// Time at which the bundle in use was built, in seconds since 1970.
    bundle_created: Family<Labels<1>, Gauge> = "bundle_created_timestamp_seconds";
    /// Freshness of the bundle in use: 1 if it is that of its server, 0 if it may be out of date.
    bundle_is_current: Family<Labels<1>, Gauge> = "bundle_is_current";
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
    rejected_connections: Family<Labels<1>, Counter> = "connections_rejected";
    /// Hook processes that are running.
    pub hook_processes: Gauge = "hook_processes";
    /// Session lookups, by result and by how the session is identified.
    session_lookups: Family<Labels<2>, Counter> = "session_lookups";
    /// Sessions held by this process.
    pub sessions: Gauge = "sessions";
    /// Failed requests to the shared session store.
    pub session_store_failures: Counter = "session_store_failures";
    /// Scope of the limits of callers: 1 if counted in Redis for all replicas, 0 if counted in this
    /// process.
    pub limits_shared: Gauge = "limits_shared";
    /// Failed requests to the Redis of shared limits and heartbeats.
    pub fleet_store_failures: Counter = "fleet_store_failures";
    /// Requests of authenticated callers, by caller and outcome.
    caller_requests: Family<Labels<2>, Counter> = "caller_requests";
    /// Tokens used by callers with a daily quota.
    caller_tokens: Family<Labels<1>, Counter> = "caller_tokens";
    /// Requests rejected because authentication failed, by reason.
    auth_failures: Family<Labels<1>, Counter> = "auth_failures";
    /// Records written to the decision log.
    pub audit_lines: Counter = "audit_lines";
    /// Records missing from the decision log because it could not be written.
    pub audit_dropped_lines: Counter = "audit_dropped_lines";
    /// State of the decision log: 1 if writing it fails, 0 otherwise.
    pub audit_failing: Gauge = "audit_failing";
    /// Lines of the decision log for its HTTP sink, by outcome.
    audit_sink_lines: Family<Labels<1>, Counter> = "audit_sink_lines";
    /// Written lines of the decision log that its HTTP sink has not sent yet.
    pub audit_sink_lag: Gauge = "audit_sink_lag_lines";
    /// Failed attempts of the decision log's HTTP sink, by reason.
    audit_sink_failures: Family<Labels<1>, Counter> = "audit_sink_failures";
    /// Exchanges written to recordings.
    pub recording_exchanges: Counter = "recording_exchanges";
    /// Exchanges missing from recordings, for lack of memory or because writing failed.
    pub recording_dropped: Counter = "recording_dropped";
    /// Failures to write recordings or to remove old ones.
    pub recording_failures: Counter = "recording_failures";
    /// Spans and log records for the OTLP collector, by signal and outcome.
    otlp_items: Family<Labels<2>, Counter> = "otlp_items";
    /// State of the circuit breaker of an upstream: 1 if open, 0 if closed.
    circuit_breaker_open: Family<Labels<1>, Gauge> = "circuit_breaker_open";
    /// Failures of upstreams, by reason.
    upstream_failures: Family<Labels<2>, Counter> = "upstream_failures";
    /// Requests sent to the fallback of an upstream.
    upstream_fallbacks: Family<Labels<1>, Counter> = "upstream_fallbacks";
    /// Records of the live trace that slow subscribers lost.
    pub trace_lost_rows: Counter = "trace_lost_rows";
    /// Details of calls that the live trace did not keep for lack of memory.
    pub trace_dropped_details: Counter = "trace_dropped_details";
    /// Calls that the live trace did not keep for lack of memory.
    pub trace_dropped_records: Counter = "trace_dropped_records";
    /// Share of the sessions under the config that is rolled out, in percent.
    pub rollout_share: Gauge = "rollout_share_percent";
    /// Calls and reported events during a rollout, by config.
    rollout_calls: Family<Labels<1>, Counter> = "rollout_calls";
    /// Rollouts that a difference of the two configs has ended.
    pub rollout_aborts: Counter = "rollout_aborts";
    /// State of the shadow: 1 if it is running, 0 otherwise.
    pub shadow_running: Gauge = "shadow_running";
    /// Results of the shadow, by rule and change.
    shadow_verdicts: Family<Labels<2>, Counter> = "shadow_verdicts";
    /// Exchanges that the shadow did not evaluate, because its queue or memory was full.
    pub shadow_dropped: Counter = "shadow_dropped";
    /// Ends of shadows, by reason.
    shadow_ends: Family<Labels<1>, Counter> = "shadow_ends";
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
        let labels = [("revision", revision.to_owned().into())];
        self.config_info.get_or_create(&labels).set(1);
        self.guard_proven.clear();
        for (name, is_proven) in proven {
            let gauge = self.guard_proven.get_or_create(&[("hook", name.into())]);
            gauge.set(is_proven.into());
        }
        self.set_circuits(circuits);
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
            let labels = [
                ("operation", operation.into()),
                ("status", status.to_string().into()),
                ("action", action.into()),
            ];
            let requests = self.requests.get_or_create(&labels).clone();
            let labels = [("operation", operation.into())];
            let durations = self.request_duration.get_or_create(&labels).clone();
            (key, (requests, durations))
        };
        let (requests, durations) = self.kept.requests.get(|known| *known == key, find);
        requests.inc();
        durations.observe(duration.as_secs_f64());
    }

    /// Counts response chunks that hooks were given.
    pub fn record_chunks(&self, chunks: u64) {
        self.chunks.inc_by(chunks);
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
            let labels = [
                ("event", event.as_str().into()),
                ("hook", hook.to_owned().into()),
            ];
            let durations = self.hook_duration.get_or_create(&labels).clone();
            ((event, hook.to_owned()), durations)
        };
        let is_key = |known: &(EventName, String)| known.0 == event && known.1 == hook;
        let durations = self.kept.hook_duration.get(is_key, find);
        durations.observe(duration.as_secs_f64());
    }

    /// Counts hook runs whose duration was not measured.
    pub fn count_hook_runs(&self, event: EventName, hook: &str, status: HookStatus, runs: u64) {
        let find = || {
            let labels = [
                ("event", event.as_str().into()),
                ("hook", hook.to_owned().into()),
                ("status", status.as_str().into()),
            ];
            let hook_runs = self.hook_runs.get_or_create(&labels).clone();
            ((event, status, hook.to_owned()), hook_runs)
        };
        let is_key = |known: &(EventName, HookStatus, String)| {
            known.0 == event && known.1 == status && known.2 == hook
        };
        self.kept.hook_runs.get(is_key, find).inc_by(runs);
    }

    /// Counts a denied or stopped event.
    pub fn record_denial(&self, event: EventName) {
        let labels = [("event", event.as_str().into())];
        self.denials.get_or_create(&labels).inc();
    }

    /// Counts a call under one of the configs of a rollout.
    pub fn record_rollout_call(&self, arm: &'static str) {
        let labels = [("config", arm.into())];
        self.rollout_calls.get_or_create(&labels).inc();
    }

    /// Counts a config reload.
    pub fn record_reload(&self, outcome: ReloadOutcome) {
        let successful = i64::from(outcome == ReloadOutcome::Applied);
        let labels = [("outcome", outcome.as_str().into())];
        self.config_reloads.get_or_create(&labels).inc();
        self.config_last_reload_successful.set(successful);
    }

    /// Counts a connection that was rejected or closed early.
    pub fn record_rejected_connection(&self, reason: &'static str) {
        self.rejected_connections
            .get_or_create(&[("reason", reason.into())])
            .inc();
    }

    /// Counts a session lookup.
    pub fn record_session_lookup(&self, result: &'static str, source: &'static str) {
        let key = (result, source);
        let find = || {
            let labels = [("result", result.into()), ("source", source.into())];
            (key, self.session_lookups.get_or_create(&labels).clone())
        };
        self.kept
            .session_lookups
            .get(|known| *known == key, find)
            .inc();
    }

    /// Counts a request of an authenticated caller. `caller` is a name from the config,
    /// or `other`: names from tokens and certificates must not become label values.
    pub fn record_caller_request(&self, caller: &str, outcome: &'static str) {
        let labels = [
            ("caller", caller.to_owned().into()),
            ("outcome", outcome.into()),
        ];
        self.caller_requests.get_or_create(&labels).inc();
    }

    /// Counts tokens used by a caller that has a daily quota.
    pub fn record_caller_tokens(&self, caller: &str, tokens: u64) {
        let labels = [("caller", caller.to_owned().into())];
        self.caller_tokens.get_or_create(&labels).inc_by(tokens);
    }

    /// Counts a request whose authentication failed.
    pub fn record_auth_failure(&self, reason: &'static str) {
        self.auth_failures
            .get_or_create(&[("reason", reason.into())])
            .inc();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Histograms with buckets from 1 ms to about 4 minutes.
fn duration_histograms<L: Clone + std::hash::Hash + Eq>() -> Family<L, Histogram> {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10)))
}

fn gauge_at(value: i64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}
