//! Stop reasons of the API and finish reasons of the content form.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    anthropic::{fields::parse_strict, response::message_event::DELTA},
    content_form::{AnswerLabels, is_refusal},
    document::Document,
    error::Result,
    google::fields::PAUSED,
};

pub const STOP_REASON: &[&str] = &["stop_reason"];

/// Returns the finish reason for a stop reason.
pub fn finish_reason(stop: &str) -> &'static str {
    match stop {
        "end_turn" | "stop_sequence" | "tool_use" => "STOP",
        "pause_turn" | "compaction" => PAUSED,
        "max_tokens" | "model_context_window_exceeded" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "OTHER",
    }
}

/// Returns the stop reason in a whole message, or in the events that end one.
pub fn stop_reason_in(end: &[Bytes]) -> Result<Option<String>> {
    let mut stop = None;
    for data in end {
        let document = parse_strict(data.clone())?;
        let holder = document.child(DELTA)?.unwrap_or(document);
        stop = holder.string(STOP_REASON)?.or(stop);
    }
    Ok(stop)
}

/// Returns the stop sequence of an answer that is written anew and stops for this reason.
pub fn stop_sequence(stop: Option<&str>, form: &Document) -> Result<Value> {
    let Some("stop_sequence") = stop else {
        return Ok(Value::Null);
    };
    let labels = AnswerLabels::of_form(form)?;
    Ok(labels.last("stop_sequence").cloned().unwrap_or_default())
}

/// Returns the stop reason of an edited response. It is `tool_use` if a call is left, and never
/// if none is: agents wait for calls that do not come.
pub fn edited_stop_reason(original: Option<&str>, finish: Option<&str>, has_calls: bool) -> String {
    let unchanged = original.filter(|stop| finish.is_none_or(|new| finish_reason(stop) == new));
    let stop = match (unchanged, finish) {
        (Some(stop), _) => stop,
        (None, Some("MAX_TOKENS")) => "max_tokens",
        (None, Some(reason)) if is_refusal(reason) => "refusal",
        (None, Some(PAUSED)) => "pause_turn",
        (None, _) => "end_turn",
    };
    match stop {
        "tool_use" if !has_calls => "end_turn".to_owned(),
        "end_turn" | "stop_sequence" if has_calls => "tool_use".to_owned(),
        stop => stop.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_response_stops_for_calls_if_any_is_left() {
        let check = |original, finish, has_calls, expected: &str| {
            assert_eq!(edited_stop_reason(original, finish, has_calls), expected);
        };
        check(Some("tool_use"), Some("STOP"), true, "tool_use");
        check(Some("tool_use"), Some("STOP"), false, "end_turn");
        check(Some("stop_sequence"), Some("STOP"), false, "stop_sequence");
        check(Some("max_tokens"), Some("STOP"), false, "end_turn");
        check(Some("pause_turn"), None, false, "pause_turn");
        check(Some("compaction"), Some(PAUSED), false, "compaction");
        check(None, Some(PAUSED), false, "pause_turn");
        check(None, Some("MAX_TOKENS"), false, "max_tokens");
        check(Some("end_turn"), Some("SPII"), false, "refusal");
        check(None, Some("STOP"), true, "tool_use");
    }
}
