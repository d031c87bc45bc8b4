//! Position of a document in the layout of the text that it was parsed from.

use std::{ops::Range, sync::Arc};

use strict_json::Layout;

use crate::dialect::{
    document::key::{FieldKey, find_one},
    error::DialectError,
};

#[derive(Debug, Clone)]
pub struct LayoutSpan {
    pub layout: Arc<Layout>,
    /// Index of the object in the layout.
    pub index: usize,
    /// Offset of the object in the parsed text.
    pub start: usize,
}

impl LayoutSpan {
    /// Converts an offset in the parsed text to one in the object.
    #[inline]
    fn relative(&self, place: Range<usize>) -> Option<Range<usize>> {
        Some(place.start.checked_sub(self.start)?..place.end.checked_sub(self.start)?)
    }

    /// Returns the place of a value in the object.
    #[inline]
    pub fn place(&self, index: usize) -> Option<Range<usize>> {
        self.relative(self.layout.place(index)?)
    }

    /// Returns the index of the field known under `spellings`.
    pub fn find(&self, bytes: &[u8], spellings: &[&str]) -> Result<Option<usize>, DialectError> {
        let Some(indexes) = self.layout.within(self.index) else {
            return Ok(None);
        };
        let fields = indexes.map(|index| (index, FieldKey::Raw(self.key(bytes, index))));
        find_one(fields, spellings)
    }

    /// Returns a field's key between its quotes.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8], index: usize) -> &'a [u8] {
        let place = self.layout.key(index);
        let place = place.and_then(|place| self.relative(place));
        match place.and_then(|place| bytes.get(place)).unwrap_or_default() {
            [b'"', text @ .., b'"'] => text,
            other => other,
        }
    }
}
