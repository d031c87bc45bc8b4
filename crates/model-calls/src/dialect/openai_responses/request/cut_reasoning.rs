//! Reasoning that a denial has cut off. The agent sends it back, and an API that stores nothing
//! cannot read it.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, first_byte, is_set, write_array},
    error::Result,
    openai_responses::fields::{INPUT, STATUS, TYPE},
};

const ENCRYPTED_CONTENT: &[&str] = &["encrypted_content"];

/// Removes incomplete reasoning without encrypted content from the input, unless the API stores
/// responses.
pub fn remove_cut_reasoning(body: &mut Document) -> Result<()> {
    let is_stored = body.get(&["store"])? != Some(Value::Bool(false));
    if is_stored || first_byte(body, INPUT)? != Some(b'[') {
        return Ok(());
    }
    let items = body.list(INPUT)?.unwrap_or_default();
    let mut kept: Vec<Bytes> = Vec::with_capacity(items.len());
    for item in &items {
        if !is_cut(&Document::from_checked(item.clone())?)? {
            kept.push(item.clone());
        }
    }
    if kept.len() < items.len() {
        body.set_bytes(INPUT, write_array(kept))?;
    }
    Ok(())
}

fn is_cut(item: &Document) -> Result<bool> {
    Ok(item.string(TYPE)?.as_deref() == Some("reasoning")
        && item.string(STATUS)?.as_deref() == Some("incomplete")
        && !is_set(item, ENCRYPTED_CONTENT)?)
}
