//! Blocks of messages as parts of the content form.

use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{
            BLOCK, FUNCTION_RESPONSE, ID, NAME, PARTS, RESPONSE, TEXT, TEXT_BLOCK_FIELDS, TOOLSET,
            TOOLSET_NAME, field_part, string_bytes, type_of,
        },
        media::{is_media_type, read_media},
        request::input_messages::{CalledTools, InputRole},
        tool_result::{ResultContent, TOOL_USE_ID, outcome_field},
        tool_use::call_part,
    },
    content_form::add_labels,
    document::{Document, copy_field},
    error::{Result, field_error},
};

/// Returns the part of a block; `None` for hidden blocks.
///
/// # Errors
///
/// Fails for declarations of tools outside of system messages, and for fields of the wrong type.
pub fn read_block(
    block: &Document,
    role: InputRole,
    names: &CalledTools,
) -> Result<Option<Document>> {
    let kind = type_of(block)?;
    let mut part = match kind.as_str() {
        "text" => field_part(TEXT, string_bytes(block, "text")?)?,
        "thinking" | "redacted_thinking" if role == InputRole::Assistant => return Ok(None),
        "tool_use" => call_part(block)?,
        "tool_result" => result_part(block, names)?,
        kind if is_media_type(kind) => match read_media(block)? {
            Some(part) => part,
            None => field_part(BLOCK, block.to_bytes())?,
        },
        "tool_addition" | "tool_removal" => {
            let expected = "`system` in a message that adds or removes tools";
            return Err(field_error("role", expected));
        }
        _ => field_part(BLOCK, block.to_bytes())?,
    };
    if let Some(known) = known_fields(&kind) {
        add_labels(&mut part, block, known)?;
    }
    Ok(Some(part))
}

/// Returns the fields of a block that hooks see, or that hold no text; `None` if hooks see the
/// whole block.
fn known_fields(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "text" => Some(TEXT_BLOCK_FIELDS),
        "tool_use" => Some(&["cache_control", "id", "input", "name", "type"]),
        "tool_result" => Some(&[
            "cache_control",
            "content",
            "is_error",
            "tool_use_id",
            "type",
        ]),
        _ => None,
    }
}

fn result_part(block: &Document, names: &CalledTools) -> Result<Document> {
    let mut result = Document::empty();
    let id = string_bytes(block, "tool_use_id")?;
    let name = names.name(&block.string(TOOL_USE_ID)?.unwrap_or_default());
    result.set_bytes(ID, id)?;
    result.set(NAME, &json!(name))?;
    copy_field(&mut result, TOOLSET_NAME, block, TOOLSET)?;
    let content = ResultContent::read(block)?;
    let mut response = Document::empty();
    response.set_bytes(&[outcome_field(block)?], content.output()?)?;
    result.set_child(RESPONSE, &response)?;
    let media: Vec<&Document> = content.media().collect();
    if !media.is_empty() {
        result.set_children(PARTS, media)?;
    }
    field_part(FUNCTION_RESPONSE, result.to_bytes())
}
