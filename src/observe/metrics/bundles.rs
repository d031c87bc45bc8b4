//! Metrics of bundles of policies.

use super::Metrics;

/// Outcome of a request for a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleFetch {
    /// The bundle is in use now.
    Activated,
    /// The bundle was in use before.
    Unchanged,
    /// The bundle has problems; the previous one stays in use.
    Refused,
    /// There is no response with a bundle.
    Failed,
}

impl BundleFetch {
    /// Returns the label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activated => "activated",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Metrics {
    /// Counts a request for a bundle.
    pub fn record_bundle_fetch(&self, bundle: &str, outcome: BundleFetch) {
        let labels = [
            ("bundle", bundle.to_owned().into()),
            ("outcome", outcome.as_str().into()),
        ];
        self.bundle_fetches.get_or_create(&labels).inc();
    }

    /// Sets the time of the bundle in use, and whether it is that of its server.
    pub fn set_bundle(&self, bundle: &str, created: i64, is_current: i64) {
        let labels = || [("bundle", bundle.to_owned().into())];
        self.bundle_created.get_or_create(&labels()).set(created);
        self.bundle_is_current
            .get_or_create(&labels())
            .set(is_current);
    }
}
