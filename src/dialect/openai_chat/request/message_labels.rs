//! Fields of messages that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, RequestLabels},
    document::Document,
    error::DialectError,
    openai_chat::{
        fields::{CHAT_FIELDS, MESSAGES},
        response::answer_objects::visit_message,
    },
};

/// The fields of a request that are labels.
pub const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: CHAT_FIELDS,
    inner: "messages",
    visit: visit_messages,
};

/// Fields of a message that hooks see otherwise, or that are not shown: names, ids, images and
/// thoughts. Others are labels.
pub const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "function_call",
    "images",
    "name",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "role",
    "tool_call_id",
    "tool_calls",
];

fn visit_messages(body: &mut Document, act: ActOnObject<'_>) -> Result<(), DialectError> {
    body.edit_children(MESSAGES, |message| {
        visit_message(message, MESSAGE_FIELDS, act)
    })
}
