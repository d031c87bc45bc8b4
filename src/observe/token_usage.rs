//! Token counts of a call.

use serde::Deserialize;

/// Token counts of a response; `None` for those that it lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
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

/// Token counts of all responses of one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenSum {
    earlier_rounds: Option<TokenUsage>,
    this_round: Option<TokenUsage>,
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
    /// Sets the counts of this round; the model API counts up to here.
    pub const fn set(&mut self, usage: TokenUsage) {
        self.this_round = Some(usage);
    }

    /// Begins the next round.
    pub fn end_round(&mut self) {
        self.earlier_rounds = self.total();
        self.this_round = None;
    }

    /// Returns the sum of all rounds; `None` if the model API reported nothing.
    pub fn total(&self) -> Option<TokenUsage> {
        match (self.earlier_rounds, self.this_round) {
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
        let [first, second] = [&first[..], second].map(|json| TokenUsage::parse(json).unwrap());
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
