//! Counts of tokens in records.

use serde::Serialize;

use crate::observe::TokenUsage;

/// Token counts of upstream's `usageMetadata`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    /// Tokens of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Tokens of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// All tokens, thoughts and tool use included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl From<TokenUsage> for TokenCounts {
    fn from(usage: TokenUsage) -> Self {
        Self {
            prompt: usage.prompt,
            candidates: usage.candidates,
            total: usage.total,
        }
    }
}
