//! Images, files and audio in messages, as parts of the content form.

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, insert},
    error::{DialectError, Result},
    openai::media::{medium, read_audio},
    openai_responses::fields::TYPE,
};

/// Returns the part of a medium; `None` for other blocks.
pub fn read_medium(block: &Document) -> Result<Option<Value>> {
    let named = block.string(TYPE)?;
    let (default_type, fields): (_, &[_]) = match named.as_deref() {
        Some("input_image" | "computer_screenshot") => ("image/*", &["image_url", "file_id"]),
        Some("input_file") => (
            "application/octet-stream",
            &["file_data", "file_url", "file_id"],
        ),
        Some("input_audio") => return read_audio(block),
        Some(_) | None => return Ok(None),
    };
    let Some(location) = first_of(block, fields)? else {
        return Ok(None);
    };
    let (field, mut value) = medium(&location, default_type);
    if let Some(name) = block.string(&["filename"])? {
        insert(&mut value, "displayName", name);
    }
    Ok(Some(json!({ field: value })))
}

fn first_of(block: &Document, fields: &[&str]) -> Result<Option<String>> {
    let mut found = None;
    for field in fields {
        let value = block.string(&[field])?;
        if value.is_some() && found.is_some() {
            return Err(DialectError::Ambiguous((*field).to_owned()));
        }
        found = found.or(value);
    }
    Ok(found)
}
