//! Blocks of a response as parts of the content form.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{
            BLOCK, CANDIDATES, CONTENT, FINISH_REASON, PARTS, TEXT, THOUGHT, field_part,
            string_bytes, type_of,
        },
        response::stop_reason::finish_reason,
        tool_use::call_part,
    },
    document::{Document, write_array},
    error::Result,
};

/// Returns an answer with these parts in the content form.
pub fn answer_form(parts: Vec<Bytes>, stop_reason: Option<&str>) -> Result<Document> {
    let mut content = Document::empty();
    content.set(&["role"], &json!("model"))?;
    content.set_bytes(PARTS, write_array(parts))?;
    let mut candidate = Document::empty();
    candidate.set_child(CONTENT, &content)?;
    if let Some(stop) = stop_reason {
        candidate.set(FINISH_REASON, &json!(finish_reason(stop)))?;
    }
    candidate.set(&["index"], &json!(0))?;
    let mut form = Document::empty();
    form.set_children(CANDIDATES, [&candidate])?;
    Ok(form)
}

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
