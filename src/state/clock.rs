//! Timestamps of events.

/// Returns the current time in UTC with milliseconds (RFC 3339), as hooks receive it.
pub fn utc_timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
