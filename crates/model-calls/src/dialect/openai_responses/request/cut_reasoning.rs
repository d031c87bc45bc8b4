//! Reasoning that a denial has cut off. The agent sends it back, and an API that stores nothing
//! cannot read it.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, first_byte, is_set, write_array},
    error::Result,
    openai_responses::fields::{CONTENT, ENCRYPTED_CONTENT, INPUT, STATUS, TYPE},
};

/// Removes incomplete reasoning without encrypted content from the input, unless the API stores
/// responses.
pub fn remove_cut_reasoning(body: &mut Document) -> Result<()> {
    let is_stored = body.get(&["store"])? != Some(Value::Bool(false));
    if is_stored || first_byte(body, INPUT)? != Some(b'[') {
        return Ok(());
    }
    let items = body.children(INPUT)?.unwrap_or_default();
    let mut kept: Vec<Bytes> = Vec::with_capacity(items.len());
    for item in &items {
        if !is_cut(item)? {
            kept.push(item.to_bytes());
        }
    }
    if kept.len() < items.len() {
        body.set_bytes(INPUT, write_array(kept))?;
    }
    Ok(())
}

/// Returns whether an item is reasoning that was cut off. Open reasoning, which has texts, can be
/// read.
fn is_cut(item: &Document) -> Result<bool> {
    if item.string(TYPE)?.as_deref() != Some("reasoning")
        || item.string(STATUS)?.as_deref() != Some("incomplete")
        || is_set(item, ENCRYPTED_CONTENT)?
    {
        return Ok(false);
    }
    Ok(!is_set(item, CONTENT)? || item.list(CONTENT)?.unwrap_or_default().is_empty())
}
