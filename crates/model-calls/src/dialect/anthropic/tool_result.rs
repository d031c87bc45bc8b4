//! Tool results: one text, or blocks with media among them.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        block_content::BlockContent,
        fields::{BLOCK, TEXT_BLOCK_FIELDS, string_bytes, type_of},
        media::{is_media_type, read_media},
    },
    content_form::read_labels,
    document::{Document, write_array},
    error::Result,
};

pub const TOOL_USE_ID: &[&str] = &["tool_use_id"];
pub const IS_ERROR: &[&str] = &["is_error"];

/// Returns the field of a function's response that holds the result of a tool.
pub fn outcome_field(block: &Document) -> Result<&'static str> {
    let is_error = block.get(IS_ERROR)? == Some(json!(true));
    Ok(if is_error { "error" } else { "output" })
}

/// Content of a tool result: texts and other blocks, and media.
#[derive(Debug)]
pub enum ResultContent {
    /// One text, as a JSON string; an empty one if there is no content.
    Text(Bytes),
    /// Blocks in order, each with its part if it is media.
    Blocks(Vec<(Document, Option<Document>)>),
}

impl ResultContent {
    pub fn read(block: &Document) -> Result<Self> {
        let blocks = match BlockContent::read(block, "content")? {
            None => return Ok(Self::Text(Bytes::from_static(b"\"\""))),
            Some(BlockContent::Text(text)) => return Ok(Self::Text(text)),
            Some(BlockContent::Blocks(blocks)) => blocks,
        };
        let read = |inner: Document| -> Result<_> {
            let media = match type_of(&inner)?.as_str() {
                kind if is_media_type(kind) => read_media(&inner)?,
                "text" => {
                    string_bytes(&inner, "text")?;
                    None
                }
                _ => None,
            };
            // Texts beside media are shown with the other blocks.
            let media = media.filter(|media| !media.has(BLOCK));
            Ok((inner, media))
        };
        let blocks = blocks.into_iter().map(read);
        Ok(Self::Blocks(blocks.collect::<Result<_, _>>()?))
    }

    /// Returns the blocks that are no media.
    pub fn others(&self) -> impl Iterator<Item = &Document> {
        let others = self.blocks().iter().filter(|(_, media)| media.is_none());
        others.map(|(block, _)| block)
    }

    pub fn media(&self) -> impl Iterator<Item = &Document> {
        self.blocks().iter().filter_map(|(_, media)| media.as_ref())
    }

    pub fn blocks(&self) -> &[(Document, Option<Document>)] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// Returns the JSON that hooks see: one text, or the blocks if there is more.
    pub fn output(&self) -> Result<Bytes> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Blocks(_) => {
                let others: Vec<&Document> = self.others().collect();
                match others.as_slice() {
                    [] => Ok(Bytes::from_static(b"\"\"")),
                    [only]
                        if type_of(only)? == "text"
                            && read_labels(only, TEXT_BLOCK_FIELDS)?.is_empty() =>
                    {
                        string_bytes(only, "text")
                    }
                    several => Ok(write_array(several.iter().map(|block| block.to_bytes()))),
                }
            }
        }
    }
}
