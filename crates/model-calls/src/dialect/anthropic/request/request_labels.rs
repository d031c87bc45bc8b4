//! Fields of requests that hookgate does not interpret, unless they are in an object that has a
//! part or a content.

use crate::dialect::{
    anthropic::{
        fields::{CONTENT, type_of},
        request::input_messages::{InputRole, MESSAGES},
    },
    content_form::{ActOnObject, RequestLabels},
    document::{Document, first_byte},
    error::Result,
};

/// The fields of a body, of its system messages and of changes of the declared tools that are
/// labels.
pub const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: BODY_FIELDS,
    inner: "messages",
    visit: visit_system_messages,
};

/// Fields that hookgate interprets, or that hold no text. Others, such as `metadata`, are labels.
const BODY_FIELDS: &[&str] = &[
    "cache_control",
    "container",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

fn visit_system_messages(body: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    body.edit_children(MESSAGES, |message| {
        if InputRole::read(message)? != InputRole::System {
            return Ok(());
        }
        if first_byte(message, CONTENT)? == Some(b'[') {
            message.edit_children(CONTENT, |block| match type_of(block)?.as_str() {
                "tool_addition" | "tool_removal" => act(block, &["cache_control", "tool", "type"]),
                _ => Ok(()),
            })?;
        }
        act(message, &["content", "output_config", "role"])
    })
}
