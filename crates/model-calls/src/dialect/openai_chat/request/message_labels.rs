//! Fields of messages that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, RequestLabels},
    document::Document,
    error::Result,
    openai_chat::{
        fields::{CHAT_FIELDS, MESSAGES, ROLE},
        response::{
            answer::{REASONING, THOUGHT_DETAILS},
            answer_objects::{visit_message, visit_object},
        },
    },
};

/// The fields of a request that are labels.
pub const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: CHAT_FIELDS,
    inner: "messages",
    visit: visit_messages,
};

/// Fields of a message that hooks see otherwise, or that are not shown: names, ids and media.
/// Others are labels.
const MESSAGE_FIELDS: &[&str] = &["content", "id", "images", "name", "role", "tool_call_id"];

/// Fields that hooks see otherwise but in results of tools, of which they are labels.
const CALL_FIELDS: &[&str] = &["function_call", "refusal", "tool_calls"];

/// A field of the model's thoughts without a text.
const OPAQUE_THOUGHT: &[&str] = &["reasoning_opaque"];

/// Fields of a sound that hold no text.
const AUDIO_FIELDS: &[&str] = &["data", "expires_at", "format", "id"];

fn visit_messages(body: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    body.edit_children(MESSAGES, |message| {
        let visit_audio = |audio: &mut Document, act: ActOnObject<'_>| act(audio, AUDIO_FIELDS);
        let audio = visit_object(message, &["audio"], visit_audio, act)?;
        let others: &[_] = match message.string(ROLE)?.as_deref() {
            // The model's thoughts, which its server refuses if they change.
            Some("assistant") => &[CALL_FIELDS, &REASONING, &THOUGHT_DETAILS, OPAQUE_THOUGHT],
            Some("tool" | "function") => &[],
            _ => &[CALL_FIELDS],
        };
        let known = [MESSAGE_FIELDS, audio, &others.concat()];
        visit_message(message, &known.concat(), act)
    })
}
