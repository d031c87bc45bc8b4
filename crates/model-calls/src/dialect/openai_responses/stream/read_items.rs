//! Items of a stream as far as they have arrived.

use std::collections::BTreeMap;

use crate::dialect::{
    error::{DialectError, Result},
    openai_responses::response::item::OutputKind,
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
    Done,
}

/// The items of one response, by output index.
///
/// INVARIANT: no event belongs to an item that has ended, since clients put its text into
/// different items, or drop it.
#[derive(Debug, Default)]
pub struct ReadItems {
    progress: BTreeMap<u64, ItemProgress>,
    count: usize,
}

impl ReadItems {
    /// Notes the beginning of an item. Some servers give several items the same index, one
    /// after the other; they are renumbered.
    ///
    /// # Errors
    ///
    /// Fails if an item with this index has not ended yet, and for too many items.
    pub fn begin(&mut self, index: u64, kind: OutputKind) -> Result<()> {
        if self.is_open(index) {
            return Err(ambiguous());
        }
        let begun = ItemProgress::Begun(kind);
        if self.progress.get(&index) == Some(&ItemProgress::Unindexed) {
            self.progress.insert(index, begun);
            return Ok(());
        }
        self.insert(index, begun)
    }

    /// Notes an event of an item. Most clients add a text without an index to the first item.
    ///
    /// # Errors
    ///
    /// Fails if the item has ended.
    pub fn note_event(&mut self, index: Option<u64>) -> Result<()> {
        match (self.progress.get(&index.unwrap_or(0)), index) {
            (Some(ItemProgress::Done), _) => Err(ambiguous()),
            (Some(_), _) => Ok(()),
            (None, Some(index)) => self.insert(index, ItemProgress::Unannounced),
            (None, None) => self.insert(0, ItemProgress::Unindexed),
        }
    }

    /// Notes the end of an item. One whose event has no index may be the only event of its
    /// item.
    ///
    /// # Errors
    ///
    /// Fails if the item has ended, or has begun as an item of another kind.
    pub fn end(&mut self, index: Option<u64>, kind: OutputKind) -> Result<()> {
        let position = index.unwrap_or(0);
        match (self.progress.get(&position), index) {
            (Some(ItemProgress::Done), Some(_)) => Err(ambiguous()),
            (Some(ItemProgress::Begun(begun)), _) if *begun != kind => {
                Err(DialectError::Ambiguous("item".to_owned()))
            }
            (Some(ItemProgress::Done), None) | (None, _) => {
                self.insert(position, ItemProgress::Done)
            }
            (Some(_), _) => {
                self.progress.insert(position, ItemProgress::Done);
                Ok(())
            }
        }
    }

    /// Returns whether an item has begun and not ended.
    pub fn is_open(&self, index: u64) -> bool {
        let progress = self.progress.get(&index);
        matches!(
            progress,
            Some(ItemProgress::Begun(_) | ItemProgress::Unannounced)
        )
    }

    /// Returns whether the latest item with this index has ended.
    pub fn has_ended(&self, index: u64) -> bool {
        self.progress.get(&index) == Some(&ItemProgress::Done)
    }

    /// Returns whether no item has this index.
    pub fn is_free(&self, index: u64) -> bool {
        !self.is_open(index) && !self.has_ended(index)
    }

    /// Returns the kind of an item that has begun and not ended.
    pub fn kind_of_open(&self, index: u64) -> Option<OutputKind> {
        match self.progress.get(&index) {
            Some(ItemProgress::Begun(kind)) => Some(*kind),
            _ => None,
        }
    }

    /// Returns whether the events of an item are texts that hooks see one by one.
    pub fn is_streamed(&self, index: u64) -> bool {
        self.kind_of_open(index)
            .is_some_and(OutputKind::is_streamed)
    }

    /// Returns whether events with this index, or without one, are of an item.
    pub fn has_item(&self, index: Option<u64>) -> bool {
        let first = self.progress.get(&0);
        index.is_some() || first.is_some_and(|first| *first != ItemProgress::Unindexed)
    }

    /// Returns whether no event had an index, so that they may be of any item.
    pub fn are_unindexed(&self) -> bool {
        self.count == 1 && self.progress.get(&0) == Some(&ItemProgress::Unindexed)
    }

    /// Returns the number of items.
    pub const fn count(&self) -> usize {
        self.count
    }

    fn insert(&mut self, index: u64, progress: ItemProgress) -> Result<()> {
        self.progress.insert(index, progress);
        self.count += 1;
        if self.count > MAX_ITEMS {
            let message = "the response has too many items";
            return Err(DialectError::Json(message.to_owned()));
        }
        Ok(())
    }
}

fn ambiguous() -> DialectError {
    DialectError::Ambiguous("output_index".to_owned())
}
