//! Blocks of a stream whose end is not read yet.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{SIGNATURE, THINKING},
        preceding::append_thinking,
        response::chunk_form::ChunkEvents,
    },
    document::Document,
    error::{Result, field_error},
};

/// A block whose end is not read yet.
#[derive(Debug)]
pub enum IncomingBlock {
    Text,
    Thinking(IncomingThinking),
    Call(IncomingCall),
    Other,
}

/// A thought, which arrives in pieces.
#[derive(Debug)]
pub struct IncomingThinking {
    block: Document,
    pub text: String,
    signature: String,
    /// True if an event had the signature, behind which is no more text.
    is_signed: bool,
}

/// A call, whose arguments arrive in pieces of JSON.
#[derive(Debug)]
pub struct IncomingCall {
    pub block: Document,
    pub json: String,
    pub events: ChunkEvents,
}

impl IncomingThinking {
    pub fn new(block: Document, text: String) -> Result<Self> {
        Ok(Self {
            signature: block.string(SIGNATURE)?.unwrap_or_default(),
            block,
            text,
            is_signed: false,
        })
    }

    /// Adds a piece of the text. Returns whether more of it may follow.
    ///
    /// # Errors
    ///
    /// Fails for a text behind the signature, since policies have read the thought to its end.
    pub fn add(&mut self, piece: &str) -> Result<bool> {
        if self.is_signed && !piece.is_empty() {
            return Err(field_error("delta", "in front of the signature"));
        }
        append_thinking(&mut self.text, piece);
        Ok(!self.is_signed)
    }

    /// Adds a piece of the signature. Returns whether the event has one.
    pub fn sign(&mut self, delta: &Document) -> Result<bool> {
        let piece = delta.string(SIGNATURE)?.unwrap_or_default();
        append_thinking(&mut self.signature, &piece);
        self.is_signed |= !piece.is_empty();
        Ok(!piece.is_empty())
    }

    /// Returns the whole block.
    pub fn into_block(mut self) -> Result<Bytes> {
        self.block.set(THINKING, &json!(self.text))?;
        self.block.set(SIGNATURE, &json!(self.signature))?;
        Ok(self.block.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::document::to_document;

    #[test]
    fn a_signature_is_bounded() {
        let mut open = IncomingThinking::new(Document::empty(), String::new()).unwrap();
        let delta = to_document(&json!({ "signature": "x".repeat(1024 * 1024) })).unwrap();

        for _ in 0..20 {
            assert!(open.sign(&delta).unwrap());
        }

        assert!(open.signature.len() <= 5 * 1024 * 1024);
    }
}
