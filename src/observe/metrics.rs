//! Counters, gauges and histograms, and their text for Prometheus.

mod callers;

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use self::callers::CallerMetrics;
use super::ExchangeFinished;
use crate::event::{EventName, HookStatus};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    status: u16,
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabels {
    event: &'static str,
    hook: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookTimeLabels {
    event: &'static str,
    hook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CutLabels {
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    upstream: String,
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExportLabels {
    signal: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ArrivalLabels {
    arrival: &'static str,
    source: &'static str,
}

/// Everything that is counted. Labels come from the config and from fixed
/// lists, never from requests, so their number is bounded.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_time: Family<OperationLabels, Histogram>,
    hook_runs: Family<HookLabels, Counter>,
    hook_time: Family<HookTimeLabels, Histogram>,
    chunks: Counter,
    denials: Family<EventLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
    config_good: Gauge,
    arrivals: Family<ArrivalLabels, Counter>,
    /// Who calls.
    pub callers: CallerMetrics,
    cuts: Family<CutLabels, Counter>,
    circuits: Family<UpstreamLabels, Gauge>,
    upstream_failures: Family<FailureLabels, Counter>,
    fallbacks: Family<UpstreamLabels, Counter>,
    exports: Family<ExportLabels, Counter>,
    /// Requests under way.
    pub in_flight: Gauge,
    /// Bytes that are held of requests and answers.
    pub held_bytes: Gauge,
    /// Open connections, of agents and operators.
    pub connections: Gauge,
    /// Hook processes alive.
    pub hook_processes: Gauge,
    /// Sessions that this process remembers.
    pub sessions: Gauge,
    /// Times that Redis did not answer.
    pub store_failures: Counter,
    /// Lines of the decision log.
    pub audit_lines: Counter,
    /// Lines that it lacks.
    pub audit_dropped: Counter,
    /// Whether it cannot be written.
    pub audit_failing: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("hookgate"),
            requests: Family::default(),
            request_time: Family::new_with_constructor(buckets),
            hook_runs: Family::default(),
            hook_time: Family::new_with_constructor(buckets),
            chunks: Counter::default(),
            denials: Family::default(),
            reloads: Family::default(),
            config_good: Gauge::default(),
            arrivals: Family::default(),
            callers: CallerMetrics::default(),
            cuts: Family::default(),
            circuits: Family::default(),
            upstream_failures: Family::default(),
            fallbacks: Family::default(),
            exports: Family::default(),
            in_flight: Gauge::default(),
            held_bytes: Gauge::default(),
            connections: Gauge::default(),
            hook_processes: Gauge::default(),
            sessions: Gauge::default(),
            store_failures: Counter::default(),
            audit_lines: Counter::default(),
            audit_dropped: Counter::default(),
            audit_failing: Gauge::default(),
        };
        metrics.register();
        metrics.config_good.set(1);
        metrics
    }
}

impl Metrics {
    /// All of it in the text format of Prometheus.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing into a `String` cannot fail.
        let _infallible = text::encode(&mut out, &self.registry);
        out
    }

    /// Counts a refused or stopped event.
    pub fn denied(&self, event: EventName) {
        let event = event.as_str();
        self.denials.get_or_create(&EventLabels { event }).inc();
    }

    /// Counts a reload; the gauge tells how the last one went.
    pub fn reloaded(&self, good: bool) {
        let outcome = if good { "swapped" } else { "refused" };
        self.reloads.get_or_create(&ReloadLabels { outcome }).inc();
        self.config_good.set(i64::from(good));
    }

    /// Counts a connection that was turned away or given up, and why.
    pub fn cut(&self, why: &'static str) {
        self.cuts.get_or_create(&CutLabels { why }).inc();
    }

    /// Whether an upstream is left alone.
    pub fn circuit(&self, upstream: &str, open: bool) {
        let upstream = upstream.to_owned();
        let circuit = self.circuits.get_or_create(&UpstreamLabels { upstream });
        circuit.set(i64::from(open));
    }

    /// Counts a failure of an upstream.
    pub fn upstream_failed(&self, upstream: &str, why: &'static str) {
        let upstream = upstream.to_owned();
        let labels = FailureLabels { upstream, why };
        self.upstream_failures.get_or_create(&labels).inc();
    }

    /// Counts a call that went to the fallback of an upstream.
    pub fn fell_back(&self, upstream: &str) {
        let upstream = upstream.to_owned();
        self.fallbacks
            .get_or_create(&UpstreamLabels { upstream })
            .inc();
    }

    /// Counts spans or log records that a collector has, or does not get.
    pub(super) fn exported(&self, signal: &'static str, outcome: &'static str, items: u64) {
        let labels = ExportLabels { signal, outcome };
        self.exports.get_or_create(&labels).inc_by(items);
    }

    /// Counts how a request came to its session, and how that is told apart.
    pub fn arrived(&self, arrival: &'static str, source: &'static str) {
        let labels = ArrivalLabels { arrival, source };
        self.arrivals.get_or_create(&labels).inc();
    }

    pub(super) fn exchange_finished(&self, exchange: &ExchangeFinished) {
        let operation = exchange.operation;
        let labels = RequestLabels {
            operation,
            status: exchange.status,
            action: exchange.action,
        };
        self.requests.get_or_create(&labels).inc();
        self.request_time
            .get_or_create(&OperationLabels { operation })
            .observe(exchange.elapsed.as_secs_f64());
        self.chunks.inc_by(exchange.chunks);
    }

    pub(super) fn hook_finished(
        &self,
        event: EventName,
        hook: &str,
        status: HookStatus,
        elapsed: Duration,
    ) {
        self.hook_ran(event, hook, status, 1);
        let (event, hook) = (event.as_str(), hook.to_owned());
        self.hook_time
            .get_or_create(&HookTimeLabels { event, hook })
            .observe(elapsed.as_secs_f64());
    }

    pub(super) fn hook_ran(&self, event: EventName, hook: &str, status: HookStatus, times: u64) {
        let labels = HookLabels {
            event: event.as_str(),
            hook: hook.to_owned(),
            status: status.as_str(),
        };
        self.hook_runs.get_or_create(&labels).inc_by(times);
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "requests",
            "Requests answered, by operation, status and what became of them",
            self.requests.clone(),
        );
        registry.register(
            "request_duration_seconds",
            "From a request's head to the end of its answer",
            self.request_time.clone(),
        );
        registry.register(
            "hook_runs",
            "Runs of hooks, by event, hook and how they ended",
            self.hook_runs.clone(),
        );
        registry.register(
            "hook_duration_seconds",
            "Runs of hooks, by event and hook",
            self.hook_time.clone(),
        );
        registry.register(
            "chunks",
            "Chunks of answers handed to hooks",
            self.chunks.clone(),
        );
        registry.register(
            "denials",
            "Events that hooks refused or stopped",
            self.denials.clone(),
        );
        registry.register(
            "config_reloads",
            "Reloads of the config, by outcome",
            self.reloads.clone(),
        );
        registry.register(
            "config_good",
            "Whether the config that was read last is in force",
            self.config_good.clone(),
        );
        self.register_bounds();
        self.register_sessions();
        self.callers.register(&mut self.registry);
        self.register_audit();
        self.register_upstreams();
    }

    fn register_audit(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "audit_lines",
            "Lines written into the decision log",
            self.audit_lines.clone(),
        );
        registry.register(
            "audit_dropped_lines",
            "Lines that the decision log lacks, because it could not be written",
            self.audit_dropped.clone(),
        );
        registry.register(
            "audit_failing",
            "Whether the decision log cannot be written",
            self.audit_failing.clone(),
        );
        registry.register(
            "otlp_items",
            "Spans and log records for the collector, by what became of them",
            self.exports.clone(),
        );
    }

    fn register_upstreams(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "upstream_open",
            "Whether an upstream is left alone, because it failed again and again",
            self.circuits.clone(),
        );
        registry.register(
            "upstream_failures",
            "Failures of upstreams, by why",
            self.upstream_failures.clone(),
        );
        registry.register(
            "upstream_fallbacks",
            "Calls that went to the fallback of an upstream",
            self.fallbacks.clone(),
        );
    }

    fn register_bounds(&mut self) {
        let registry = &mut self.registry;
        registry.register("in_flight", "Requests under way", self.in_flight.clone());
        registry.register(
            "held_bytes",
            "Bytes that are held of requests and answers",
            self.held_bytes.clone(),
        );
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register(
            "connections_cut",
            "Connections turned away or given up, by why",
            self.cuts.clone(),
        );
        registry.register(
            "hook_processes",
            "Processes of hooks alive",
            self.hook_processes.clone(),
        );
    }

    fn register_sessions(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "session_arrivals",
            "Requests, by how they came to their session and how that is told apart",
            self.arrivals.clone(),
        );
        registry.register(
            "sessions",
            "Sessions that this process remembers",
            self.sessions.clone(),
        );
        registry.register(
            "session_store_failures",
            "Times that Redis, where sessions are kept, did not answer",
            self.store_failures.clone(),
        );
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// From 1 ms to 4 minutes.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 10))
}
