//! Chunks of a stream in the content form.

use bytes::Bytes;
use serde_json::{Value, json};
use strict_json::Names;

use crate::dialect::{
    anthropic::{
        fields::{CANDIDATES, PARTS, TEXT, field_part, with_source},
        response::response_part::{document, read_block},
        tool_use::INPUT,
    },
    document::{Document, write_array},
    error::{DialectError, field_error},
    google::response::document::ResponseDocument,
};

/// Returns the part of a call whose arguments are complete. Arguments that are no JSON object, or
/// that parsers could read differently, become a text, which no guard accepts.
pub fn complete_call(mut block: Document, json: &str) -> Result<Document, DialectError> {
    if !json.is_empty() {
        let input = match strict_json::check(json.as_bytes(), Names::Free) {
            Ok(()) => Bytes::from(json.trim().to_owned()),
            Err(_) => Value::from(json).to_string().into(),
        };
        block.set_bytes(INPUT, input)?;
        block = Document::from_checked(block.to_bytes())?;
    }
    let part = read_block(&block)?;
    Ok(part.unwrap_or_else(Document::empty))
}

/// Returns the part of a text in a delta.
pub fn text_part(delta: &Document, field: &'static str) -> Result<Document, DialectError> {
    let text = delta.bytes_of(&[field])?;
    let text = text.filter(|text| text.first() == Some(&b'"'));
    let text = text.ok_or_else(|| field_error(field, "a string"))?;
    field_part(TEXT, text)
}

/// Returns a chunk with one part.
pub fn chunk(
    part: Document,
    source: u64,
    events: Vec<Bytes>,
) -> Result<ResponseDocument, DialectError> {
    let source = usize::try_from(source).unwrap_or(usize::MAX);
    let mut content = document(&json!({ "role": "model" }))?;
    content.set_bytes(PARTS, write_array([with_source(part, source)?]))?;
    let mut candidate = Document::empty();
    candidate.set_child(&["content"], &content)?;
    candidate.set(&["index"], &json!(0))?;
    let mut form = Document::empty();
    form.set_children(CANDIDATES, [&candidate])?;
    ResponseDocument::from_form_bytes(form.to_bytes(), events)
}

/// Returns a chunk without content.
pub fn structural(data: Bytes) -> Result<ResponseDocument, DialectError> {
    ResponseDocument::from_form_bytes(Bytes::from_static(b"{}"), vec![data])
}

/// Returns a chunk with which a text ends.
pub fn text_end(data: Bytes) -> Result<ResponseDocument, DialectError> {
    let form = Bytes::from_static(br#"{"candidates":[{"index":0}]}"#);
    Ok(ResponseDocument::from_form_bytes(form, vec![data])?.ending_text())
}
