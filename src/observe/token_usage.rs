//! Token counts of a call.

use serde::{Deserialize, Serialize};

/// Token counts of a response; `None` for those that it lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens of the request.
    #[serde(rename = "promptTokenCount", alias = "prompt_token_count")]
    pub prompt: Option<u64>,
    /// Tokens of the request that the model API took from its cache.
    #[serde(
        rename = "cachedContentTokenCount",
        alias = "cached_content_token_count"
    )]
    pub cached: Option<u64>,
    /// Tokens of the answer.
    #[serde(rename = "candidatesTokenCount", alias = "candidates_token_count")]
    pub candidates: Option<u64>,
    /// All tokens, thoughts and tool use included.
    #[serde(rename = "totalTokenCount", alias = "total_token_count")]
    pub total: Option<u64>,
}

/// Bytes of the JSON of one response that are kept. Of a longer one, only the counts are.
const MAX_USAGE_BYTES: usize = 2048;

/// Token counts of all responses of one call. Those of the last response are parsed when they are
/// read, which for most calls is never.
#[derive(Debug, Clone, Default)]
pub struct TokenSum {
    earlier_rounds: Option<TokenUsage>,
    /// JSON of the counts of this round; empty if the model API reported none.
    this_round: Vec<u8>,
}

impl TokenUsage {
    /// Reads the `usageMetadata` that a JSON text begins with, in either spelling of its fields.
    /// Returns `None` if it cannot be read or has no count.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let mut values = serde_json::Deserializer::from_slice(json).into_iter::<Self>();
        let usage = values.next()?.ok()?;
        (usage != Self::default()).then_some(usage)
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            prompt: sum(self.prompt, other.prompt),
            cached: sum(self.cached, other.cached),
            candidates: sum(self.candidates, other.candidates),
            total: sum(self.total, other.total),
        }
    }
}

impl TokenSum {
    /// Sets the counts of this round from their JSON; the model API counts up to here.
    pub fn set(&mut self, usage: &[u8]) {
        self.this_round.clear();
        if usage.len() <= MAX_USAGE_BYTES {
            self.this_round.extend_from_slice(usage);
        } else if let Some(counts) = TokenUsage::parse(usage) {
            self.this_round = serde_json::to_vec(&counts).unwrap_or_default();
        }
    }

    /// Begins the next round.
    pub fn end_round(&mut self) {
        self.earlier_rounds = self.total();
        self.this_round.clear();
    }

    /// Returns whether the model API reported nothing.
    pub fn is_empty(&self) -> bool {
        self.total().is_none()
    }

    /// Returns the bytes that it owns.
    pub const fn heap_bytes(&self) -> usize {
        self.this_round.capacity()
    }

    /// Returns the sum of all rounds; `None` if the model API reported nothing.
    pub fn total(&self) -> Option<TokenUsage> {
        match (self.earlier_rounds, TokenUsage::parse(&self.this_round)) {
            (Some(earlier), Some(this)) => Some(earlier.plus(this)),
            (earlier, this) => earlier.or(this),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_rounds_are_added() {
        let first = br#"{"promptTokenCount":3,"totalTokenCount":5,"thoughtsTokenCount":1}, ..."#;
        let second = br#"{"prompt_token_count":4,"candidates_token_count":null}"#;
        let mut sum = TokenSum::default();
        assert_eq!(sum.total(), None);

        sum.set(first);
        sum.end_round();
        sum.set(second);

        let total = sum.total().unwrap();
        assert_eq!((total.prompt, total.total), (Some(7), Some(5)));
        assert_eq!((total.cached, total.candidates), (None, None));
    }

    #[test]
    fn of_a_long_usage_the_counts_are_kept() {
        let details = "x".repeat(MAX_USAGE_BYTES);
        let usage = format!(r#"{{"details":"{details}","promptTokenCount":3}}"#);
        let mut sum = TokenSum::default();

        sum.set(usage.as_bytes());

        let total = sum.total().unwrap();
        assert_eq!((total.prompt, total.total), (Some(3), None));
        assert!(sum.heap_bytes() < MAX_USAGE_BYTES);
    }

    #[test]
    fn malformed_usage_has_no_counts() {
        for json in [
            "",
            "7",
            "{}",
            r#"{"promptTokenCount":"#,
            r#"{"promptTokenCount":"x"}"#,
        ] {
            assert_eq!(TokenUsage::parse(json.as_bytes()), None, "{json}");
        }
    }
}
