//! Reasons for the end of an answer.

use crate::dialect::content_form::is_refusal;

/// Returns the reason of the content form.
pub fn read_reason(reason: &str) -> &'static str {
    match reason {
        "stop" | "tool_calls" | "function_call" => "STOP",
        "length" => "MAX_TOKENS",
        "content_filter" => "SAFETY",
        _ => "OTHER",
    }
}

/// Returns the reason of the API for one of the content form.
pub fn write_reason(reason: &str) -> &'static str {
    match reason {
        "MAX_TOKENS" => "length",
        reason if is_refusal(reason) => "content_filter",
        _ => "stop",
    }
}

/// Returns whether an answer with this reason ends for its calls.
pub fn ends_for_calls(reason: &str) -> bool {
    matches!(reason, "tool_calls" | "function_call")
}

/// Returns the reason to send: `known` is the model's, `before` and `after` are the reasons of
/// the content form. An agent runs the calls of an answer that ends for calls, and fails on one
/// that ends so without any.
pub fn final_reason<'a>(known: &'a str, before: &str, after: &str, has_calls: bool) -> &'a str {
    let is_edited = before != after;
    match (has_calls, ends_for_calls(known)) {
        (true, true) => known,
        (true, false) if is_edited && after == "STOP" => "tool_calls",
        (false, true) => write_reason(after),
        (_, _) if is_edited => write_reason(after),
        (_, _) => known,
    }
}
