//! References of requests to earlier responses: what such a response leaves for later requests,
//! and what a request refers to.

/// A reference to content of an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentReference {
    /// The id of a stored response.
    Response(String),
    /// An encrypted summary of a conversation.
    Compaction(String),
}
