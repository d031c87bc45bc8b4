//! Metrics of bundles of policies.

named_enum! {
    /// Outcome of a request for a bundle.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BundleFetch {
        /// The bundle is in use now.
        Activated = "activated",
        /// The bundle was in use before.
        Unchanged = "unchanged",
        /// The bundle has problems; the previous one stays in use.
        Refused = "refused",
        /// There is no response with a bundle.
        Failed = "failed",
    }
}
