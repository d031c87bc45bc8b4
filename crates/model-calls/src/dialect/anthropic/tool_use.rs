//! Tool calls: `tool_use` blocks and function calls of the content form.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::fields::{
        ARGUMENTS, CALLER, FUNCTION_CALL, ID, NAME, TOOLSET, TOOLSET_NAME, field_part, string_bytes,
    },
    document::{Document, copy_field},
    error::Result,
};

pub const INPUT: &[&str] = &["input"];

/// Returns the function call of a `tool_use` block. Its toolset and its caller are labels, too,
/// from which edits are written back.
pub fn call_part(block: &Document) -> Result<Document> {
    let mut call = Document::empty();
    copy_field(&mut call, ID, block, ID)?;
    call.set_bytes(NAME, string_bytes(block, "name")?)?;
    for (field, from) in [
        (ARGUMENTS, INPUT),
        (TOOLSET_NAME, TOOLSET),
        (CALLER, CALLER),
    ] {
        copy_field(&mut call, field, block, from)?;
    }
    field_part(FUNCTION_CALL, call.to_bytes())
}

/// Returns a `tool_use` block for a call.
pub fn create_call(call: &Document) -> Result<Bytes> {
    let mut block = Document::empty();
    block.set(&["type"], &json!("tool_use"))?;
    for (field, from) in [
        (ID, ID),
        (NAME, NAME),
        (TOOLSET, TOOLSET_NAME),
        (CALLER, CALLER),
        (INPUT, ARGUMENTS),
    ] {
        copy_field(&mut block, field, call, from)?;
    }
    if !block.has(INPUT) {
        block.set(INPUT, &json!({}))?;
    }
    Ok(block.to_bytes())
}
