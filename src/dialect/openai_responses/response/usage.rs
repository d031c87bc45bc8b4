//! Token counts of a response.

use serde_json::{Value, json};

use crate::dialect::{document::Document, error::DialectError};

/// Names in the content form and in the API.
const COUNTS: &[(&str, &str)] = &[
    ("promptTokenCount", "input_tokens"),
    ("candidatesTokenCount", "output_tokens"),
    ("totalTokenCount", "total_tokens"),
];

/// Returns token counts in the content form.
pub fn read_usage(usage: &Document) -> Result<Value, DialectError> {
    let mut counts = json!({});
    for (name, field) in COUNTS {
        if let (Some(count), Some(fields)) = (usage.get(&[field])?, counts.as_object_mut()) {
            fields.insert((*name).to_owned(), count);
        }
    }
    Ok(counts)
}

/// Writes changed token counts.
pub fn write_usage(
    counts: &mut Document,
    before: Option<&Document>,
    after: &Document,
) -> Result<(), DialectError> {
    for (name, field) in COUNTS {
        let old = before.map(|before| before.get(&[name])).transpose()?;
        let new = after.get(&[name])?;
        if let Some(new) = new.filter(|new| old.flatten().as_ref() != Some(new)) {
            counts.set(&[field], &new)?;
        }
    }
    Ok(())
}

/// Returns the usage of a response of our own.
pub fn new_usage(form: Option<&Document>) -> Result<Value, DialectError> {
    let mut usage = json!({
        "input_tokens": 0,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 0,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": 0,
    });
    let Some(form) = form else {
        return Ok(usage);
    };
    for (name, field) in COUNTS {
        if let (Some(count), Some(fields)) = (form.get(&[name])?, usage.as_object_mut()) {
            fields.insert((*field).to_owned(), count);
        }
    }
    Ok(usage)
}
