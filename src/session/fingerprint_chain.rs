//! Chain of fingerprints: each covers an item and everything before it.

use super::fingerprint::{Fingerprint, Fingerprinter, StreamHasher};
use crate::dialect::{CanonicalItem, ItemKind};

/// Shorter call ids are not taken as unique.
const MIN_UNIQUE_ID_BYTES: usize = 8;

/// Shorter texts are not taken as unique.
const MIN_UNIQUE_TEXT_BYTES: usize = 64;

/// End of a conversation, to which items can be appended.
#[derive(Debug, Clone)]
pub(super) struct FingerprintChain {
    pub(super) fingerprinter: Fingerprinter,
    caller: Fingerprint,
    pub(super) prefix: Fingerprint,
    /// Text of the model at the end, and the prefix before it.
    open_text: Option<(Fingerprint, StreamHasher)>,
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
    /// True if the item continues the text before it.
    pub(super) continues: bool,
}

impl FingerprintChain {
    /// Returns the start of all conversations of a caller, or of all those that continue the stored
    /// response with this id.
    pub(super) fn new(fingerprinter: Fingerprinter, caller: &str, continued: Option<&str>) -> Self {
        let caller = fingerprinter.fingerprint(&("caller", caller));
        let behind = |id| fingerprinter.fingerprint(&("continued", caller, id));
        Self {
            prefix: continued.map_or(caller, behind),
            caller,
            open_text: None,
            fingerprinter,
        }
    }

    pub(super) fn push(&mut self, item: &CanonicalItem) -> ChainLink {
        let fingerprinter = &self.fingerprinter;
        let open_text = self.open_text.take().filter(|_| item.by_model);
        let kind = (item.kind, item.by_model);
        let (own, unique, continues);
        if item.kind.is_text() {
            continues = open_text.is_some();
            let start = || (self.prefix, fingerprinter.stream_hasher());
            let (before, mut text) = open_text.unwrap_or_else(start);
            text.push(item.text.as_bytes());
            own = fingerprinter.fingerprint(&(kind, text.fingerprint()));
            unique = self.unique_text(&text);
            self.prefix = before;
            self.open_text = item.by_model.then_some((before, text));
        } else {
            continues = false;
            own = fingerprinter.fingerprint(&(kind, &item.text));
            let id = |id| fingerprinter.fingerprint(&("call", self.caller, id, own));
            unique = unique_call_id(item).map(id);
        }
        self.prefix = fingerprinter.fingerprint(&(self.prefix, own));
        ChainLink {
            prefix: self.prefix,
            own,
            unique,
            continues,
        }
    }

    /// Returns the index fingerprint of a tool result that hooks have replaced.
    pub(super) fn replaced_result(&self, own: Fingerprint) -> Fingerprint {
        self.fingerprinter
            .fingerprint(&("hidden", self.caller, own))
    }

    /// Returns the own fingerprint of a text of the model.
    pub(super) fn own_of_text(&self, text: &StreamHasher) -> Fingerprint {
        let kind = (ItemKind::Text, true);
        self.fingerprinter.fingerprint(&(kind, text.fingerprint()))
    }

    /// Returns the fingerprint of a text that identifies its session; `None` for a
    /// short text.
    pub(super) fn unique_text(&self, text: &StreamHasher) -> Option<Fingerprint> {
        if text.length() < MIN_UNIQUE_TEXT_BYTES {
            return None;
        }
        let text = ("text", self.caller, text.fingerprint());
        Some(self.fingerprinter.fingerprint(&text))
    }
}

/// Returns the id of a call if it is long enough to be unique. In helper calls
/// gemini-cli writes the tool's name in front of it.
fn unique_call_id(item: &CanonicalItem) -> Option<&str> {
    let id = item.id.as_deref().filter(|_| item.kind == ItemKind::Call)?;
    let id = id.rsplit_once("__").map_or(id, |(_, id)| id);
    (id.len() >= MIN_UNIQUE_ID_BYTES).then_some(id)
}
