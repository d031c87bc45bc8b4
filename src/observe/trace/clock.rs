//! Times of records: milliseconds since 1970, and their text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Returns milliseconds since 1970.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC.
pub(crate) fn rfc3339(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

/// Returns microseconds, at most about 71 minutes.
pub(crate) fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
