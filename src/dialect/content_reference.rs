//! References of requests to earlier responses: what such a response leaves for later requests,
//! and what a request refers to.

use crate::sha256::sha256_hex;

/// A reference to content of an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentReference {
    /// The id of a stored response.
    Response(String),
    /// An encrypted summary of a conversation.
    Compaction(String),
}

impl ContentReference {
    /// Returns the key under which its owner is recorded. Never holds content.
    pub fn key(&self) -> String {
        match self {
            Self::Response(id) => format!("response:{id}"),
            Self::Compaction(content) => format!("compaction:{}", sha256_hex(content)),
        }
    }
}
