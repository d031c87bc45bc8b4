//! Entry in a document's list of fields.

use std::ops::Range;

use bytes::Bytes;
use compact_str::CompactString;

use crate::dialect::document::key::FieldKey;

#[derive(Debug, Clone)]
pub struct Field {
    pub key: CompactString,
    /// Position of the original value; `None` if the field is new.
    pub place: Option<Range<usize>>,
    /// Index in the layout, if there is one.
    pub index: Option<usize>,
    pub edit: Option<Edit>,
}

#[derive(Debug, Clone)]
pub enum Edit {
    Set(Bytes),
    Remove,
}

impl Field {
    pub fn key(&self) -> FieldKey<'_> {
        FieldKey::Decoded(&self.key)
    }

    pub fn is_removed(&self) -> bool {
        matches!(self.edit, Some(Edit::Remove))
    }
}
