//! Token counts of a call.

use serde::Serialize;

/// The largest count: the largest integer that all JSON tools write as they read it.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// Token counts of a response; `None` for those that it lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TokenUsage {
    /// Tokens of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Tokens of the request that the model API took from its cache.
    #[serde(skip)]
    pub cached: Option<u64>,
    /// Tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// All tokens, thoughts and tool use included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// Token counts of all responses of one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenSum {
    earlier_rounds: Option<TokenUsage>,
    this_round: Option<TokenUsage>,
}

impl TokenUsage {
    fn bounded(self) -> Self {
        let bounded = |count: Option<u64>| count.map(|count| count.min(MAX_COUNT));
        Self {
            prompt: bounded(self.prompt),
            cached: bounded(self.cached),
            candidates: bounded(self.candidates),
            total: bounded(self.total),
        }
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
        let total = match (self.earlier_rounds, self.this_round) {
            (Some(earlier), Some(this)) => Some(earlier.plus(this)),
            (earlier, this) => earlier.or(this),
        };
        total.map(TokenUsage::bounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_rounds_are_added() {
        let counts = |prompt, total| TokenUsage {
            prompt: Some(prompt),
            total,
            ..TokenUsage::default()
        };
        let mut sum = TokenSum::default();
        assert_eq!(sum.total(), None);

        sum.set(counts(3, Some(5)));
        sum.end_round();
        sum.set(counts(4, None));

        assert_eq!(sum.total(), Some(counts(7, Some(5))));
    }
}
