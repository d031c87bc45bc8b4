//! Positions in the layout of a text.

use std::{ops::Range, sync::Arc};

use crate::{DocumentError, Layout, Names, lay_out, layout::Within};

/// Depth of a layout; the document itself is 0. Values below it are laid out when they are
/// read.
const LAYOUT_DEPTH: usize = 7;

/// Position of a value in the layout of the text that it was parsed from.
#[derive(Debug, Clone)]
pub(super) struct LayoutSpan {
    pub(super) layout: Arc<Layout>,
    /// Index of the value in the layout.
    pub(super) index: usize,
    /// Offset of the value's bytes in the parsed text.
    start: usize,
}

impl LayoutSpan {
    /// Lays out a text. `names` decides which keys are equal.
    pub(super) fn new(bytes: &[u8], names: Names) -> Result<Self, DocumentError> {
        Ok(Self {
            layout: Arc::new(lay_out(bytes, names, LAYOUT_DEPTH)?),
            index: 0,
            start: 0,
        })
    }

    /// The span of the value at an index.
    pub(super) fn at(layout: &Arc<Layout>, index: usize) -> Self {
        Self {
            layout: Arc::clone(layout),
            index,
            start: layout.place(index).unwrap_or_default().start,
        }
    }

    /// Returns the indexes of the fields or elements.
    #[inline]
    pub(super) fn within(&self) -> Within<'_> {
        self.layout.within(self.index).unwrap_or_default()
    }

    /// Converts a place in the parsed text to one in the value.
    #[inline]
    fn relative(&self, place: Range<usize>) -> Option<Range<usize>> {
        Some(place.start.checked_sub(self.start)?..place.end.checked_sub(self.start)?)
    }

    /// Returns the place of the value at an index.
    #[inline]
    pub(super) fn place(&self, index: usize) -> Option<Range<usize>> {
        self.relative(self.layout.place(index)?)
    }

    /// Returns the place of the key of the value at an index.
    #[inline]
    pub(super) fn key(&self, index: usize) -> Option<Range<usize>> {
        self.relative(self.layout.key(index)?)
    }
}
