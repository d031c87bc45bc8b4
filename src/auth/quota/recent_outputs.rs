//! Sizes of a caller's last answers, from which the next one is estimated. Pure.

use std::collections::VecDeque;

/// Maximum number of answers whose size is kept.
const MAX_OUTPUTS: usize = 100;

/// Maximum number of tokens that a call reserves for its answer.
pub const MAX_RESERVED_OUTPUT: u64 = 8192;

/// Tokens of the last answers of a caller.
#[derive(Debug, Default)]
pub(super) struct RecentOutputs(VecDeque<u64>);

impl RecentOutputs {
    pub(super) fn record(&mut self, tokens: u64) {
        if self.0.len() == MAX_OUTPUTS {
            self.0.pop_front();
        }
        self.0.push_back(tokens);
    }

    /// Returns the tokens to reserve for the next answer: the 95th percentile of the last
    /// ones, at most [`MAX_RESERVED_OUTPUT`], which is also the estimate for the first one.
    pub(super) fn expected(&self) -> u64 {
        let mut sorted: Vec<u64> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
        let percentile = sorted.get(rank).copied().unwrap_or(u64::MAX);
        percentile.min(MAX_RESERVED_OUTPUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_output_is_the_95th_percentile_of_the_last_hundred() {
        let mut outputs = RecentOutputs::default();
        assert_eq!(outputs.expected(), MAX_RESERVED_OUTPUT);
        outputs.record(7);
        assert_eq!(outputs.expected(), 7);
        for tokens in 1..=1000 {
            outputs.record(tokens);
        }
        assert_eq!(outputs.expected(), 995);
        for _ in 0..6 {
            outputs.record(u64::MAX);
        }
        assert_eq!(outputs.expected(), MAX_RESERVED_OUTPUT);
    }
}
