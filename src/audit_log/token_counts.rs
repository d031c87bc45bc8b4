//! Counts of tokens in records.

use serde::Serialize;

use crate::observe::TokenUsage;

/// The largest count: the largest integer that all JSON tools write as they read it.
const MAX_COUNT: u64 = (1 << 53) - 1;

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
        let bounded = |count: Option<u64>| count.map(|count| count.min(MAX_COUNT));
        Self {
            prompt: bounded(usage.prompt),
            candidates: bounded(usage.candidates),
            total: bounded(usage.total),
        }
    }
}
