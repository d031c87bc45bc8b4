//! Chunks of the content form that are read from events.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    document::Document,
    error::DialectError,
    google::response::document::ResponseDocument,
    openai_responses::{
        fields::{ID, MODEL},
        stream::{event::StreamEvent, event_labels::add_labels},
    },
    text_edit::TextEnd,
};

/// A chunk of the content form, and the events that it was read from.
#[derive(Debug)]
pub struct EventChunk {
    /// The chunk in the content form.
    pub form: Value,
    /// Data of its events.
    pub wire: Vec<Bytes>,
    pub text_end: TextEnd,
}

impl EventChunk {
    /// Returns the chunk of one event, with its labels.
    pub fn of_event(mut form: Value, event: &StreamEvent) -> Result<Self, DialectError> {
        add_labels(&mut form, event)?;
        Ok(Self {
            form,
            wire: vec![event.document.original_bytes()],
            text_end: TextEnd::None,
        })
    }

    /// Returns the chunk as a document.
    pub fn into_document(self) -> Result<ResponseDocument, DialectError> {
        let document = ResponseDocument::from_form(&self.form, self.wire)?;
        Ok(document.with_text_end(self.text_end))
    }
}

/// Returns the model and the id of a response, in the content form.
pub fn envelope_of(response: &Document) -> Result<Value, DialectError> {
    let mut form = json!({});
    for (key, field) in [("modelVersion", MODEL), ("responseId", ID)] {
        if let Some(value) = response.string(field)? {
            insert(&mut form, key, value.into());
        }
    }
    Ok(form)
}

/// Returns a chunk with these parts.
pub fn chunk_of(parts: &[Value]) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "index": 0, "content": content }] })
}

/// Inserts a field into an object.
pub fn insert(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}
