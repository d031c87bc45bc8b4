//! Input of a transcript: requests and responses of its session.

use serde_json::Value;

use crate::{dialect::History, session::Conversation};

/// A request, as the model receives it.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptRequest<'a> {
    /// Contents of the conversation.
    pub history: &'a History,
    /// The same contents as items.
    pub conversation: &'a Conversation,
    /// Name of the called model.
    pub model: &'a str,
    /// Timestamp, RFC 3339 in UTC.
    pub now: &'a str,
}

/// A response of the model.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptResponse<'a> {
    /// All text without thoughts.
    pub text: &'a str,
    /// Tool calls, by name and arguments.
    pub calls: &'a [(String, Value)],
    /// Name of the called model.
    pub model: &'a str,
    /// `usageMetadata` as on the wire; `null` if absent.
    pub usage: &'a Value,
    /// Timestamp, RFC 3339 in UTC.
    pub now: &'a str,
}
