//! Places of events: the output index of their item and the index of their block.

use std::collections::HashMap;

use serde_json::json;

use crate::dialect::{
    document::integer,
    error::Result,
    openai_responses::{
        response::item::{OutputKind, id_of},
        stream::{
            event::{CONTENT_INDEX, EventClass, OUTPUT_INDEX, StreamEvent},
            read_items::ReadItems,
        },
    },
};

const ITEM_ID: &[&str] = &["item_id"];

/// Maximum number of ids of one response that are kept.
const MAX_IDS: usize = 4096;

/// Maximum length of an id that is kept.
const MAX_ID_BYTES: usize = 512;

/// The places of the items of one response.
///
/// Some servers number items and blocks otherwise than the API: llama.cpp not at all, Ollama
/// gives a call the index of the text in front of it, LiteLLM a text that of the reasoning,
/// `SGLang` the end of an item that of the next one, and vLLM numbers blocks across items. Agents
/// that follow such numbers put what belongs to one item into another, or drop it.
///
/// An `output_item.added` begins an item, at its own index if that is free. Every other event is of
/// the item with its id and index, with its id, or with its index, in this order; an end is
/// otherwise of the only open item of its kind. Texts and ends of no such item begin one, and
/// thoughts have none.
#[derive(Debug, Default)]
pub struct ItemPlaces {
    ids: HashMap<String, ItemsOfId>,
    /// Output index of the latest item, by that of upstream.
    latest: HashMap<u64, u64>,
    /// Index of the next item whose own index is missing or taken.
    next: u64,
    /// Blocks of items, by output index.
    blocks: HashMap<u64, ItemBlocks>,
}

/// Output indexes of the items with one id. Some servers give all items the same one.
#[derive(Debug, Default)]
struct ItemsOfId {
    latest: u64,
    /// Output index of the latest item, by that of upstream.
    by_index: HashMap<u64, u64>,
}

/// Upstream's indexes of the blocks of an item.
#[derive(Debug)]
struct ItemBlocks {
    first: u64,
    /// The latest one that began with an event of its own.
    announced: Option<u64>,
}

impl ItemPlaces {
    /// Returns the event at its place. One without an index and of an unknown item stays as it is.
    pub fn place(&mut self, mut event: StreamEvent, items: &ReadItems) -> Result<StreamEvent> {
        let own = event.output_index()?;
        let index = match event.class {
            EventClass::Created | EventClass::Progress | EventClass::Ended | EventClass::Failed => {
                None
            }
            EventClass::ItemAdded => Some(self.begin(&event, own, items)?),
            EventClass::ItemDone
            | EventClass::Delta
            | EventClass::TextDone(_)
            | EventClass::PartAdded
            | EventClass::PartDone
            | EventClass::Other => self.index_of(&event, own, items)?,
        };
        let Some(index) = index else {
            return Ok(event);
        };
        let mut is_moved = own != Some(index);
        if is_moved {
            event.document.set(OUTPUT_INDEX, &json!(index))?;
        }
        if !items.is_thought_of_no_item(&event)?
            && let Some(block) = self.other_block(&event, index)?
        {
            is_moved = true;
            event.document.set(CONTENT_INDEX, &json!(block))?;
        }
        if is_moved {
            return StreamEvent::parse(event.document.to_bytes());
        }
        Ok(event)
    }

    /// Returns the output index of the item that an event begins. A second beginning of an open
    /// item has the index of the first.
    fn begin(&mut self, event: &StreamEvent, own: Option<u64>, items: &ReadItems) -> Result<u64> {
        let item = event.item()?;
        let (id, kind) = (id_of(&item)?, OutputKind::of(&item)?);
        let of_id = id.as_ref().and_then(|id| self.ids.get(id));
        let latest = own.and_then(|own| self.latest.get(&own).copied());
        let same = match &id {
            Some(_) => of_id.and_then(|of_id| of_id.by_index.get(&own?).copied()),
            None => latest,
        };
        let mut known = [same, of_id.map(|of_id| of_id.latest), latest]
            .into_iter()
            .flatten();
        let begun = known.find(|index| items.is_announced_by(*index, kind));
        let begun = begun.or(same.filter(|index| items.is_open(*index)));
        let index = begun.unwrap_or_else(|| self.free(own, items));
        self.insert(id, own, index);
        Ok(index)
    }

