//! Chain of fingerprints: each covers an item and everything before it.

use super::{
    fingerprint::{Fingerprint, Fingerprinter, RollingHash},
    hashed_item::{HashedItem, ItemHash},
};

/// Shorter texts are not taken as unique.
const MIN_UNIQUE_TEXT_BYTES: usize = 64;

/// End of a conversation, to which items can be appended.
#[derive(Debug, Clone)]
pub(super) struct FingerprintChain {
    caller: Fingerprint,
    prefix: Fingerprint,
    /// Text of the model at the end, and the prefix before it.
    open_text: Option<(Fingerprint, RollingHash)>,
}

/// Fingerprints of an appended item.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainLink {
    /// Covers the caller and all items up to this one.
    pub(super) prefix: Fingerprint,
    /// Covers this item only.
    pub(super) own: Fingerprint,
    /// Present if the item is long enough to identify its session.
    pub(super) unique: Option<Fingerprint>,
    /// Whether the item continues the text before it.
    pub(super) continues: bool,
}

impl FingerprintChain {
    /// Returns the start of all conversations of a caller.
    pub(super) fn new(fingerprinter: &Fingerprinter, caller: &str) -> Self {
        let caller = fingerprinter.fingerprint(&("caller", caller));
        Self {
            caller,
            prefix: caller,
            open_text: None,
        }
    }

    pub(super) fn push(&mut self, fingerprinter: &Fingerprinter, item: &HashedItem) -> ChainLink {
        let open_text = self.open_text.take();
        let own_of = |text| fingerprinter.fingerprint(&(item.kind, item.by_model, text));
        let (own, text, continues) = match item.hash {
            ItemHash::Text(next) if item.by_model => {
                let continues = open_text.is_some();
                let (before, text) = open_text.unwrap_or((self.prefix, RollingHash::EMPTY));
                let text = text.join(next);
                self.prefix = before;
                self.open_text = Some((before, text));
                (own_of(text), Some(text), continues)
            }
            ItemHash::Text(text) => (own_of(text), Some(text), false),
            ItemHash::Other(own) => (own, None, false),
        };
        self.prefix = fingerprinter.fingerprint(&(self.prefix, own));
        let unique = match (text, item.id) {
            (Some(text), _) => self.unique_text(fingerprinter, text),
            (None, Some(id)) => Some(fingerprinter.fingerprint(&("call", self.caller, id, own))),
            (None, None) => None,
        };
        ChainLink {
            prefix: self.prefix,
            own,
            unique,
            continues,
        }
    }

    /// Returns the index fingerprint of a tool result that hooks have replaced.
    pub(super) fn replaced_result(
        &self,
        fingerprinter: &Fingerprinter,
        own: Fingerprint,
    ) -> Fingerprint {
        fingerprinter.fingerprint(&("hidden", self.caller, own))
    }

    /// Returns the fingerprint of a text that identifies its session; `None` for a
    /// short text.
    pub(super) fn unique_text(
        &self,
        fingerprinter: &Fingerprinter,
        text: RollingHash,
    ) -> Option<Fingerprint> {
        let is_unique = text.length() >= MIN_UNIQUE_TEXT_BYTES;
        is_unique.then(|| fingerprinter.fingerprint(&("text", self.caller, text)))
    }
}
