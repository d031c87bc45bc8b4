//! Parts of the event that ends a stream: an error, and items that no event had before.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::dialect::{
    content_form::with_source,
    document::{Document, to_value},
    error::Result,
    openai_responses::{
        fields::ERROR,
        response::item::item_parts,
        stream::event::{EventClass, StreamEvent},
    },
};

/// Returns the error that ends an answer, for one that is written anew.
pub fn error_of(event: &StreamEvent, response: &Document) -> Result<Option<Value>> {
    let is_failure = event.class == EventClass::Failed;
    let failed = if is_failure {
        &event.document
    } else {
        response
    };
    let error = match failed.get(ERROR)? {
        Some(error @ Value::Object(_)) => error,
        Some(_) | None if is_failure => to_value(failed)?,
        Some(_) | None => return Ok(None),
    };
    let fields = ["code", "message", "param"].map(|field| (field, error.get(field)));
    Ok(Some(json!(BTreeMap::from(fields))))
}

/// Returns the parts of the items that were not seen, with their positions among the parts of
/// all items as sources.
pub fn unseen_parts(
    output: &[Document],
    is_seen: impl Fn(usize, &Document) -> Result<bool>,
) -> Result<Vec<Value>> {
    let (mut parts, mut number) = (Vec::new(), 0);
    for (index, item) in output.iter().enumerate() {
        let is_seen = is_seen(index, item)?;
        for part in item_parts(item)? {
            if !is_seen {
                parts.push(with_source(part, number));
            }
            number += 1;
        }
    }
    Ok(parts)
}
