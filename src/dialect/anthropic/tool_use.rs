//! Tool calls: `tool_use` blocks and function calls of the content form.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::fields::{ARGUMENTS, FUNCTION_CALL, ID, NAME, field_part, string_bytes},
    document::{Document, copy_field},
    error::Result,
};

pub const INPUT: &[&str] = &["input"];

/// Returns the function call of a `tool_use` block.
pub fn call_part(block: &Document) -> Result<Document> {
    let mut call = Document::empty();
    copy_field(&mut call, ID, block, ID)?;
    call.set_bytes(NAME, string_bytes(block, "name")?)?;
    copy_field(&mut call, ARGUMENTS, block, INPUT)?;
    field_part(FUNCTION_CALL, call.to_bytes())
}

/// Returns a `tool_use` block for a call.
pub fn create_call(call: &Document) -> Result<Bytes> {
    let mut block = Document::empty();
    block.set(&["type"], &json!("tool_use"))?;
    for (field, from) in [(ID, ID), (NAME, NAME), (INPUT, ARGUMENTS)] {
        copy_field(&mut block, field, call, from)?;
    }
    if !block.has(INPUT) {
        block.set(INPUT, &json!({}))?;
    }
    Ok(block.to_bytes())
}
