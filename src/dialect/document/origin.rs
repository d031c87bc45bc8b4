//! Where the fields of a document stand in what it was part of.

use std::{ops::Range, sync::Arc};

use crate::json::Layout;

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
    fn own(&self, place: Range<usize>) -> Option<Range<usize>> {
        Some(place.start.checked_sub(self.start)?..place.end.checked_sub(self.start)?)
    }

    /// Where a value stands in the object's own text.
    pub(super) fn place(&self, number: usize) -> Option<Range<usize>> {
        self.own(self.layout.place(number)?)
    }

    /// A field's key as it is written in `bytes`, between its quotes.
    pub(super) fn key<'a>(&self, bytes: &'a [u8], number: usize) -> &'a [u8] {
        let place = self.layout.key(number).and_then(|it| self.own(it));
        let quoted = place.and_then(|it| bytes.get(it)).unwrap_or_default();
        match quoted {
            [b'"', text @ .., b'"'] => text,
            other => other,
        }
    }
}
