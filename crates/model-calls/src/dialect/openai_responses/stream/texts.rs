//! Texts of a stream as far as they have arrived. Each text is repeated by later events.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, insert},
    error::{DialectError, Result},
    google::fields::PHASE,
    openai_responses::response::item::ItemSlot,
    text_edit::TextStream,
};

/// Maximum number of bytes of all texts of one response.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Bytes that an empty text counts as.
const EMPTY_TEXT_BYTES: usize = 128;

/// The texts of one response, by item and slot.
#[derive(Debug, Default)]
pub struct StreamedTexts {
    texts: HashMap<(u64, ItemSlot), String>,
    /// Texts that have ended.
    ended: HashSet<(u64, ItemSlot)>,
    /// The texts with the latest pieces.
    latest: HashMap<TextStream, (u64, ItemSlot)>,
    /// Phase of the latest message, and its item.
    phase: Option<(u64, String)>,
    bytes: usize,
}

impl StreamedTexts {
    /// Appends a piece of a text.
    ///
    /// # Errors
    ///
    /// Fails if the text has ended, since only some clients read the piece, or if the texts
    /// become too long.
    pub fn append(&mut self, item: u64, slot: ItemSlot, piece: &str) -> Result<()> {
        if self.ended.contains(&(item, slot)) {
            return Err(DialectError::Ambiguous("delta".to_owned()));
        }
        let text = self.texts.entry((item, slot)).or_insert_with(|| {
            self.bytes += EMPTY_TEXT_BYTES;
            String::new()
        });
        self.bytes += piece.len();
        if self.bytes > MAX_TEXT_BYTES {
            return Err(DialectError::Json("the response is too long".to_owned()));
        }
        text.push_str(piece);
        Ok(())
    }

    /// Appends a piece. Returns its part; the first one carries the phase of its item.
    ///
    /// # Errors
    ///
    /// Fails like [`StreamedTexts::append`], and if the piece continues a text behind a piece of
    /// another one: both would be read as one text.
    pub fn read(
        &mut self,
        stream: TextStream,
        item: u64,
        slot: ItemSlot,
        piece: &str,
    ) -> Result<Value> {
        let place = (item, slot);
        let is_first = self.texts.get(&place).is_none_or(String::is_empty);
        let mut part = json!({ "text": piece });
        if stream == TextStream::Thought {
            insert(&mut part, "thought", true);
        }
        if !piece.is_empty() {
            let latest = self.latest.insert(stream, place);
            if !is_first && latest.is_some_and(|latest| latest != place) {
                return Err(DialectError::Ambiguous("output_index".to_owned()));
            }
        }
        let phase = self
            .phase
            .as_ref()
            .filter(|(of, _)| is_first && *of == item);
        if let Some((_, phase)) = phase {
            insert(&mut part, PHASE, phase.as_str());
        }
        self.append(item, slot, piece)?;
        Ok(part)
    }

    /// Notes the phase of an item that begins.
    pub fn begin_item(&mut self, index: u64, item: &Document) -> Result<()> {
        self.phase = match item.get(&["phase"])? {
            Some(Value::String(phase)) => Some((index, phase)),
            Some(_) | None => None,
        };
        Ok(())
    }

    /// Returns the rest of a complete text, or of the beginning of one, that was not seen before.
    /// A text that contradicts the pieces before it has none, since the agent receives the pieces
    /// in its place.
    pub fn unseen<'a>(&self, item: u64, slot: ItemSlot, text: &'a str) -> Option<&'a str> {
        let known = self.texts.get(&(item, slot));
        let known = known.map(String::as_str).unwrap_or_default();
        let is_open = !self.ended.contains(&(item, slot));
        let new = text.strip_prefix(known);
        new.filter(|new| is_open && !new.is_empty())
    }

    /// Notes that a text is complete.
    pub fn end(&mut self, item: u64, slot: ItemSlot) {
        self.ended.insert((item, slot));
    }

    /// Removes the texts of an earlier item with the same index.
    pub fn remove(&mut self, item: u64) {
        self.texts.retain(|(known, _), _| *known != item);
        self.ended.retain(|(known, _)| *known != item);
        self.phase.take_if(|(of, _)| *of == item);
    }
}
