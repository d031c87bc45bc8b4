//! Items of a stream as far as they have arrived.

use std::collections::HashMap;

use crate::dialect::{
    document::Document,
    error::{DialectError, Result},
    openai_responses::{
        response::item::{OutputKind, id_of},
        stream::{event::StreamEvent, last_event::ItemIdentity},
    },
};

/// Maximum number of items in one response.
const MAX_ITEMS: usize = 4096;

/// Progress of an item, by the events received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemProgress {
    /// The event with its beginning.
    Begun(OutputKind),
    /// Texts or arguments, without such an event.
    Unannounced,
    /// Texts whose events have no index. They may be of no item.
    Unindexed,
    Done(OutputKind),
}

#[derive(Debug)]
struct ReadItem {
    id: Option<String>,
    progress: ItemProgress,
}

/// The items of one response.
///
/// INVARIANT: no event belongs to an item that has ended, since clients put its text into
/// different items, or drop it.
#[derive(Debug, Default)]
pub struct ReadItems {
    all: Vec<ReadItem>,
    /// Positions of the latest items, by output index.
    latest: HashMap<u64, usize>,
}

impl ReadItems {
    /// Notes the beginning of an item. Some servers give several items the same index, one
    /// after the other; they are renumbered.
    ///
    /// # Errors
    ///
    /// Fails if an item with this index has not ended yet, and for too many items.
    pub fn begin(&mut self, index: u64, item: &Document) -> Result<()> {
        let kind = OutputKind::of(item)?;
        let is_announced = self.is_announced_by(index, kind);
        if self.is_open(index) && !is_announced {
            return Err(ambiguous());
        }
        let begun = ReadItem {
            id: id_of(item)?,
            progress: ItemProgress::Begun(kind),
        };
        match self.get_mut(index).filter(|_| is_announced) {
            Some(known) => *known = begun,
            None => self.insert(index, begun)?,
        }
        Ok(())
    }

    /// Notes an event of an item. Most clients add a text without an index to the first item.
    ///
    /// # Errors
    ///
    /// Fails if the item has ended.
    pub fn note_event(&mut self, index: Option<u64>) -> Result<()> {
        let progress = match (self.progress(index.unwrap_or(0)), index) {
            (Some(ItemProgress::Done(_)), _) => return Err(ambiguous()),
            (Some(_), _) => return Ok(()),
            (None, Some(_)) => ItemProgress::Unannounced,
            (None, None) => ItemProgress::Unindexed,
        };
        let item = ReadItem { id: None, progress };
        self.insert(index.unwrap_or(0), item)
    }

    /// Notes the end of an item. One whose event has no index may be the only event of its
    /// item.
    ///
    /// # Errors
    ///
    /// Fails if the item has ended, or has begun as an item of another kind.
    pub fn end(&mut self, index: Option<u64>, item: &Document) -> Result<()> {
        let (position, kind) = (index.unwrap_or(0), OutputKind::of(item)?);
        let is_own = match (self.progress(position), index) {
            (Some(ItemProgress::Done(_)), Some(_)) => return Err(ambiguous()),
            (Some(ItemProgress::Begun(begun)), _) if begun != kind => {
                return Err(DialectError::Ambiguous("item".to_owned()));
            }
            (Some(ItemProgress::Unindexed), _) => kind != OutputKind::Message,
            (Some(ItemProgress::Done(_)), None) | (None, _) => true,
            (Some(ItemProgress::Begun(_) | ItemProgress::Unannounced), _) => false,
        };
        let done = ReadItem {
            id: id_of(item)?,
            progress: ItemProgress::Done(kind),
        };
        match self.get_mut(position).filter(|_| !is_own) {
            Some(known) => *known = done,
            None => self.insert(position, done)?,
        }
        Ok(())
    }

    /// Returns whether an item has begun and not ended.
    pub fn is_open(&self, index: u64) -> bool {
        matches!(
            self.progress(index),
            Some(ItemProgress::Begun(_) | ItemProgress::Unannounced)
        )
    }

    /// Returns whether the latest item with this index has ended.
    pub fn has_ended(&self, index: u64) -> bool {
        matches!(self.progress(index), Some(ItemProgress::Done(_)))
    }

    /// Returns whether no item has this index.
    pub fn is_free(&self, index: u64) -> bool {
        !self.is_open(index) && !self.has_ended(index)
    }

    /// Returns whether the beginning of an item of this kind is that of the texts at an index.
    pub fn is_announced_by(&self, index: u64, kind: OutputKind) -> bool {
        let progress = self.progress(index);
        let has_texts = matches!(
            progress,
            Some(ItemProgress::Unannounced | ItemProgress::Unindexed)
        );
        has_texts && kind == OutputKind::Message
    }

    /// Returns the kind of the latest item with this index, if it has begun.
    pub fn kind(&self, index: u64) -> Option<OutputKind> {
        match self.progress(index)? {
            ItemProgress::Begun(kind) | ItemProgress::Done(kind) => Some(kind),
            ItemProgress::Unannounced | ItemProgress::Unindexed => None,
        }
    }

    /// Returns whether the events of an item are texts that hooks see one by one.
    pub fn is_streamed(&self, index: u64) -> bool {
        self.kind(index).is_some_and(OutputKind::is_streamed)
    }

    /// Returns whether an event has a thought, or its end, that is in no reasoning item.
    pub fn is_thought_of_no_item(&self, event: &StreamEvent) -> Result<bool> {
        let kind = self.kind(event.output_index()?.unwrap_or(0));
        Ok(event.is_thought() && kind != Some(OutputKind::Reasoning))
    }

    /// Returns the index of the only item that has begun, has not ended, and is of such a kind.
    pub fn only_open(&self, is_it: impl Fn(OutputKind) -> Result<bool>) -> Result<Option<u64>> {
        let mut only = None;
        for index in self.latest.keys() {
            if let Some(ItemProgress::Begun(kind)) = self.progress(*index)
                && is_it(kind)?
                && only.replace(*index).is_some()
            {
                return Ok(None);
            }
        }
        Ok(only)
    }

    /// Returns whether no event had an index, so that they may be of any item.
    pub fn are_unindexed(&self) -> bool {
        self.all.len() == 1 && self.progress(0) == Some(ItemProgress::Unindexed)
    }

    /// Returns all items, in the order in which they began. Texts that no item was announced for
    /// are those of messages.
    pub fn earlier(&self) -> Vec<ItemIdentity> {
        let items = self.all.iter().map(|item| ItemIdentity {
            id: item.id.clone(),
            kind: match item.progress {
                ItemProgress::Begun(kind) | ItemProgress::Done(kind) => kind,
                ItemProgress::Unannounced | ItemProgress::Unindexed => OutputKind::Message,
            },
        });
        items.collect()
    }

    fn progress(&self, index: u64) -> Option<ItemProgress> {
        let item = self.all.get(*self.latest.get(&index)?)?;
        Some(item.progress)
    }

    fn get_mut(&mut self, index: u64) -> Option<&mut ReadItem> {
        self.all.get_mut(*self.latest.get(&index)?)
    }

    fn insert(&mut self, index: u64, item: ReadItem) -> Result<()> {
        self.latest.insert(index, self.all.len());
        self.all.push(item);
        if self.all.len() > MAX_ITEMS {
            let message = "the response has too many items";
            return Err(DialectError::Json(message.to_owned()));
        }
        Ok(())
    }
}

fn ambiguous() -> DialectError {
    DialectError::Ambiguous("output_index".to_owned())
}
