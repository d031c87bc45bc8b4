//! Fingerprints of a response, as the items that the agent will send back. Pure.

use super::{
    conversation::Conversation,
    fingerprint::{Fingerprint, Fingerprinter, RollingHash},
    fingerprint_chain::FingerprintChain,
    hashed_item::{HashedItem, ItemHash},
};
use crate::dialect::{CanonicalItem, DialectError, ItemKind, ResponseDocument};

/// Bytes of text that are hashed together. Hashing a small chunk on its own costs as
/// much as hashing a few hundred bytes.
const TEXT_BUFFER_BYTES: usize = 4096;

/// Hashes a response while it is sent, continuing the chain of its request.
#[derive(Debug)]
pub struct ResponseFingerprinter {
    fingerprinter: Fingerprinter,
    chain: FingerprintChain,
    summary: ResponseSummary,
    /// End of the last text, not hashed yet.
    buffer: String,
    /// Unique fingerprint of the last text.
    text: Option<Fingerprint>,
    /// The last text without surrounding white space.
    trimmed: RollingHash,
    /// White space after `trimmed`.
    trailing_space: RollingHash,
    is_finished: bool,
    has_calls: bool,
    /// Whether a function call was sent in parts, so that later items cannot be hashed.
    is_incomplete: bool,
}

/// Fingerprints of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseSummary {
    /// Prefix fingerprints of its items.
    pub prefixes: Vec<Fingerprint>,
    /// Unique fingerprints of its items.
    pub unique: Vec<Fingerprint>,
    /// Whether it finished without function calls: the turn is over, and agents keep
    /// such a response in their history.
    pub ends_turn: bool,
}

impl ResponseFingerprinter {
    /// Returns a fingerprinter for a response to this conversation.
    pub fn new(conversation: &Conversation, fingerprinter: &Fingerprinter) -> Self {
        Self {
            fingerprinter: fingerprinter.clone(),
            chain: conversation.chain.clone(),
            summary: ResponseSummary::default(),
            buffer: String::new(),
            text: None,
            trimmed: RollingHash::EMPTY,
            trailing_space: RollingHash::EMPTY,
            is_finished: false,
            has_calls: false,
            is_incomplete: false,
        }
    }

    /// Adds a response, or one chunk of it.
    pub fn push_chunk(&mut self, chunk: &ResponseDocument) -> Result<(), DialectError> {
        if chunk.has_partial_calls()? {
            self.flush_text();
            self.is_incomplete = true;
        }
        self.is_finished |= chunk.is_complete()?;
        for item in chunk.canonical_items()? {
            if item.kind == ItemKind::Text {
                self.push_text(&item.text);
            } else {
                self.flush_text();
                self.push_item(&item);
            }
        }
        Ok(())
    }

    /// Returns the fingerprints of the response.
    pub fn finish(mut self) -> ResponseSummary {
        self.flush_text();
        self.end_text();
        ResponseSummary {
            ends_turn: self.is_finished && !self.has_calls,
            ..self.summary
        }
    }

    fn push_text(&mut self, text: &str) {
        self.buffer.push_str(text);
        if self.buffer.len() >= TEXT_BUFFER_BYTES {
            self.flush_text();
        }
    }

    /// Hashes the buffered text. Agents may trim a text before they send it back, so
    /// that the trimmed text is hashed, too.
    fn flush_text(&mut self) {
        let text = std::mem::take(&mut self.buffer);
        if text.is_empty() {
            return;
        }
        let without_start = text.trim_start();
        let body = without_start.trim_end();
        let hash = |text: Option<&str>| self.fingerprinter.rolling_hash(text.unwrap_or_default());
        let before = hash(text.get(..text.len() - without_start.len()));
        let middle = hash(Some(body));
        let after = hash(without_start.get(body.len()..));
        self.text = self.push_hashed(&HashedItem {
            part: 0,
            kind: ItemKind::Text,
            by_model: true,
            hash: ItemHash::Text(before.join(middle).join(after)),
            id: None,
        });
        if body.is_empty() {
            let space = if self.trimmed.length() == 0 {
                after
            } else {
                before.join(after)
            };
            self.trailing_space = self.trailing_space.join(space);
        } else {
            if self.trimmed.length() > 0 {
                self.trimmed = self.trimmed.join(self.trailing_space).join(before);
            }
            self.trimmed = self.trimmed.join(middle);
            self.trailing_space = after;
        }
    }

    fn push_item(&mut self, item: &CanonicalItem) {
        let hashed = HashedItem::new(&self.fingerprinter, item);
        let unique = self.push_hashed(&hashed);
        self.has_calls |= item.kind == ItemKind::Call;
        self.summary.unique.extend(unique);
    }

    /// Appends an item to the chain and returns its unique fingerprint.
    fn push_hashed(&mut self, item: &HashedItem) -> Option<Fingerprint> {
        let link = self.chain.push(&self.fingerprinter, item);
        if !link.continues {
            self.end_text();
        }
        if !self.is_incomplete {
            if link.continues {
                self.summary.prefixes.pop();
            }
            self.summary.prefixes.push(link.prefix);
        }
        link.unique
    }

    /// Adds the unique fingerprints of the last text.
    fn end_text(&mut self) {
        let trimmed = self.chain.unique_text(&self.fingerprinter, self.trimmed);
        let whole = self.text.take().filter(|text| Some(*text) != trimmed);
        self.summary.unique.extend(whole.into_iter().chain(trimmed));
        (self.trimmed, self.trailing_space) = (RollingHash::EMPTY, RollingHash::EMPTY);
    }
}
