//! Fields of a block or an item that hookgate does not interpret, as hooks and policies see
//! them.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::write_labels,
    document::{Document, read_json},
    error::Result,
    openai_responses::calls::{ToolCallKind, call_part},
};

/// Fields of a block or an item that hold no text.
pub const OPAQUE: &[&str] = &[
    "type",
    "id",
    "call_id",
    "status",
    "encrypted_content",
    "fingerprint",
    "prompt_cache_breakpoint",
];

/// Type of the items whose result is an encoded image.
pub const IMAGE: &str = "image_generation_call";

/// Returns the fields of a block or an item that hooks and policies see.
pub fn visible_fields(block: &Document) -> Result<Value> {
    let is_image = block.string(&["type"])?.as_deref() == Some(IMAGE);
    let is_opaque = |key: &str| OPAQUE.contains(&key) || is_image && key == "result";
    let mut fields = Map::new();
    for (key, value) in block.fields().filter(|(key, _)| !is_opaque(key)) {
        fields.insert(key.into_owned(), read_json(&value)?);
    }
    Ok(Value::Object(fields))
}

/// Writes the visible fields of a block back.
pub fn write_visible_fields(
    block: &mut Document,
    before: &Document,
    after: &Document,
) -> Result<()> {
    let before: Map<String, Value> = read_json(&before.to_bytes())?;
    let after: Map<String, Value> = read_json(&after.to_bytes())?;
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    block.write_fields(removed.map(|key| (key, None)));
    let edited = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value));
    block.write_fields(edited.map(|(key, value)| (key, Some(Bytes::from(value.to_string())))));
    Ok(())
}

/// Returns the only part of an item: a call, or else the visible fields.
pub fn item_part(call: Option<ToolCallKind>, item: &Document) -> Result<Value> {
    match call {
        Some(kind) => call_part(kind, item),
        None => Ok(json!({ "block": visible_fields(item)? })),
    }
}

/// Writes the only part of an item back.
pub fn write_item(
    item: &mut Document,
    call: Option<ToolCallKind>,
    before: &Document,
    after: &Document,
) -> Result<()> {
    let Some(kind) = call else {
        let before = before.child(&["block"])?.unwrap_or_default();
        let after = after.child(&["block"])?.unwrap_or_default();
        return write_visible_fields(item, &before, &after);
    };
    write_labels(item, before, after)?;
    let arguments = |part: &Document| {
        let call = part.child(&["functionCall"])?;
        call.unwrap_or_default().get(&["args"])
    };
    let new = arguments(after)?;
    if arguments(before)? == new {
        return Ok(());
    }
    kind.set_arguments(item, &new.unwrap_or_else(|| json!({})))
}
