//! The part of a text that is at hand. Every offset counts from the start of
//! the whole text, so it stays true however the text comes.

use std::ops::Range;

/// How many bytes before a match decide whether it is one. A stream keeps as
/// many of what it has already released.
pub(super) const CONTEXT: usize = 96;

/// A window on a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'t> {
    text: &'t str,
    /// Where the window begins in the whole text.
    base: usize,
    /// Whether the text ends where the window does.
    is_last: bool,
}

impl<'t> View<'t> {
    /// A whole text.
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

    /// Where the window begins.
    pub(super) fn base(self) -> usize {
        self.base
    }

    /// Where the window ends.
    pub(super) fn end(self) -> usize {
        self.base + self.text.len()
    }

    pub(super) fn is_last(self) -> bool {
        self.is_last
    }

    /// The bytes of a range.
    pub(super) fn bytes(self, range: Range<usize>) -> &'t [u8] {
        let inside = self.inside(range);
        self.text.as_bytes().get(inside).unwrap_or_default()
    }

    /// The text of a range between two characters.
    pub(super) fn text(self, range: Range<usize>) -> &'t str {
        let inside = self.inside(range);
        self.text.get(inside).unwrap_or_default()
    }

    /// What stands before a place, as far as it may matter.
    pub(super) fn before(self, at: usize) -> &'t [u8] {
        self.bytes(at.saturating_sub(CONTEXT).max(self.base)..at)
    }

    /// What follows from a place on.
    pub(super) fn after(self, at: usize) -> &'t [u8] {
        self.bytes(at..self.end())
    }

    /// The byte at a place, unless the window ends before it.
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        let inside = at.checked_sub(self.base)?;
        self.text.as_bytes().get(inside).copied()
    }

    /// The last place between two characters that is not after this one.
    pub(super) fn floor(self, at: usize) -> usize {
        self.base + self.text.floor_char_boundary(at.saturating_sub(self.base))
    }

    fn inside(self, range: Range<usize>) -> Range<usize> {
        range.start.saturating_sub(self.base)..range.end.saturating_sub(self.base)
    }
}
