//! Chunks of the content form that are read from events.

use serde_json::{Value, json};

use crate::dialect::{
    content_form::AnswerLabels,
    document::insert,
    error::Result,
    google::response::document::ResponseDocument,
    openai_responses::stream::{event::StreamEvent, event_labels::visit_event},
};

/// Returns a chunk that was read from these events, with the labels of the last one.
pub fn chunk_of(mut form: Value, events: &[StreamEvent]) -> Result<ResponseDocument> {
    if let Some(last) = events.last() {
        for (key, labels) in AnswerLabels::of(&last.document, visit_event)?.to_fields() {
            insert(&mut form, &key, labels);
        }
    }
    let wire = events.iter().map(|event| event.document.original_bytes());
    ResponseDocument::from_form(&form, wire.collect())
}

/// Returns a candidate with these parts, in the content form.
pub fn form_of(parts: &[Value]) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "index": 0, "content": content }] })
}
