//! Marks of the parts of a stream that do not continue the text in front of them.

use crate::dialect::{
    content_form::STARTS_TEXT,
    document::insert,
    openai_chat::message_parts::{PartPlace, PlacedPart},
};

/// The latest part of a choice, without thoughts.
#[derive(Debug, Default, Clone, Copy)]
pub struct TextStarts {
    latest: Option<PartKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Content,
    Refusal,
    /// A block of the content that is no text.
    OtherBlock,
}

impl TextStarts {
    /// Marks the parts of a delta that do not continue the text in front of them. Returns whether
    /// there are any.
    pub fn mark(&mut self, parts: &mut [PlacedPart]) -> bool {
        let mut has_mark = false;
        let mut preceding = None;
        for (place, part) in parts {
            let kind = match place {
                PartPlace::Refusal => PartKind::Refusal,
                PartPlace::Block(_) if part.get("text").is_none() => PartKind::OtherBlock,
                PartPlace::Block(_) | PartPlace::Text => PartKind::Content,
                _ => continue,
            };
            let index = match place {
                PartPlace::Block(index) => Some(*index),
                _ => None,
            };
            // Text blocks of one delta are several texts, those of several deltas are pieces.
            let is_next_block = index.is_some_and(|index| index > 0) && preceding.is_some();
            preceding = index;
            let latest = self.latest.replace(kind);
            if is_next_block || latest.is_some_and(|latest| latest != kind) {
                insert(part, STARTS_TEXT, true);
                has_mark = true;
            }
        }
        has_mark
    }
}