    /// Returns the output index of the item that an event is of; `None` if it has no index, and
    /// no known id.
    fn index_of(
        &mut self,
        event: &StreamEvent,
        own: Option<u64>,
        items: &ReadItems,
    ) -> Result<Option<u64>> {
        let id = item_id(event)?;
        let known = match &id {
            Some(id) => self.index_of_id(id, event, own, items)?,
            None => None,
        };
        if known.is_some() {
            return Ok(known);
        }
        let is_thought = event.is_thought();
        let Some(own) = own else {
            let is_of_none = is_thought && items.is_thought_of_no_item(event)?;
            return Ok(is_of_none.then_some(self.next));
        };
        let latest = self.latest.get(&own).copied();
        for index in latest.into_iter().chain([own]) {
            // Some servers send another id in each event of an item.
            let is_present = items.is_open(index) || id.is_none() && items.has_ended(index);
            if is_present && may_be_at(event, index, items)? {
                return Ok(Some(index));
            }
        }
        if event.ends_text()
            && let Some(index) = items.only_open(|kind| is_end_of(event, kind))?
        {
            return Ok(Some(index));
        }
        if is_thought {
            return Ok(Some(self.next));
        }
        let index = self.free(Some(own), items);
        if event.class != EventClass::Other {
            self.insert(id, Some(own), index);
        }
        Ok(Some(index))
    }

    /// Returns the output index of the item with this id that an event is of. An id that is used
    /// again at another index is not that of an item that has ended.
    fn index_of_id(
        &self,
        id: &str,
        event: &StreamEvent,
        own: Option<u64>,
        items: &ReadItems,
    ) -> Result<Option<u64>> {
        let Some(of_id) = self.ids.get(id) else {
            return Ok(None);
        };
        if let Some(index) = own.and_then(|own| of_id.by_index.get(&own))
            && may_be_at(event, *index, items)?
        {
            return Ok(Some(*index));
        }
        let index = of_id.latest;
        let is_it = own.is_none() || items.is_open(index);
        Ok((is_it && may_be_at(event, index, items)?).then_some(index))
    }

    /// Returns the output index of a new item.
    fn free(&self, own: Option<u64>, items: &ReadItems) -> u64 {
        own.filter(|own| items.is_free(*own)).unwrap_or(self.next)
    }

    fn insert(&mut self, id: Option<String>, own: Option<u64>, index: u64) {
        self.next = self.next.max(index.saturating_add(1));
        if let Some(own) = own {
            self.latest.insert(own, index);
        }
        let is_kept = |id: &String| {
            id.len() <= MAX_ID_BYTES && (self.ids.len() < MAX_IDS || self.ids.contains_key(id))
        };
        if let Some(id) = id.filter(is_kept) {
            let of_id = self.ids.entry(id).or_default();
            of_id.latest = index;
            if let Some(own) = own {
                of_id.by_index.insert(own, index);
            }
        }
    }

    /// Returns the index of an event's block within its item, if upstream gives it another one.
    /// Where upstream announces blocks, an index that it did not announce is of the latest block:
    /// vLLM gives each event another one.
    fn other_block(&mut self, event: &StreamEvent, index: u64) -> Result<Option<u64>> {
        let Some(own) = integer(&event.document, CONTENT_INDEX)? else {
            return Ok(None);
        };
        if event.class == EventClass::Other && !self.blocks.contains_key(&index) {
            return Ok(None);
        }
        let blocks = self.blocks.entry(index).or_insert(ItemBlocks {
            first: own,
            announced: None,
        });
        if event.class == EventClass::PartAdded {
            blocks.announced = blocks.announced.max(Some(own));
        }
        let latest = blocks.announced.unwrap_or(own);
        let block = own.min(latest).saturating_sub(blocks.first);
        Ok((block != own).then_some(block))
    }
}

/// Returns whether an event may be of the item at an index. The end of another kind of item is an
/// error of its own.
fn may_be_at(event: &StreamEvent, index: u64, items: &ReadItems) -> Result<bool> {
    match items.kind(index) {
        Some(kind) if event.class != EventClass::ItemDone => may_be_of(event, kind),
        Some(_) => Ok(true),
        None => Ok(!event.is_thought()),
    }
}

/// Returns whether an event may end an item of this kind, or one of its texts.
fn is_end_of(event: &StreamEvent, kind: OutputKind) -> Result<bool> {
    let is_text = kind.is_streamed() || event.class == EventClass::ItemDone;
    Ok(is_text && may_be_of(event, kind)?)
}

/// Returns whether an event may be of an item of this kind.
fn may_be_of(event: &StreamEvent, kind: OutputKind) -> Result<bool> {
    Ok(match event.class {
        EventClass::ItemDone => OutputKind::of(&event.item()?)? == kind,
        _ if event.is_thought() => kind == OutputKind::Reasoning,
        EventClass::Delta | EventClass::TextDone(_) if event.is_of_call() => !kind.is_streamed(),
        EventClass::Delta | EventClass::TextDone(_) => kind != OutputKind::Reasoning,
        EventClass::PartAdded | EventClass::PartDone => kind.is_streamed(),
        EventClass::Created
        | EventClass::Progress
        | EventClass::ItemAdded
        | EventClass::Ended
        | EventClass::Failed
        | EventClass::Other => true,
    })
}

/// Returns the id with which an event refers to its item.
fn item_id(event: &StreamEvent) -> Result<Option<String>> {
    match event.document.string(ITEM_ID)? {
        Some(id) => Ok(Some(id).filter(|id| !id.is_empty())),
        None => id_of(&event.item()?),
    }
}
