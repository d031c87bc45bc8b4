//! The part of a streamed text that is in memory. Offsets count from the start of the
//! whole text.

use std::ops::Range;

/// Bytes before a match that may decide whether it is one; a stream keeps them.
pub(super) const MAX_CONTEXT_BYTES: usize = 96;

/// A window on a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskWindow<'t> {
    text: &'t str,
    /// Offset of the window in the whole text.
    base: usize,
    /// True if the text ends where the window ends.
    is_last: bool,
}

impl<'t> MaskWindow<'t> {
    /// Creates a window on a complete text.
    pub(super) fn whole(text: &'t str) -> Self {
        Self::new(text, 0, true)
    }

    pub(super) fn new(text: &'t str, base: usize, is_last: bool) -> Self {
        Self {
            text,
            base,
            is_last,
        }
    }

    /// Returns the window without the text before an offset, as if the text began there.
    pub(super) fn starting_at(self, at: usize) -> Self {
        let before = at.saturating_sub(self.base);
        let text = self.text.get(before..).unwrap_or_default();
        Self {
            text,
            base: self.base + before,
            ..self
        }
    }

    /// Returns the window up to an offset, as if the text ended there.
    pub(super) fn up_to(self, at: usize) -> Self {
        Self::new(self.text(self.base..at), self.base, true)
    }

    /// Returns the offset at which the window begins.
    pub(super) fn base(self) -> usize {
        self.base
    }

    /// Returns the offset at which the window ends.
    pub(super) fn end(self) -> usize {
        self.base + self.text.len()
    }

    pub(super) fn is_last(self) -> bool {
        self.is_last
    }

    /// Returns the bytes of a range.
    pub(super) fn bytes(self, range: Range<usize>) -> &'t [u8] {
        let inside = self.inside(range);
        self.text.as_bytes().get(inside).unwrap_or_default()
    }

    /// Returns the text of a range that ends on character boundaries.
    pub(super) fn text(self, range: Range<usize>) -> &'t str {
        let inside = self.inside(range);
        self.text.get(inside).unwrap_or_default()
    }

    /// Returns the context before an offset.
    pub(super) fn before(self, at: usize) -> &'t [u8] {
        self.bytes(at.saturating_sub(MAX_CONTEXT_BYTES).max(self.base)..at)
    }

    /// Returns the bytes from an offset on.
    pub(super) fn after(self, at: usize) -> &'t [u8] {
        self.bytes(at..self.end())
    }

    /// Returns the byte at an offset, unless it is after the window.
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        let inside = at.checked_sub(self.base)?;
        self.text.as_bytes().get(inside).copied()
    }

    /// Returns the last character boundary that is not after an offset.
    pub(super) fn char_boundary_before(self, at: usize) -> usize {
        self.base + self.text.floor_char_boundary(at.saturating_sub(self.base))
    }

    fn inside(self, range: Range<usize>) -> Range<usize> {
        range.start.saturating_sub(self.base)..range.end.saturating_sub(self.base)
    }
}
