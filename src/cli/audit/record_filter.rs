//! Filters of the records of an audit log.

use clap::{Args, builder::PossibleValuesParser};
use jiff::{SignedDuration, Timestamp};
use memchr::memmem;
use serde_json::Value;

use crate::cli::replay::parse_since;

/// Margin before `--since` at which reading begins. Lines are in the order in which they
/// were queued, and the clock may have been set back.
const CLOCK_MARGIN: SignedDuration = SignedDuration::from_mins(1);

/// Beginning of the third field of a line; the two before it are numbers and hashes.
const TIME_FIELD: &[u8] = b"\"time\":\"";

/// Verdicts of events and calls, and those that observing hooks would have had.
const VERDICTS: [&str; 13] = [
    "proceed",
    "ask",
    "respond",
    "deny",
    "stop",
    "pass",
    "edit",
    "error",
    "would_proceed",
    "would_ask",
    "would_respond",
    "would_deny",
    "would_stop",
];

/// Filters of records. A record must match all of them.
#[derive(Debug, Args)]
pub(super) struct RecordFilter {
    /// Only records of this caller: its name, or at least 8 digits of its key hash
    #[arg(long)]
    caller: Option<String>,
    /// Only records of this session
    #[arg(long)]
    session: Option<String>,
    /// Only records of the request with this id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only events with this verdict and calls with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(VERDICTS))]
    verdict: Option<String>,
    /// Only records since this time: `7d`, `12h`, `30m`, or such as 2026-11-22T08:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Timestamp>,
}

impl RecordFilter {
    /// Returns whether a record matches, apart from its time.
    pub(super) fn includes(&self, line: &Value) -> bool {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
        let is = |pointer: &str, expected: &Option<String>| {
            expected.is_none() || text(pointer) == expected.as_deref()
        };
        let is_of_caller = |expected: &String| {
            let key = text("/caller/key").unwrap_or_default();
            text("/caller/name") == Some(expected)
                || (expected.len() >= 8 && key.starts_with(expected))
        };
        let has_verdict = |expected: &String| {
            let hooks = line.get("hooks").and_then(Value::as_array);
            let mut would = hooks
                .into_iter()
                .flatten()
                .filter_map(|hook| hook.get("would"));
            text("/verdict") == Some(expected)
                || text("/action") == Some(expected)
                || would.any(|verdict| verdict == expected)
        };
        is("/session", &self.session)
            && is("/request", &self.request)
            && self.caller.as_ref().is_none_or(is_of_caller)
            && self.verdict.as_ref().is_none_or(has_verdict)
    }

    /// Returns whether a line is so much older than `--since` that no line before it can match.
    pub(super) fn is_before(&self, line: &[u8]) -> bool {
        let first = self
            .since
            .and_then(|since| since.checked_sub(CLOCK_MARGIN).ok());
        first.is_some_and(|first| time(line).is_some_and(|time| time < first))
    }

    /// Returns whether a line is not older than `--since`, or has no time.
    pub(super) fn includes_time_of(&self, line: &[u8]) -> bool {
        self.since
            .is_none_or(|since| time(line).is_none_or(|time| time >= since))
    }
}

/// Returns the time of a line, which is its third field, without parsing the others.
fn time(line: &[u8]) -> Option<Timestamp> {
    let start = memmem::find(line, TIME_FIELD)? + TIME_FIELD.len();
    let rest = line.get(start..)?;
    let time = rest.get(..memchr::memchr(b'"', rest)?)?;
    str::from_utf8(time).ok()?.parse().ok()
}
