//! Token counts of all requests of one exchange to the model API.

use serde_json::Value;

use crate::observe::trace::record::TracedTokens;

/// Token counts of the rounds so far.
#[derive(Debug, Default)]
pub(crate) struct TokenSum {
    ended_rounds: Option<TracedTokens>,
    this_round: Option<TracedTokens>,
}

impl TokenSum {
    /// Sets the counts of this round; the model API counts up to here.
    pub(crate) fn set(&mut self, usage: &Value) {
        self.this_round = Some(TracedTokens::read(usage));
    }

    /// Begins the next round.
    pub(crate) const fn end_round(&mut self) {
        self.ended_rounds = self.total();
        self.this_round = None;
    }

    /// Returns the sum of all rounds; `None` if the model API reported nothing.
    pub(crate) const fn total(&self) -> Option<TracedTokens> {
        match (self.ended_rounds, self.this_round) {
            (Some(ended), Some(this)) => Some(ended.plus(this)),
            (Some(sum), None) | (None, Some(sum)) => Some(sum),
            (None, None) => None,
        }
    }
}

impl TracedTokens {
    /// Reads token counts in either spelling of the model API.
    fn read(usage: &Value) -> Self {
        let count = |names: [&str; 2]| {
            let mut counts = names.iter().filter_map(|name| usage.get(name)?.as_u64());
            counts.next().unwrap_or_default()
        };
        Self {
            prompt: count(["promptTokenCount", "prompt_token_count"]),
            cached: count(["cachedContentTokenCount", "cached_content_token_count"]),
            candidates: count(["candidatesTokenCount", "candidates_token_count"]),
            total: count(["totalTokenCount", "total_token_count"]),
        }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            cached: self.cached.saturating_add(other.cached),
            candidates: self.candidates.saturating_add(other.candidates),
            total: self.total.saturating_add(other.total),
        }
    }
}
