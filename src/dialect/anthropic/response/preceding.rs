//! Thinking blocks that the API requires in front of a call when the conversation is sent back.

use bytes::Bytes;

use crate::dialect::{
    anthropic::{block_edit::THINKING, fields::TEXT, response::message_labels::visit_block},
    content_form::{PRECEDING, remove_labels},
    document::{Document, write_array},
    error::Result,
    google::is_thought,
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
    pub fn attach(&mut self, part: &mut Document) -> Result<()> {
        let blocks = std::mem::take(&mut self.blocks);
        let is_complete = std::mem::take(&mut self.bytes) <= MAX_BYTES;
        if is_complete && !blocks.is_empty() {
            part.set_bytes(&[PRECEDING], write_array(blocks))?;
        }
        Ok(())
    }
}

/// Keeps of the blocks in front of calls what policies saw. None stay if the response does not
/// show the same thoughts, because they were masked or removed.
pub fn keep_seen(parts: &mut [Document]) -> Result<()> {
    let mut thoughts = String::new();
    for part in parts {
        if is_thought(part)? {
            thoughts.push_str(&part.string(TEXT)?.unwrap_or_default());
        }
        let Some(mut blocks) = part.children(&[PRECEDING])? else {
            continue;
        };
        let mut is_shown = true;
        for block in &mut blocks {
            let text = block.string(THINKING)?.unwrap_or_default();
            is_shown = is_shown && thoughts.contains(&text);
            visit_block(block, &mut |object, known| remove_labels(object, known))?;
        }
        if is_shown {
            part.set_children(&[PRECEDING], &blocks)?;
        } else {
            part.remove(&[PRECEDING])?;
        }
    }
    Ok(())
}
