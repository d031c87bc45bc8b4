//! Blocks of a message's content: texts, media and others.

use std::iter;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, first_byte, refuse_pair, to_value},
    error::{Result, field_error},
    openai::media::{medium, read_audio},
    openai_chat::fields::{REFUSAL, TEXT, THINKING, TYPE},
};

/// Name of thoughts that are blocks of the content.
pub const THOUGHT_BLOCK: &str = "thinking";

const IMAGE_URL: &[&str] = &["image_url"];
const FILE: &[&str] = &["file"];
const BLOCK: &[&str] = &["block"];

/// Returns the part of a block.
///
/// # Errors
///
/// Fails for a text without text, and for media in a form that hooks could not recognize.
pub fn read_block(block: &Document) -> Result<Value> {
    if let Some(text) = block_text(block)? {
        return Ok(json!({ "text": text }));
    }
    if let Some(medium) = read_medium(block)? {
        return Ok(medium);
    }
    let original = to_value(block)?;
    Ok(match block.string(TEXT)? {
        // A server may read the text of a block whose type is unknown to it.
        Some(text) => json!({ "text": text, "block": original }),
        None => json!({ "block": original }),
    })
}

/// Returns the part of a block that is a medium and nothing else.
///
/// # Errors
///
/// Fails for a text without text.
pub fn read_medium(block: &Document) -> Result<Option<Value>> {
    let kind = block.string(TYPE)?;
    let has_text = block.string(TEXT)?.is_some();
    match kind.as_deref() {
        Some("text") if !has_text => Err(field_error("text", "a string")),
        Some("image_url") if !has_text => read_image(block),
        Some("input_audio") if !has_text => read_audio(block),
        Some("file") if !has_text => read_file(block),
        Some(_) | None => Ok(None),
    }
}

/// Returns the text of a block that is a text.
pub fn block_text(block: &Document) -> Result<Option<String>> {
    match block.string(TYPE)?.as_deref() {
        Some("text") | None => block.string(TEXT),
        Some(_) => Ok(None),
    }
}

/// Returns the JSON of a new block with a text.
pub fn text_block(text: &str) -> Bytes {
    new_text_block(text).to_string().into()
}

fn new_text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns the thought of a block that is one, as Mistral's models send it.
///
/// # Errors
///
/// Fails for wrong types, since hooks could not see the text.
pub fn block_thought(block: &Document) -> Result<Option<String>> {
    if block.string(TYPE)?.as_deref() != Some(THOUGHT_BLOCK) {
        return Ok(None);
    }
    if !is_list_of_texts(block)? {
        return block.string(THINKING);
    }
    let mut thought = String::new();
    for piece in block.children(THINKING)?.unwrap_or_default() {
        thought.extend(piece.string(TEXT)?);
    }
    Ok(Some(thought))
}

/// Returns whether the thought of a block is a list of texts, and not a string.
pub fn is_list_of_texts(block: &Document) -> Result<bool> {
    Ok(first_byte(block, THINKING)? == Some(b'['))
}

/// Returns the fields of a delta with a thought of this name, and a text.
pub fn text_fields(name: &str, thought: &str, text: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    if name == THOUGHT_BLOCK && !thought.is_empty() {
        let thought = json!({ "type": THOUGHT_BLOCK, "thinking": [new_text_block(thought)] });
        let text = (!text.is_empty()).then(|| new_text_block(text));
        fields.insert(
            "content".to_owned(),
            iter::once(thought).chain(text).collect(),
        );
        return fields;
    }
    for (field, text) in [(name, thought), ("content", text)] {
        if !text.is_empty() {
            fields.insert(field.to_owned(), text.into());
        }
    }
    fields
}

/// Returns the JSON of a block that is a thought with the edits of its part.
pub fn rewrite_thought(block: &Document, before: &Document, after: &Document) -> Result<Bytes> {
    let text = after.string(TEXT)?.unwrap_or_default();
    let mut block = block.clone();
    if before.string(TEXT)?.as_ref() != Some(&text) {
        let thought = if is_list_of_texts(&block)? {
            json!([new_text_block(&text)])
        } else {
            text.into()
        };
        block.set(THINKING, &thought)?;
    }
    Ok(block.to_bytes())
}

/// Returns the JSON of a block with the edits of its part.
pub fn rewrite_block(block: &Document, before: &Document, after: &Document) -> Result<Bytes> {
    let is_refusal = before.has(TEXT) && block.string(TEXT)?.is_none();
    let field = if is_refusal { REFUSAL } else { TEXT };
    let mut block = match after.child(BLOCK)? {
        Some(edited) if before.bytes_of(BLOCK)? != Some(edited.to_bytes()) => edited,
        Some(_) | None => block.clone(),
    };
    let text = after.string(TEXT)?;
    if let Some(text) =
        text.filter(|text| before.string(TEXT).ok().flatten().as_ref() != Some(text))
    {
        block.set(field, &text.into())?;
    }
    Ok(block.to_bytes())
}

fn read_image(block: &Document) -> Result<Option<Value>> {
    let url = if let Some(Value::String(url)) = block.get(IMAGE_URL)? {
        Some(url)
    } else {
        let image = block.child(IMAGE_URL)?.unwrap_or_default();
        image.string(&["url"])?
    };
    Ok(url.map(|url| media_part(&url, "image/*")))
}

fn read_file(block: &Document) -> Result<Option<Value>> {
    let file = block.child(FILE)?.unwrap_or_default();
    refuse_pair(&file, &["file_data"], &["file_id"])?;
    if let Some(data) = file.string(&["file_data"])? {
        return Ok(Some(media_part(&data, "application/octet-stream")));
    }
    let id = file.string(&["file_id"])?;
    Ok(id.map(|id| json!({ "fileData": { "fileUri": id } })))
}

fn media_part(url: &str, default_type: &str) -> Value {
    let (field, value) = medium(url, default_type);
    json!({ field: value })
}
