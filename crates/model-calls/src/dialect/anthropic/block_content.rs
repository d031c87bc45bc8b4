//! Content that is one text or a list of blocks: of messages, of tool results, and the system
//! prompt.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::fields::{TEXT, TYPE},
    document::{Document, write_array},
    error::{Result, field_error},
};

/// Content that is one text or a list of blocks.
#[derive(Debug, Clone)]
pub enum BlockContent {
    /// One text, as a JSON string.
    Text(Bytes),
    /// Blocks in their order, as objects.
    Blocks(Vec<Document>),
}

impl BlockContent {
    /// Reads a field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails if it is neither a string nor a list of objects.
    pub fn read(document: &Document, field: &'static str) -> Result<Option<Self>> {
        let Some(bytes) = document.bytes_of(&[field])? else {
            return Ok(None);
        };
        match bytes.first() {
            Some(b'"') => Ok(Some(Self::Text(bytes))),
            Some(b'[') => Ok(document.children(&[field])?.map(Self::Blocks)),
            _ if *bytes == *b"null" => Ok(None),
            _ => Err(field_error(field, "a string or a list of blocks")),
        }
    }

    /// Returns the blocks. A text counts as one text block.
    pub fn into_blocks(self) -> Result<Vec<Document>> {
        match self {
            Self::Text(text) => Ok(vec![text_block(text)?]),
            Self::Blocks(blocks) => Ok(blocks),
        }
    }

    /// Returns whether it is one text.
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

/// Returns a text block with the JSON of a string.
pub fn text_block(text: Bytes) -> Result<Document> {
    let mut block = Document::empty();
    block.set(TYPE, &json!("text"))?;
    block.set_bytes(TEXT, text)?;
    Document::from_checked(block.to_bytes())
}

/// Returns the JSON of edited content. Blocks of text alone become one text, if it was one.
pub fn write_blocks(blocks: &[Bytes], was_text: bool) -> Result<Bytes> {
    if was_text && let Some(text) = as_text(blocks)? {
        return Ok(text);
    }
    Ok(write_array(blocks))
}

/// Returns blocks as one text with a blank line between them; `None` if any of them has more than
/// a text.
fn as_text(blocks: &[Bytes]) -> Result<Option<Bytes>> {
    if let [block] = blocks {
        let block = Document::from_checked(block.clone())?;
        let text = is_plain_text(&block)?.then(|| block.bytes_of(TEXT));
        return Ok(text.transpose()?.flatten());
    }
    let mut texts = Vec::with_capacity(blocks.len());
    for block in blocks {
        let block = Document::from_checked(block.clone())?;
        if !is_plain_text(&block)? {
            return Ok(None);
        }
        texts.push(block.string(TEXT)?.unwrap_or_default());
    }
    Ok(Some(json!(texts.join("\n\n")).to_string().into()))
}

fn is_plain_text(block: &Document) -> Result<bool> {
    let is_text = block.string(TYPE)?.as_deref() == Some("text");
    Ok(is_text && block.has_only(&["type", "text"]))
}
