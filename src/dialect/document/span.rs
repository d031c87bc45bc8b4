//! Where the fields of a document stand in what it was part of.

use std::{ops::Range, sync::Arc};

use super::{
    DialectError,
    keys::{Key, one_of},
};
use strict_json::Layout;

/// What an object was part of when it was read.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) layout: Arc<Layout>,
    /// The object's number there.
    pub(super) number: usize,
    /// Where the object's text stood.
    pub(super) start: usize,
}

impl Origin {
    /// A place in the object's own text.
    #[inline]
    fn own(&self, place: Range<usize>) -> Option<Range<usize>> {
        Some(place.start.checked_sub(self.start)?..place.end.checked_sub(self.start)?)
    }

    /// Where a value stands in the object's own text.
    #[inline]
    pub(super) fn place(&self, number: usize) -> Option<Range<usize>> {
        self.own(self.layout.place(number)?)
    }

    /// The number of the field known under one of `spellings`.
    pub(super) fn find(
        &self,
        bytes: &[u8],
        spellings: &[&str],
    ) -> Result<Option<usize>, DialectError> {
        let Some(numbers) = self.layout.within(self.number) else {
            return Ok(None);
        };
        let key = |it| Key::Written(self.key(bytes, it));
        one_of(numbers.map(|it| (it, key(it))), spellings)
    }

    /// A field's key as it is written in `bytes`, between its quotes.
    #[inline]
    pub(super) fn key<'a>(&self, bytes: &'a [u8], number: usize) -> &'a [u8] {
        let place = self.layout.key(number).and_then(|it| self.own(it));
        let quoted = place.and_then(|it| bytes.get(it)).unwrap_or_default();
        match quoted {
            [b'"', text @ .., b'"'] => text,
            other => other,
        }
    }
}
