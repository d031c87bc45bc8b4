//! Counters of the shadow.

use super::Metrics;

impl Metrics {
    /// Counts a result of the shadow. `rule` is a name from a config, or empty.
    pub fn record_shadow_verdict(&self, rule: &str, change: &'static str) {
        let labels = [("rule", rule.to_owned().into()), ("change", change.into())];
        self.shadow_verdicts.get_or_create(&labels).inc();
    }

    /// Removes the series of shadows before, whose configs had other names.
    pub fn clear_shadow_verdicts(&self) {
        self.shadow_verdicts.clear();
    }

    /// Counts the end of a shadow.
    pub fn record_shadow_end(&self, reason: &'static str) {
        let labels = [("reason", reason.into())];
        self.shadow_ends.get_or_create(&labels).inc();
    }
}
