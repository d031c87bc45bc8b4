//! Fields that are refused: hooks cannot see what they refer to, or another parser could
//! read them differently.

use serde_json::Value;

use crate::dialect::{
    document::Document,
    error::{DialectError, field_error},
    openai::is_set,
};

/// Fields that refer to content which hooks cannot see, or that compatible servers read
/// beside the known ones, with what they must be.
const REFUSED: &[(&str, &str)] = &[
    (
        "previous_response_id",
        "absent, because hooks cannot see the conversation that it continues",
    ),
    (
        "conversation",
        "absent, because hooks cannot see the conversation that it continues",
    ),
    (
        "prompt",
        "absent, because hooks cannot see the stored prompt that it names",
    ),
    ("messages", "absent, because the conversation is in `input`"),
    ("functions", "absent, because tools are declared in `tools`"),
    (
        "function_call",
        "absent, because tools are selected by `tool_choice`",
    ),
];

/// Pairs of fields with one meaning, of which servers may read either.
const SYNONYMS: &[(&str, &str)] = &[
    ("max_output_tokens", "max_tokens"),
    ("max_output_tokens", "max_completion_tokens"),
    ("text", "response_format"),
    ("reasoning", "reasoning_effort"),
];

/// Fields whose near spellings, such as `maxOutputTokens`, are refused.
const KNOWN: &[&str] = &[
    "context_management",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "parallel_tool_calls",
    "reasoning",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];

/// Refuses a request that hooks could not see as a whole.
pub fn refuse_unseen(body: &Document) -> Result<(), DialectError> {
    for (field, expected) in REFUSED {
        if is_set(body, &[field])? {
            return Err(field_error(field, expected));
        }
    }
    if !matches!(
        body.get(&["background"])?,
        None | Some(Value::Null | Value::Bool(false))
    ) {
        return Err(field_error(
            "background",
            "false, because hooks cannot see a response that is fetched later",
        ));
    }
    for (field, other) in SYNONYMS {
        if is_set(body, &[field])? && is_set(body, &[other])? {
            return Err(DialectError::Ambiguous((*field).to_owned()));
        }
    }
    KNOWN
        .iter()
        .try_for_each(|field| body.bytes_of(&[field]).map(drop))
}
