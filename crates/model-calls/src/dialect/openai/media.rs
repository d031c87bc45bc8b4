//! Media in messages, as parts of the content form.

use serde_json::{Value, json};

use crate::dialect::{document::Document, error::Result};

/// Returns the field of a part that holds a medium, and its value: the data of a `data:` URL in
/// base64, or else the URL. `default_type` is the type of data that names none.
pub fn medium(url: &str, default_type: &str) -> (&'static str, Value) {
    let Some((media_type, data)) = base64_data(url) else {
        return ("fileData", json!({ "fileUri": url }));
    };
    let media_type = if media_type.is_empty() {
        default_type
    } else {
        media_type
    };
    let value = json!({ "mimeType": media_type, "data": data });
    ("inlineData", value)
}

/// Returns the part of a sound; `None` if the block has no data.
pub fn read_audio(block: &Document) -> Result<Option<Value>> {
    let audio = block.child(&["input_audio"])?.unwrap_or_default();
    let format = audio.string(&["format"])?.unwrap_or_default();
    let data = audio.string(&["data"])?;
    let mime_type = format!("audio/{format}");
    Ok(data.map(|data| json!({ "inlineData": { "mimeType": mime_type, "data": data } })))
}

/// Returns the media type, without its parameters, and the data of a `data:` URL in base64.
fn base64_data(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    let (media_type, _) = head.split_once(';').unwrap_or((head, ""));
    Some((media_type, data))
}
