//! Metrics of bundles of policies.

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
