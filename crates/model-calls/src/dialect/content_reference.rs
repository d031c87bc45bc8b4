//! References of requests to earlier responses: what such a response leaves for later requests,
//! and what a request refers to.

/// A reference to content of an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentReference {
    /// The id of a stored response that has ended, so that a request can continue it.
    Response(String),
    /// The id of a stored response, which the API returns and deletes by it.
    StoredResponse(String),
    /// An encrypted summary of a conversation.
    Compaction(String),
}
