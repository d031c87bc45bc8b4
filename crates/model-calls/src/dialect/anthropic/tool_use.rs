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
    copy_field(&mut call, ARGUMENTS, block, INPUT)?;
    copy_field(&mut call, TOOLSET_NAME, block, TOOLSET)?;
    copy_field(&mut call, CALLER, block, CALLER)?;
    field_part(FUNCTION_CALL, call.to_bytes())
}

/// Returns a `tool_use` block for a call.
pub fn create_call(call: &Document) -> Result<Bytes> {
    let mut block = Document::empty();
    block.set(&["type"], &json!("tool_use"))?;
    copy_field(&mut block, ID, call, ID)?;
    copy_field(&mut block, NAME, call, NAME)?;
    copy_field(&mut block, TOOLSET, call, TOOLSET_NAME)?;
    copy_field(&mut block, CALLER, call, CALLER)?;
    copy_field(&mut block, INPUT, call, ARGUMENTS)?;
    if !block.has(INPUT) {
        block.set(INPUT, &json!({}))?;
    }
    Ok(block.to_bytes())
}
