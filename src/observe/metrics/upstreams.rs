//! Counters and gauges of upstreams.

use prometheus_client::metrics::gauge::Gauge;

use super::Metrics;

impl Metrics {
    /// Sets the circuit breaker gauge of an upstream to open.
    pub fn circuit_breaker_opened(&self, upstream: &str) {
        self.circuit_breaker(upstream).set(1);
    }

    /// Sets the circuit breaker gauge of an upstream to closed.
    pub fn circuit_breaker_closed(&self, upstream: &str) {
        self.circuit_breaker(upstream).set(0);
    }

    fn circuit_breaker(&self, upstream: &str) -> Gauge {
        let labels = [("upstream", upstream.to_owned().into())];
        self.circuit_breaker_open.get_or_create(&labels).clone()
    }

    /// Counts a failure of an upstream.
    pub fn record_upstream_failure(&self, upstream: &str, reason: &'static str) {
        let labels = [
            ("upstream", upstream.to_owned().into()),
            ("reason", reason.into()),
        ];
        self.upstream_failures.get_or_create(&labels).inc();
    }

    /// Counts a request sent to the fallback of an upstream.
    pub fn record_fallback(&self, upstream: &str) {
        let labels = [("upstream", upstream.to_owned().into())];
        self.upstream_fallbacks.get_or_create(&labels).inc();
    }
}
