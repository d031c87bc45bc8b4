//! Fields of messages that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, RequestLabels},
    document::Document,
    error::Result,
    openai_chat::{
        fields::{CHAT_FIELDS, MESSAGES},
        response::answer_objects::{visit_message, visit_object},
    },
};

/// The fields of a request that are labels.
pub const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: CHAT_FIELDS,
    inner: "messages",
    visit: visit_messages,
};

/// Fields of a message that hooks see otherwise, or that are not shown: names, ids, media and
/// thoughts, which the model's server refuses if they change. Others are labels.
const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "function_call",
    "id",
    "images",
    "name",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "reasoning_opaque",
    "reasoning_text",
    "refusal",
    "role",
    "thinking_blocks",
    "tool_call_id",
    "tool_calls",
];

/// Fields of a sound that hold no text.
const AUDIO_FIELDS: &[&str] = &["data", "expires_at", "format", "id"];

fn visit_messages(body: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    body.edit_children(MESSAGES, |message| {
        let visit_audio = |audio: &mut Document, act: ActOnObject<'_>| act(audio, AUDIO_FIELDS);
        let audio = visit_object(message, &["audio"], visit_audio, act)?;
        visit_message(message, &[MESSAGE_FIELDS, audio].concat(), act)
    })
}
