//! Thinking blocks that the API requires in front of a call when the conversation is sent back.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    anthropic::{
        block_edit::THINKING,
        fields::{FUNCTION_CALL, TEXT, THOUGHT},
    },
    content_form::PRECEDING,
    document::{Document, write_array},
    error::DialectError,
};

/// Maximum size of the blocks that are kept for one call.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Appends a piece of thinking. What is beyond the limit belongs to a block that is not kept.
pub fn append_thinking(text: &mut String, piece: &str) {
    if text.len() <= MAX_BYTES {
        text.push_str(piece);
    }
}

/// The thinking blocks since the latest call.
#[derive(Debug, Default)]
pub struct PrecedingThinking {
    blocks: Vec<Bytes>,
    bytes: usize,
}

impl PrecedingThinking {
    /// Adds a block. Beyond the limit, none is kept.
    pub fn push(&mut self, block: Bytes) {
        self.bytes = self.bytes.saturating_add(block.len());
        if self.bytes <= MAX_BYTES {
            self.blocks.push(block);
        }
    }

    /// Adds the blocks to the part of the call that they precede.
    pub fn attach(&mut self, part: &mut Document) -> Result<(), DialectError> {
        let blocks = std::mem::take(&mut self.blocks);
        let is_complete = std::mem::take(&mut self.bytes) <= MAX_BYTES;
        if is_complete && !blocks.is_empty() {
            part.set_bytes(&[PRECEDING], write_array(blocks))?;
        }
        Ok(())
    }
}

/// Removes the blocks in front of calls if the response does not show the same thoughts, because
/// they were masked or removed.
pub fn drop_edited(parts: &mut [Document]) -> Result<(), DialectError> {
    let mut thoughts = String::new();
    for part in parts {
        if part.get(THOUGHT)? == Some(Value::Bool(true)) {
            thoughts.push_str(&part.string(TEXT)?.unwrap_or_default());
        }
        if !part.has(FUNCTION_CALL) {
            continue;
        }
        for block in part.children(&[PRECEDING])?.unwrap_or_default() {
            let text = block.string(THINKING)?.unwrap_or_default();
            if !thoughts.contains(&text) {
                part.remove(&[PRECEDING])?;
                break;
            }
        }
    }
    Ok(())
}
