//! Chunks of a stream in the content form.

use bytes::Bytes;
use serde_json::{Value, json};
use strict_json::Names;

use crate::dialect::{
    anthropic::{
        fields::{TEXT, field_part, string_bytes, with_source},
        response::{
            message_labels::visit_event,
            response_part::{answer_form, read_block},
        },
        tool_use::INPUT,
    },
    content_form::AnswerLabels,
    document::{Document, to_document},
    error::{DialectError, Result},
    google::response::document::ResponseDocument,
    text_edit::TextEnd,
};

/// The events that a chunk is read from.
#[derive(Debug, Default)]
pub struct ChunkEvents {
    pub data: Vec<Bytes>,
    labels: AnswerLabels,
}

impl ChunkEvents {
    /// Creates the events of a chunk with its first one.
    pub fn new(event: &Document, data: Bytes) -> Result<Self> {
        Ok(Self {
            data: vec![data],
            labels: AnswerLabels::of(event, visit_event)?,
        })
    }

    /// Adds what the next events of the same chunk hold.
    pub fn append(&mut self, later: Self) {
        self.data.extend(later.data);
        self.labels.append(later.labels);
    }

    /// Returns the size of the events.
    pub fn bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }

    /// Returns the chunk with this content form, and the labels of the events.
    pub fn into_chunk(self, mut form: Document) -> Result<ResponseDocument> {
        for (key, value) in self.labels.to_fields() {
            form.set(&[&key], &value)?;
        }
        ResponseDocument::from_form_bytes(form.to_bytes(), self.data)
    }
}

/// Returns the part of a call whose arguments are complete. Arguments that are no JSON object, or
/// that parsers could read differently, become a text, which no guard accepts.
pub fn complete_call(mut block: Document, json: &str) -> Result<Document> {
    if !json.is_empty() {
        let input = match strict_json::check(json.as_bytes(), Names::Free) {
            Ok(_) => Bytes::from(json.trim().to_owned()),
            Err(_) => Value::from(json).to_string().into(),
        };
        if !is_blank(block.get(INPUT)?) && block.bytes_of(INPUT)?.as_ref() != Some(&input) {
            // Clients read one or the other.
            return Err(DialectError::Ambiguous("input".to_owned()));
        }
        block.set_bytes(INPUT, input)?;
        block = Document::from_checked(block.to_bytes())?;
    }
    Ok(read_block(&block)?.unwrap_or_default())
}

fn is_blank(input: Option<Value>) -> bool {
    match input.unwrap_or_default() {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns the part of a text in a delta.
pub fn text_part(delta: &Document, field: &'static str) -> Result<Document> {
    field_part(TEXT, string_bytes(delta, field)?)
}

/// Returns a chunk with one part.
pub fn chunk(part: Document, source: u64, events: ChunkEvents) -> Result<ResponseDocument> {
    let source = usize::try_from(source).unwrap_or(usize::MAX);
    events.into_chunk(answer_form(vec![with_source(part, source)?], None)?)
}

/// Returns a chunk without content.
pub fn structural(events: ChunkEvents) -> Result<ResponseDocument> {
    events.into_chunk(Document::empty())
}

/// Returns a chunk with which a text ends.
pub fn text_end(events: ChunkEvents, end: TextEnd) -> Result<ResponseDocument> {
    let form = to_document(&json!({ "candidates": [{ "index": 0 }] }))?;
    Ok(events.into_chunk(form)?.with_text_end(end))
}
