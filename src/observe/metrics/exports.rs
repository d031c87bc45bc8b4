//! Counters of telemetry and log lines that leave this process.

use super::Metrics;

impl Metrics {
    /// Counts lines of the decision log that were `sent`, `refused` or `lost`.
    pub fn record_sink_lines(&self, outcome: &'static str, lines: u64) {
        let labels = [("outcome", outcome.into())];
        self.audit_sink_lines.get_or_create(&labels).inc_by(lines);
    }

    /// Returns the lines of the decision log that were `sent`, `refused` or `lost`.
    pub fn sink_lines(&self, outcome: &'static str) -> u64 {
        let labels = [("outcome", outcome.into())];
        self.audit_sink_lines.get_or_create(&labels).get()
    }

    /// Counts a failed attempt to send lines of the decision log.
    pub fn record_sink_failure(&self, reason: &'static str) {
        let labels = [("reason", reason.into())];
        self.audit_sink_failures.get_or_create(&labels).inc();
    }

    /// Counts spans or log records that the collector accepted, or that were dropped.
    pub(in crate::observe) fn record_export(
        &self,
        signal: &'static str,
        outcome: &'static str,
        items: u64,
    ) {
        let labels = [("signal", signal.into()), ("outcome", outcome.into())];
        self.otlp_items.get_or_create(&labels).inc_by(items);
    }

    /// Returns the spans (`traces`) or log records (`logs`) that were `sent` or `dropped`.
    pub fn exported(&self, signal: &'static str, outcome: &'static str) -> u64 {
        let labels = [("signal", signal.into()), ("outcome", outcome.into())];
        self.otlp_items.get_or_create(&labels).get()
    }
}
