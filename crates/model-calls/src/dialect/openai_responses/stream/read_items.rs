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

    /// Notes a piece of a text without an index, which most clients add to the first item.
    ///
    /// # Errors
    ///
    /// Fails if the first item has ended.
    pub fn note_unindexed(&mut self) -> Result<()> {
        match self.progress.get(&0) {
            None => self.insert(0, ItemProgress::Unindexed),
            Some(_) => self.note_event(0),
        }
    }

    /// Notes an event of an item.
    ///
    /// # Errors
    ///
    /// Fails if the item has ended.
    pub fn note_event(&mut self, index: u64) -> Result<()> {
        match self.progress.get(&index) {
            Some(ItemProgress::Done) => Err(ambiguous()),
            Some(_) => Ok(()),
            None => self.insert(index, ItemProgress::Unannounced),
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

    /// Returns whether the events of an item are texts that hooks see one by one.
    pub fn is_streamed(&self, index: u64) -> bool {
        let progress = self.progress.get(&index);
        matches!(progress, Some(ItemProgress::Begun(kind)) if kind.is_streamed())
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
