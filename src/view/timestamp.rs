//! Times as text: RFC 3339 in UTC with milliseconds.

use jiff::Timestamp;

/// Formats a point in time.
pub(super) fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// Formats milliseconds since 1970.
pub(super) fn rfc3339_ms(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    rfc3339(Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX))
}
