//! A text that comes in pieces, masked on the way.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{
    Mask,
    stream::Flow,
    window::{CONTEXT, View},
};

/// Masks one text that comes in pieces. What comes out is what
/// [`Mask::conceal`] makes of the whole, however the text was cut.
pub struct Masker {
    mask: Mask,
    flow: Flow,
    /// What is held of the text, after some of what was released.
    text: String,
    /// Where in the whole text `text` begins.
    base: usize,
    /// The rules that found something in texts before this one.
    found: BTreeSet<usize>,
}

impl Masker {
    pub(super) fn new(mask: Mask) -> Self {
        Self {
            mask,
            flow: Flow::default(),
            text: String::new(),
            base: 0,
            found: BTreeSet::new(),
        }
    }

    /// Takes the next piece, and gives what can be released now. Only what may
    /// still turn out to be a secret is held.
    pub fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        let view = View::new(&self.text, self.base, false);
        let rules = &self.mask.rules;
        let mut out = String::new();
        self.flow.search(rules, view);
        let needed = self.flow.settle(rules, view, &mut out);
        let keep = view.floor(needed.saturating_sub(CONTEXT).max(self.base));
        self.text.drain(..keep - self.base);
        self.base = keep;
        out
    }

    /// The text ends: gives what was held. What is pushed later is another text.
    pub fn finish(&mut self) -> String {
        let view = View::new(&self.text, self.base, true);
        let mut out = String::new();
        self.flow.search(&self.mask.rules, view);
        self.flow.settle(&self.mask.rules, view, &mut out);
        self.found.extend(self.flow.rules());
        self.flow = Flow::default();
        self.text.clear();
        self.base = 0;
        out
    }

    /// The names of the detectors and patterns that found something, each once.
    pub fn found(&self) -> Vec<Arc<str>> {
        let mut found = self.found.clone();
        found.extend(self.flow.rules());
        self.mask.rules.names(found.into_iter()).collect()
    }

    /// Whether nothing is held: [`Masker::finish`] would give nothing.
    pub fn is_idle(&self) -> bool {
        self.held() == 0 && !self.flow.is_owing()
    }

    /// How many bytes of the text are held.
    pub fn held(&self) -> usize {
        self.base + self.text.len() - self.flow.done()
    }
}

/// Without the text: what is held may be a secret.
impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").finish_non_exhaustive()
    }
}
