//! Images and documents: their data or address, and the texts beside it.

use serde_json::{Value, json};

use crate::dialect::{
    anthropic::fields::{BLOCK, FILE_DATA, INLINE_DATA, field_part, type_of},
    document::{Document, copy_field, insert},
    error::Result,
};

const SOURCE_FIELD: &[&str] = &["source"];

/// Fields of a block that hold no text.
const TEXTLESS_FIELDS: &[&str] = &["type", "source", "cache_control", "citations"];

/// Fields of a source that hold the data, type or place of the media.
const MEDIA_FIELDS: &[&str] = &["type", "data", "file_id", "media_type", "url"];

/// Returns whether a block of this type may hold media.
pub fn is_media_type(kind: &str) -> bool {
    matches!(kind, "image" | "document")
}

/// Returns the part of an image or a document; `None` if its source is text or blocks, which are
/// shown with the block.
pub fn read_media(block: &Document) -> Result<Option<Document>> {
    let Some(source) = block.child(SOURCE_FIELD)? else {
        return Ok(None);
    };
    let (field, data_field, from) = match type_of(&source)?.as_str() {
        "base64" => (INLINE_DATA, "data", "data"),
        "url" => (FILE_DATA, "fileUri", "url"),
        "file" => (FILE_DATA, "fileUri", "file_id"),
        _ => return Ok(None),
    };
    let mut data = Document::empty();
    copy_field(&mut data, &["mimeType"], &source, &["media_type"])?;
    copy_field(&mut data, &[data_field], &source, &[from])?;
    let mut part = field_part(field, data.to_bytes())?;
    if let Some(texts) = texts_beside(block)? {
        part.set_child(BLOCK, &texts)?;
    }
    Ok(Some(part))
}

/// Writes edited texts beside the media back.
pub fn write_texts(block: &mut Document, part: &Document) -> Result<()> {
    let (Some(mut before), Some(mut after)) = (texts_beside(block)?, part.child(BLOCK)?) else {
        return Ok(());
    };
    if let (Some(before), Some(after)) = (before.child(SOURCE_FIELD)?, after.child(SOURCE_FIELD)?) {
        block.edit_child(SOURCE_FIELD, |source| {
            replace_fields(source, &before, &after);
            Ok(())
        })?;
    }
    before.remove(SOURCE_FIELD)?;
    after.remove(SOURCE_FIELD)?;
    replace_fields(block, &before, &after);
    Ok(())
}

/// Replaces the fields of an object that `before` has by those of `after`.
fn replace_fields(object: &mut Document, before: &Document, after: &Document) {
    object.write_fields(before.fields().map(|(key, _)| (key, None)));
    object.write_fields(after.fields().map(|(key, value)| (key, Some(value))));
}

/// Returns media that have no block yet, such as those of a created message.
pub fn create_media(part: &Document) -> Result<Option<Value>> {
    let kind_of = |media_type: &str| match media_type.split_once('/') {
        Some(("image", _)) => "image",
        _ => "document",
    };
    let (data, source_type, field, from) = match (part.child(INLINE_DATA)?, part.child(FILE_DATA)?)
    {
        (Some(data), _) => (data, "base64", "data", "data"),
        (None, Some(data)) => (data, "url", "url", "fileUri"),
        (None, None) => return Ok(None),
    };
    let media_type = data.string(&["mimeType"])?.unwrap_or_default();
    let mut source = json!({ "type": source_type, field: data.get(&[from])? });
    if source_type == "base64" {
        insert(&mut source, "media_type", media_type.as_str());
    }
    let kind = kind_of(&media_type);
    Ok(Some(json!({ "type": kind, "source": source })))
}

/// Returns the fields of a block that a model reads beside its media, and those of its source that
/// are not of the media.
fn texts_beside(block: &Document) -> Result<Option<Document>> {
    let mut texts = other_fields(block, TEXTLESS_FIELDS);
    let source = block.child(SOURCE_FIELD)?.unwrap_or_default();
    let of_source = other_fields(&source, MEDIA_FIELDS);
    if of_source.is_edited() {
        texts.set_child(SOURCE_FIELD, &of_source)?;
    }
    Ok(texts.is_edited().then_some(texts))
}

fn other_fields(object: &Document, except: &[&str]) -> Document {
    let mut others = Document::empty();
    let is_other = |key: &str, value: &[u8]| !except.contains(&key) && *value != *b"null";
    let fields = object.fields().filter(|(key, value)| is_other(key, value));
    others.write_fields(fields.map(|(key, value)| (key, Some(value))));
    others
}
