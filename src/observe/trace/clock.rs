//! Durations of records.

use std::time::Duration;

/// Returns microseconds, at most about 71 minutes.
pub(crate) fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
