//! Counters and gauges of upstreams.

use super::Metrics;

impl Metrics {
    /// Sets the circuit breaker gauges to those in use.
    pub(super) fn set_circuits<'a>(&self, circuits: impl Iterator<Item = (&'a str, bool)>) {
        self.circuit_breaker_open.clear();
        for (name, is_open) in circuits {
            let labels = [("upstream", name.to_owned().into())];
            let gauge = self.circuit_breaker_open.get_or_create(&labels);
            gauge.set(is_open.into());
        }
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
