//! Fingerprints of a response, as the items that the agent will send back. Pure.

use super::{
    conversation::Conversation,
    fingerprint::{Fingerprint, StreamHasher},
    fingerprint_chain::FingerprintChain,
};
use crate::dialect::{CanonicalItem, DialectError, ItemKind, ResponseDocument};

/// Bytes of text that are hashed together. Hashing a small chunk on its own costs as
/// much as hashing a few hundred bytes.
const TEXT_BUFFER_BYTES: usize = 4096;

/// Hashes a response while it is sent, continuing the chain of its request.
#[derive(Debug)]
pub struct ResponseFingerprinter {
    chain: FingerprintChain,
    summary: ResponseSummary,
    /// Own fingerprints of its first item: of a text also without surrounding white space.
    first: Vec<Fingerprint>,
    /// End of the last text, not hashed yet.
    buffer: String,
    /// Unique fingerprint of the last text.
    text: Option<Fingerprint>,
    /// The last text without leading white space.
    body: StreamHasher,
    /// The last text without surrounding white space.
    trimmed: StreamHasher,
    is_finished: bool,
    has_calls: bool,
    /// True if a function call was sent in parts, so that later items cannot be hashed.
    is_incomplete: bool,
}

/// Fingerprints of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseSummary {
    /// Prefix fingerprints of its items.
    pub prefixes: Vec<Fingerprint>,
    /// Unique fingerprints of its items.
    pub unique: Vec<Fingerprint>,
    /// True if it finished without function calls: the turn is over, and agents keep
    /// such a response in their history.
    pub ends_turn: bool,
}

impl ResponseFingerprinter {
    /// Returns a fingerprinter for a response to this conversation.
    pub fn new(conversation: &Conversation) -> Self {
        let fingerprinter = &conversation.chain.fingerprinter;
        Self {
            chain: conversation.chain.clone(),
            summary: ResponseSummary::default(),
            first: Vec::new(),
            buffer: String::new(),
            text: None,
            body: fingerprinter.stream_hasher(),
            trimmed: fingerprinter.stream_hasher(),
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
                self.buffer.push_str(&item.text);
                if self.buffer.len() >= TEXT_BUFFER_BYTES {
                    self.flush_text();
                }
            } else {
                self.flush_text();
                let unique = self.push_to_chain(&item);
                self.has_calls |= item.kind == ItemKind::Call;
                self.summary.unique.extend(unique);
            }
        }
        Ok(())
    }

    /// Returns the own fingerprints of the first item, as agents may send it back. Call it at the
    /// end of the response.
    pub fn first_item(&mut self) -> &[Fingerprint] {
        self.flush_text();
        self.end_text();
        &self.first
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

    /// Hashes the buffered text. Agents may trim a text before they send it back, so
    /// that the trimmed text is hashed, too.
    fn flush_text(&mut self) {
        let text = std::mem::take(&mut self.buffer);
        if text.is_empty() {
            return;
        }
        let item = CanonicalItem {
            part: 0,
            kind: ItemKind::Text,
            by_model: true,
            text,
            id: None,
        };
        self.text = self.push_to_chain(&item);
        let mut text = item.text.as_str();
        if self.body.length() == 0 {
            text = text.trim_start();
        }
        let trimmed = text.trim_end();
        self.body.push(trimmed.as_bytes());
        if !trimmed.is_empty() {
            self.trimmed = self.body.clone();
        }
        let trailing_space = text.strip_prefix(trimmed).unwrap_or_default();
        self.body.push(trailing_space.as_bytes());
    }

    /// Appends an item to the chain and returns its unique fingerprint.
    fn push_to_chain(&mut self, item: &CanonicalItem) -> Option<Fingerprint> {
        let link = self.chain.push(item);
        if !link.continues {
            self.end_text();
        }
        if !self.is_incomplete {
            if link.continues {
                self.summary.prefixes.pop();
            }
            self.summary.prefixes.push(link.prefix);
            if self.summary.prefixes.len() == 1 {
                self.first = vec![link.own];
            }
        }
        link.unique
    }

    /// Adds the unique fingerprints of the last text.
    fn end_text(&mut self) {
        let trimmed = self.chain.unique_text(&self.trimmed);
        let whole = self.text.take().filter(|text| Some(*text) != trimmed);
        self.summary.unique.extend(whole.into_iter().chain(trimmed));
        if self.summary.prefixes.len() == 1 && self.trimmed.length() > 0 {
            self.first.push(self.chain.own_of_text(&self.trimmed));
        }
        self.body = self.chain.fingerprinter.stream_hasher();
        self.trimmed = self.body.clone();
    }
}
