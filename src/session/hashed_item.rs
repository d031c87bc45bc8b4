//! Items of a conversation with their own fingerprints, independent of position.

use super::fingerprint::{Fingerprint, Fingerprinter, RollingHash};
use crate::dialect::{CanonicalItem, ItemKind};

/// Shorter call ids are not taken as unique.
const MIN_UNIQUE_ID_BYTES: usize = 8;

/// One item, hashed without the items before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedItem {
    pub(super) part: usize,
    pub(super) kind: ItemKind,
    pub(super) by_model: bool,
    pub(super) hash: ItemHash,
    /// Fingerprint of a call's id, if the id is long enough to be unique.
    pub(super) id: Option<Fingerprint>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ItemHash {
    /// A text, which the next text may continue.
    Text(RollingHash),
    Other(Fingerprint),
}

impl HashedItem {
    pub(super) fn new(fingerprinter: &Fingerprinter, item: &CanonicalItem) -> Self {
        let hash = match item.kind {
            ItemKind::Text | ItemKind::Introduction => {
                ItemHash::Text(fingerprinter.rolling_hash(&item.text))
            }
            ItemKind::Call | ItemKind::Result | ItemKind::Other => {
                ItemHash::Other(fingerprinter.fingerprint(&(item.kind, item.by_model, &item.text)))
            }
        };
        let id = item.id.as_deref().filter(|_| item.kind == ItemKind::Call);
        let id = id
            .map(without_tool_name)
            .filter(|id| id.len() >= MIN_UNIQUE_ID_BYTES);
        Self {
            part: item.part,
            kind: item.kind,
            by_model: item.by_model,
            hash,
            id: id.map(|id| fingerprinter.fingerprint(&id)),
        }
    }
}

/// In helper calls gemini-cli writes the tool's name in front of an id.
fn without_tool_name(id: &str) -> &str {
    id.rsplit_once("__").map_or(id, |(_, id)| id)
}
