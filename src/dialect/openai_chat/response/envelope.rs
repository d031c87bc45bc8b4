//! Fields of an answer beside its choices: its id, its model, token counts.

use serde_json::{Map, Value};

use crate::dialect::{
    content_form::numbered,
    document::Document,
    error::DialectError,
    openai::usage::{CountFields, USAGE_METADATA},
    openai_chat::{
        fields::{ID, MODEL, USAGE},
        message_parts::PlacedPart,
    },
};

/// Names of the token counts.
const COUNTS: CountFields = CountFields(["prompt_tokens", "completion_tokens", "total_tokens"]);

/// Returns the fields of the content form beside the candidates.
pub fn read_envelope(body: &Document) -> Result<Map<String, Value>, DialectError> {
    let mut response = Map::new();
    if let Some(usage) = body.child(USAGE)? {
        response.insert("usageMetadata".to_owned(), COUNTS.read(&usage)?);
    }
    if let Some(model) = body.string(MODEL)? {
        response.insert("modelVersion".to_owned(), model.into());
    }
    if let Some(id) = body.string(ID)? {
        response.insert("responseId".to_owned(), id.into());
    }
    Ok(response)
}

/// Writes edited token counts.
pub fn write_usage(
    body: &mut Document,
    before: &Document,
    after: &Document,
) -> Result<(), DialectError> {
    if before.bytes_of(USAGE_METADATA)? == after.bytes_of(USAGE_METADATA)? {
        return Ok(());
    }
    let Some(counts) = after.child(USAGE_METADATA)? else {
        return Ok(());
    };
    body.edit_child(USAGE, |usage| COUNTS.write(usage, &counts))
}

/// Returns the token counts of an answer of our own.
pub fn own_usage(document: &Document) -> Result<Value, DialectError> {
    let counts = document.child(USAGE_METADATA)?.unwrap_or_default();
    COUNTS.create(&counts).map(Value::Object)
}

/// Returns parts with their numbers.
pub fn numbered_parts(parts: &[PlacedPart]) -> Vec<Value> {
    numbered(parts.iter().map(|(_, part)| part.clone()))
}
