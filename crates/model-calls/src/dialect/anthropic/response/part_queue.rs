//! The parts of an edited chunk, taken by the events that they belong to.

use crate::dialect::{
    anthropic::{
        fields::{BLOCK, CONTENT, FUNCTION_CALL, TEXT},
        response::seen_blocks::keep_seen,
    },
    content_form::{first_candidates, parts_in},
    document::Document,
    error::Result,
    google::is_thought,
};

/// The parts of an edited chunk.
#[derive(Debug)]
pub struct PartQueue(Vec<Document>);

/// The block of an event, after edits.
pub enum EditedBlock {
    /// The chunk is not edited.
    Same,
    Removed,
    Changed(Document),
}

impl PartQueue {
    /// Reads the parts of the first candidate.
    pub fn read(form: &Document) -> Result<Self> {
        let mut parts = Vec::new();
        for candidate in first_candidates(form)? {
            parts.append(&mut parts_in(&candidate, CONTENT)?);
        }
        keep_seen(&mut parts)?;
        Ok(Self(parts))
    }

    /// Takes all texts, or all thoughts, as one; `None` if they were removed.
    pub fn take_texts(&mut self, thoughts: bool) -> Result<Option<String>> {
        let mut taken: Option<String> = None;
        let mut rest = Vec::new();
        for part in self.0.drain(..) {
            match part.string(TEXT)? {
                Some(text) if is_thought(&part)? == thoughts => {
                    taken.get_or_insert_default().push_str(&text);
                }
                _ => rest.push(part),
            }
        }
        self.0 = rest;
        Ok(taken)
    }

    /// Takes the first part that is a call or shows a block.
    pub fn take_block(&mut self) -> Option<Document> {
        let is_block = |part: &Document| part.has(FUNCTION_CALL) || part.has(BLOCK);
        let position = self.0.iter().position(is_block)?;
        Some(self.0.remove(position))
    }

    /// Returns the parts that belong to no event.
    pub fn into_rest(self) -> Vec<Document> {
        self.0
    }
}

/// Takes the block of an event, which has no other part.
pub fn take_block(parts: &mut Option<PartQueue>) -> Result<EditedBlock> {
    let Some(parts) = parts else {
        return Ok(EditedBlock::Same);
    };
    let block = match parts.take_block() {
        Some(part) => part.child(BLOCK)?,
        None => None,
    };
    Ok(block.map_or(EditedBlock::Removed, EditedBlock::Changed))
}
