//! Images, files and audio in messages, as parts of the content form.

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, insert},
    error::{DialectError, Result},
    openai_responses::fields::TYPE,
};

/// Returns the part of a medium; `None` for other blocks.
pub fn read_medium(block: &Document) -> Result<Option<Value>> {
    let named = block.string(TYPE)?;
    let location = match named.as_deref() {
        Some("input_image" | "computer_screenshot") => first_of(block, &["image_url", "file_id"])?,
        Some("input_file") => first_of(block, &["file_data", "file_url", "file_id"])?,
        Some("input_audio") => return read_audio(block),
        Some(_) | None => return Ok(None),
    };
    let Some(location) = location else {
        return Ok(None);
    };
    let filename = block.string(&["filename"])?;
    let (key, mut medium) = match data_url(&location) {
        Some((media_type, data)) => (
            "inlineData",
            json!({ "mimeType": media_type, "data": data }),
        ),
        None => ("fileData", json!({ "fileUri": location })),
    };
    if let Some(name) = filename {
        insert(&mut medium, "displayName", name);
    }
    Ok(Some(json!({ key: medium })))
}

fn read_audio(block: &Document) -> Result<Option<Value>> {
    let Some(audio) = block.child(&["input_audio"])? else {
        return Ok(None);
    };
    let format = audio.string(&["format"])?.unwrap_or_default();
    let data = audio.string(&["data"])?.unwrap_or_default();
    let inline = json!({ "mimeType": format!("audio/{format}"), "data": data });
    Ok(Some(json!({ "inlineData": inline })))
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

/// Returns media type and data of a `data:` URL.
fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.split(';').next().unwrap_or_default();
    Some((media_type, data))
}
