//! Blocks of a response as parts of the content form.

use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{BLOCK, TEXT, THOUGHT, field_part, string_bytes, type_of},
        tool_use::call_part,
    },
    document::Document,
    error::Result,
};

/// Returns the part of a block; `None` for hidden blocks.
///
/// # Errors
///
/// Fails for fields of the wrong type.
pub fn read_block(block: &Document) -> Result<Option<Document>> {
    let part = match type_of(block)?.as_str() {
        "text" => field_part(TEXT, string_bytes(block, "text")?)?,
        "thinking" => {
            let mut part = field_part(TEXT, string_bytes(block, "thinking")?)?;
            part.set(THOUGHT, &json!(true))?;
            part
        }
        "redacted_thinking" => return Ok(None),
        "tool_use" => call_part(block)?,
        _ => field_part(BLOCK, block.to_bytes())?,
    };
    Ok(Some(part))
}
