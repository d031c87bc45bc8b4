//! Token counts of a response.

use serde_json::{Value, json};

use crate::dialect::{document::Document, error::Result, openai::usage::CountFields};

/// Names of the token counts.
pub const COUNTS: CountFields = CountFields(["input_tokens", "output_tokens", "total_tokens"]);

/// Returns the usage of a response of our own.
pub fn new_usage(counts: &Document) -> Result<Value> {
    let mut usage = COUNTS.create(counts)?;
    for (field, detail) in [
        ("input_tokens_details", "cached_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ] {
        usage.insert(field.to_owned(), json!({ detail: 0 }));
    }
    Ok(Value::Object(usage))
}
