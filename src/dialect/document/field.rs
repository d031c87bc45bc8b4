//! A field of a document in a list, and what becomes of it.

use std::ops::Range;

use bytes::Bytes;
use compact_str::CompactString;

use super::keys::Key;

/// A field, edited or not.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) key: CompactString,
    /// The old text's place; none if the field is new.
    pub(super) place: Option<Range<usize>>,
    /// Its number in the layout, if it has one.
    pub(super) number: Option<usize>,
    /// The new text; none if the field is as it came.
    pub(super) edit: Option<Edit>,
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Set(Bytes),
    Remove,
}

impl Field {
    pub(super) fn key(&self) -> Key<'_> {
        Key::Meant(&self.key)
    }
}
