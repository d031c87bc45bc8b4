//! References of requests to earlier responses: what such a response leaves for later requests,
//! and what a request refers to.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

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
            Self::Compaction(content) => {
                let hash = digest(&SHA256, content.as_bytes());
                format!("compaction:{}", HEXLOWER.encode(hash.as_ref()))
            }
        }
    }
}
