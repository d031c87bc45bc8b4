//! Blocks of a stream whose end is not read yet.

use crate::dialect::{
    anthropic::{preceding::append_thinking, response::chunk_form::ChunkEvents},
    document::Document,
    error::{Result, field_error},
};

/// A block whose end is not read yet.
#[derive(Debug)]
pub enum IncomingBlock {
    Text,
    Thinking {
        block: Document,
        text: String,
        signature: String,
        /// True if an event had the signature, behind which is no more text.
        is_signed: bool,
    },
    /// A call, whose arguments arrive in pieces of JSON.
    Call {
        block: Document,
        json: String,
        events: ChunkEvents,
    },
    Other,
}

impl IncomingBlock {
    pub fn thinking(block: Document, text: String) -> Result<Self> {
        let signature = block.string(&["signature"])?.unwrap_or_default();
        Ok(Self::Thinking {
            block,
            text,
            signature,
            is_signed: false,
        })
    }

    /// Adds a piece of a thought. Returns whether more of it may follow.
    ///
    /// # Errors
    ///
    /// Fails for a text behind the signature, since policies have read the thought to its end.
    pub fn add_thinking(&mut self, piece: &str) -> Result<bool> {
        match self {
            Self::Thinking {
                is_signed: true, ..
            } if !piece.is_empty() => Err(field_error("delta", "in front of the signature")),
            Self::Thinking {
                text,
                is_signed: false,
                ..
            } => {
                append_thinking(text, piece);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Adds a piece of the signature of a thought. Returns whether it has one.
    pub fn sign(&mut self, delta: &Document) -> Result<bool> {
        let piece = delta.string(&["signature"])?.unwrap_or_default();
        match self {
            Self::Thinking {
                signature,
                is_signed,
                ..
            } if !piece.is_empty() => {
                append_thinking(signature, &piece);
                *is_signed = true;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialect::document::to_document;

    #[test]
    fn a_signature_is_bounded() {
        let mut open = IncomingBlock::thinking(Document::empty(), String::new()).unwrap();
        let delta = to_document(&json!({ "signature": "x".repeat(1024 * 1024) })).unwrap();

        for _ in 0..20 {
            assert!(open.sign(&delta).unwrap());
        }

        let IncomingBlock::Thinking { signature, .. } = open else {
            panic!("another kind of block");
        };
        assert!(signature.len() <= 5 * 1024 * 1024);
    }
}
