//! Masking of a streamed text.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{
    Mask,
    stream::MaskStream,
    window::{MAX_CONTEXT_BYTES, MaskWindow},
};

/// Masks one text that arrives in chunks. The output equals that of [`Mask::mask`] on
/// the whole text, however it is split.
#[derive(Clone)]
pub struct Masker {
    mask: Mask,
    flow: MaskStream,
    /// Text that is held back, preceded by context that was written.
    text: String,
    /// Offset of `text` in the whole text.
    base: usize,
    /// Patterns that matched in earlier texts.
    found: BTreeSet<usize>,
}

/// The beginning of the text behind another one, or all of it.
#[derive(Debug, Clone, Copy)]
pub struct NextText<'t> {
    /// The text so far.
    pub text: &'t str,
    /// True if no more of it follows.
    pub is_complete: bool,
}

impl Masker {
    pub(super) fn new(mask: Mask) -> Self {
        Self {
            mask,
            flow: MaskStream::default(),
            text: String::new(),
            base: 0,
            found: BTreeSet::new(),
        }
    }

    /// Adds a chunk and returns the text that is decided. Only what may be part of a
    /// secret is held back.
    pub fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        let view = MaskWindow::new(&self.text, self.base, false);
        let rules = &self.mask.rules;
        let mut out = String::new();
        self.flow.search(rules, view);
        let needed = self.flow.settle(rules, view, &mut out);
        let keep =
            view.char_boundary_before(needed.saturating_sub(MAX_CONTEXT_BYTES).max(self.base));
        self.text.drain(..keep - self.base);
        self.base = keep;
        out
    }

    /// Notes that a text ends here. What is pushed next is searched by itself, and as the rest of
    /// the text: the output is that of [`Mask::mask_parts`], joined.
    pub fn end_text(&mut self) {
        let view = MaskWindow::new(&self.text, self.base, false);
        self.flow.end_text(&self.mask.rules, view);
    }

    /// Ends a text like [`Masker::end_text`], and returns what was held back of it. Of a secret that
    /// continues in the next text, only the rest is masked.
    pub fn release(&mut self) -> String {
        let view = MaskWindow::new(&self.text, self.base, false);
        let mut out = String::new();
        self.flow.release(&self.mask.rules, view, &mut out);
        out
    }

    /// Ends the text and returns what was held back. Chunks pushed later belong to a
    /// new text.
    pub fn finish(&mut self) -> String {
        let view = MaskWindow::new(&self.text, self.base, true);
        let mut out = String::new();
        self.flow.search(&self.mask.rules, view);
        self.flow.settle(&self.mask.rules, view, &mut out);
        self.found.extend(self.flow.rules());
        self.flow = MaskStream::default();
        self.text.clear();
        self.base = 0;
        out
    }

    /// Returns whether the text so far, with `rest` behind it, and the text behind that have a
    /// secret together that neither has by itself; `None` if text to come decides it. If they have
    /// none, they are masked as one if [`Masker::finish`] is called between them.
    pub fn joins(&self, rest: &str, next: NextText<'_>) -> Option<bool> {
        let mut text = self.text.clone() + rest;
        let end = self.base + text.len();
        text.push_str(next.text);
        let view = MaskWindow::new(&text, self.base, next.is_complete);
        self.flow.clone().joins(&self.mask.rules, view, end)
    }

    /// Returns the names of detectors and patterns that matched, each once.
    pub fn found(&self) -> Vec<Arc<str>> {
        let mut found = self.found.clone();
        found.extend(self.flow.rules());
        self.mask.rules.names(found.into_iter()).collect()
    }

    /// Returns whether nothing is held back, so that [`Masker::finish`] returns an empty
    /// string.
    pub fn is_idle(&self) -> bool {
        self.held() == 0 && !self.flow.has_pending_label()
    }

    /// Returns the number of bytes that are held back.
    pub fn held(&self) -> usize {
        self.base + self.text.len() - self.flow.done()
    }
}

/// Omits the text, which may be a secret.
impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").finish_non_exhaustive()
    }
}
