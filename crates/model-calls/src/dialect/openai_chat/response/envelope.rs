//! Fields of an answer beside its choices: its id, its model, token counts.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{numbered, remove_labels, visit_details},
    document::{Document, add_field, insert, to_document, to_value},
    error::Result,
    openai::usage::{COUNT_DETAILS, CountFields, USAGE_METADATA},
    openai_chat::{
        fields::{ID, MODEL, USAGE, parse},
        message_parts::PlacedPart,
    },
};

/// Names of the token counts.
const COUNTS: CountFields = CountFields(["prompt_tokens", "completion_tokens", "total_tokens"]);

/// Returns the fields of the content form beside the candidates.
pub fn read_envelope(body: &Document) -> Result<Map<String, Value>> {
    let mut response = Map::new();
    let usage = body.child(USAGE)?.map(|usage| COUNTS.read(&usage));
    add_field(&mut response, "usageMetadata", usage.transpose()?);
    add_field(&mut response, "modelVersion", body.string(MODEL)?);
    add_field(&mut response, "responseId", body.string(ID)?);
    Ok(response)
}

/// Returns a candidate of the content form.
pub fn candidate(index: u64, parts: &[Value], finish_reason: Option<&str>) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    let mut candidate = json!({ "index": index, "content": content });
    if let Some(reason) = finish_reason {
        insert(&mut candidate, "finishReason", reason);
    }
    candidate
}

/// Writes edited token counts.
pub fn write_usage(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    if before.bytes_of(USAGE_METADATA)? == after.bytes_of(USAGE_METADATA)? {
        return Ok(());
    }
    let Some(counts) = after.child(USAGE_METADATA)? else {
        return Ok(());
    };
    body.edit_child(USAGE, |usage| COUNTS.write(usage, &counts))
}

/// Returns the token counts of an answer that is written anew. `end` is the body, or the events,
/// with which the answers end that it is merged from.
pub fn new_usage(document: &Document, end: &[Bytes]) -> Result<Value> {
    let counts = document.child(USAGE_METADATA)?.unwrap_or_default();
    let mut usage = to_document(&Value::Object(COUNTS.create(&counts)?))?;
    for data in end {
        usage = parse(data.clone())?.child(USAGE)?.unwrap_or(usage);
    }
    // Hooks see them elsewhere, and may have edited them there.
    visit_details(&mut usage, COUNT_DETAILS, &[], &mut remove_labels)?;
    COUNTS.write(&mut usage, &counts)?;
    to_value(&usage)
}

/// Returns parts with their numbers.
pub fn numbered_parts(parts: &[PlacedPart]) -> Vec<Value> {
    numbered(parts.iter().map(|(_, part)| part.clone()))
}
