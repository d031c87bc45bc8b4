//! Counters of errors of hookgate's own.

use super::Metrics;

impl Metrics {
    /// Counts an error of hookgate's own that an agent receives.
    pub fn record_error(&self, reason: &'static str) {
        let labels = [("reason", reason.into())];
        self.errors.get_or_create(&labels).inc();
    }

    /// Creates the series of errors with these reasons, at 0.
    pub fn create_errors(&self, reasons: impl Iterator<Item = &'static str>) {
        for reason in reasons {
            let labels = [("reason", reason.into())];
            self.errors.get_or_create(&labels).inc_by(0);
        }
    }
}
