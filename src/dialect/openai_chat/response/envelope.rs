//! Fields of an answer beside its choices: its id, its model, token counts.

use serde_json::{Map, Value};

use crate::dialect::{
    content_form::{numbered, remove_labels},
    document::Document,
    error::DialectError,
    openai_chat::{
        fields::{ID, MODEL, USAGE},
        response::{answer::PlacedAnswer, answer_objects::RESPONSE_FIELDS},
    },
};

pub const USAGE_METADATA: &[&str] = &["usageMetadata"];

/// Token counts in the content form, and those of the API.
const COUNTS: [(&str, &str); 3] = [
    ("promptTokenCount", "prompt_tokens"),
    ("candidatesTokenCount", "completion_tokens"),
    ("totalTokenCount", "total_tokens"),
];

/// Removes the fields of an answer that hookgate does not interpret.
pub fn remove_other_fields(body: &mut Document) -> Result<(), DialectError> {
    remove_labels(body, RESPONSE_FIELDS)
}

/// Returns the fields of the content form beside the candidates.
pub fn read_envelope(body: &Document) -> Result<Map<String, Value>, DialectError> {
    let mut response = Map::new();
    if let Some(usage) = read_usage(body)? {
        response.insert("usageMetadata".to_owned(), usage);
    }
    if let Some(model) = body.string(MODEL)? {
        response.insert("modelVersion".to_owned(), model.into());
    }
    if let Some(id) = body.string(ID)? {
        response.insert("responseId".to_owned(), id.into());
    }
    Ok(response)
}

/// Returns the token counts, if the answer has them.
fn read_usage(body: &Document) -> Result<Option<Value>, DialectError> {
    let Some(usage) = body.child(USAGE)? else {
        return Ok(None);
    };
    let mut counts = Map::new();
    for (name, field) in COUNTS {
        if let Some(count) = usage.get(&[field])? {
            counts.insert(name.to_owned(), count);
        }
    }
    Ok(Some(Value::Object(counts)))
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
    body.edit_child(USAGE, |usage| {
        for (name, field) in COUNTS {
            if let Some(count) = counts.get(&[name])?
                && usage.get(&[field])?.as_ref() != Some(&count)
            {
                usage.set(&[field], &count)?;
            }
        }
        Ok(())
    })
}

/// Returns the token counts of an answer of our own.
pub fn own_usage(document: &Document) -> Result<Value, DialectError> {
    let counts = document.child(USAGE_METADATA)?;
    let mut usage = Map::new();
    for (name, field) in COUNTS {
        let count = counts.as_ref().map(|counts| counts.get(&[name]));
        let count = count.transpose()?.flatten().unwrap_or_else(|| 0.into());
        usage.insert(field.to_owned(), count);
    }
    Ok(Value::Object(usage))
}

/// Returns parts with their numbers.
pub fn numbered_parts(parts: &[PlacedAnswer]) -> Vec<Value> {
    numbered(parts.iter().map(|(_, part)| part.clone()))
}
