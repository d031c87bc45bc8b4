//! Fields of an answer beside its choices: its id, its model, token counts.

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::numbered,
    document::{Document, add_field, insert},
    error::Result,
    openai::usage::{CountFields, USAGE_METADATA},
    openai_chat::{
        fields::{ID, MODEL, USAGE},
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

/// Returns the token counts of a synthetic answer.
pub fn synthetic_usage(document: &Document) -> Result<Value> {
    let counts = document.child(USAGE_METADATA)?.unwrap_or_default();
    COUNTS.create(&counts).map(Value::Object)
}

/// Returns parts with their numbers.
pub fn numbered_parts(parts: &[PlacedPart]) -> Vec<Value> {
    numbered(parts.iter().map(|(_, part)| part.clone()))
}
