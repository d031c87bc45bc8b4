//! Places of events: the output index of their item and the index of their block.

use std::collections::HashMap;

use serde_json::json;

use crate::dialect::{
    document::{Document, integer},
    error::{DialectError, Result},
    openai_responses::{
        fields::{CALL_ID, ID},
        response::item::OutputKind,
        stream::{
            event::{CONTENT_INDEX, EventClass, OUTPUT_INDEX, StreamEvent},
            read_items::ReadItems,
        },
    },
};

const ITEM_ID: &[&str] = &["item_id"];

/// Maximum number of ids, and of other places, of one response that are kept.
const MAX_IDS: usize = 4096;

/// Maximum length of an id that is kept.
const MAX_ID_BYTES: usize = 512;

/// The places of the items of one response, by their ids.
///
/// Some servers number items and blocks otherwise than the API: llama.cpp not at all, Ollama
/// gives a call the index of the text in front of it, LiteLLM a text that of the reasoning, and
/// vLLM counts the blocks of all items. Agents that follow such numbers put what belongs to one
/// item into another, or drop it.
#[derive(Debug, Default)]
pub struct ItemPlaces {
    /// Output indexes. An item that has no event but its end may have none.
    indexes: HashMap<String, Option<u64>>,
    /// Output index of the latest item that began or was moved, by that of upstream.
    moved: HashMap<u64, u64>,
    /// Index of the next item whose own index is missing or taken.
    next: u64,
    /// Index of the first block, by output index.
    first_blocks: HashMap<u64, u64>,
}

impl ItemPlaces {
    /// Returns the event at its place. One of an unknown item stays as it is.
    ///
    /// # Errors
    ///
    /// Fails for too many items.
    pub fn place(&mut self, mut event: StreamEvent, items: &ReadItems) -> Result<StreamEvent> {
        let own = event.output_index()?;
        let index = match item_id(&event)? {
            Some(id) => self.index_of(id, &event, own, items),
            None => own,
        };
        let Some(index) = index else {
            return Ok(event);
        };
        if self.moved.len().max(self.first_blocks.len()) > MAX_IDS {
            let message = "the response has too many items";
            return Err(DialectError::Json(message.to_owned()));
        }
        self.next = self.next.max(index.saturating_add(1));
        let mut is_moved = own != Some(index);
        if is_moved {
            event.document.set(OUTPUT_INDEX, &json!(index))?;
        }
        if let Some(block) = integer(&event.document, CONTENT_INDEX)? {
            let first = *self.first_blocks.entry(index).or_insert(block);
            if first > 0 && block >= first {
                is_moved = true;
                event.document.set(CONTENT_INDEX, &json!(block - first))?;
            }
        }
        if is_moved {
            return StreamEvent::parse(event.document.to_bytes());
        }
        Ok(event)
    }

    /// Returns whether an item of the last event was in an event before.
    pub fn has(&self, item: &Document) -> Result<bool> {
        let id = id_of(item)?;
        Ok(id.is_some_and(|id| self.indexes.contains_key(&id)))
    }

    /// Returns the output index of the item with this id.
    fn index_of(
        &mut self,
        id: String,
        event: &StreamEvent,
        own: Option<u64>,
        items: &ReadItems,
    ) -> Option<u64> {
        if let Some(Some(known)) = self.indexes.get(&id) {
            return Some(*known);
        }
        let is_beginning = event.class == EventClass::ItemAdded;
        let index = match own {
            Some(own) if is_beginning => Some(own).filter(|own| items.is_free(*own)),
            // Some servers send another id in each event of an item.
            Some(own) => Some(self.moved.get(&own).copied().unwrap_or(own))
                .filter(|index| may_be_of(event, items, *index)),
            None => None,
        };
        let is_new = own.is_some() || is_beginning;
        let index = index.or_else(|| is_new.then_some(self.next));
        if let (Some(own), Some(index)) = (own, index)
            && (own != index || is_beginning)
        {
            self.moved.insert(own, index);
        }
        let is_item = is_beginning || event.class == EventClass::ItemDone;
        let is_kept = (is_item || own != index) && id.len() <= MAX_ID_BYTES;
        if is_kept && self.indexes.len() < MAX_IDS {
            self.indexes.insert(id, index);
        }
        index
    }
}

/// Returns whether an event with an unknown id may be of the item at an index.
fn may_be_of(event: &StreamEvent, items: &ReadItems, index: u64) -> bool {
    let is_agreed = |kind| kind == OutputKind::Reasoning || !event.is_thought();
    !items.has_ended(index) && items.kind_of_open(index).is_none_or(is_agreed)
}

/// Returns the id with which an event refers to its item.
fn item_id(event: &StreamEvent) -> Result<Option<String>> {
    match event.document.string(ITEM_ID)? {
        Some(id) => Ok(Some(id).filter(|id| !id.is_empty())),
        None => id_of(&event.item()?),
    }
}

/// Returns the id of an item. That of a call without an own id is the id of the call.
fn id_of(item: &Document) -> Result<Option<String>> {
    let id = item.string(ID)?.or(item.string(CALL_ID)?);
    Ok(id.filter(|id| !id.is_empty()))
}
