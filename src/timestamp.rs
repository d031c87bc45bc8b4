//! Timestamps: milliseconds since the Unix epoch, and RFC 3339 text in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serializer;

/// Formats a point in time with milliseconds.
pub fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// Formats milliseconds since the Unix epoch.
pub fn rfc3339_ms(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    rfc3339(Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX))
}

/// Serializes milliseconds since the Unix epoch as text.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn as_time<S: Serializer>(milliseconds: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_ms(*milliseconds))
}

/// Formats the current time, as hooks receive it.
pub fn utc_timestamp() -> String {
    rfc3339(Timestamp::now())
}

/// Parses a time, or a duration before now such as `30m`, which begins in 1970 at the earliest.
pub fn parse_since(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number.saturating_mul(*seconds))
    })?;
    let since = Timestamp::now().checked_sub(Duration::from_secs(seconds));
    Some(since.unwrap_or_default().max(Timestamp::UNIX_EPOCH))
}

/// Returns the milliseconds since the Unix epoch, 0 before it.
pub fn milliseconds(time: SystemTime) -> u64 {
    whole_milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns the whole milliseconds of a duration.
pub fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the whole microseconds of a duration, at most about 71 minutes.
pub fn whole_microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Returns the current time in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    milliseconds(SystemTime::now())
}

/// Returns the current time in microseconds since the Unix epoch, 0 before it.
pub fn now_us() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(time.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
