//! Time ranges of recorded operations.

use std::time::{Duration, SystemTime};

/// Start and end of an operation; the end is not before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Start of the operation.
    pub started: SystemTime,
    /// End of the operation.
    pub ended: SystemTime,
}

impl TimeRange {
    /// Creates the range of an operation that took `elapsed` and ended at `ended`.
    pub fn ending_at(ended: SystemTime, elapsed: Duration) -> Self {
        // The clock may have been set back to before `elapsed`.
        let started = ended.checked_sub(elapsed).unwrap_or(ended);
        Self { started, ended }
    }

    /// Returns the smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            started: self.started.min(other.started),
            ended: self.ended.max(other.ended),
        }
    }
}
