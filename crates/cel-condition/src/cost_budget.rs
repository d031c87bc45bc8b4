//! Cost bound of one evaluation: a comprehension can read a long string
//! repeatedly, and a large pattern is slow on every character.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Cost that one evaluation may spend, in bytes read. The slowest condition needs a
/// few seconds for it, a reasonable one a few milliseconds.
const MAX_EVALUATION_COST: usize = 64 << 20;

/// Remaining cost of one evaluation.
#[derive(Debug)]
pub(super) struct CostBudget(AtomicUsize);

impl Default for CostBudget {
    fn default() -> Self {
        Self(AtomicUsize::new(MAX_EVALUATION_COST))
    }
}

impl CostBudget {
    /// Spends `cost`, and returns whether the budget covered it. If it did not, the
    /// budget is exhausted.
    pub(super) fn spend(&self, cost: usize) -> bool {
        let less = |left: usize| Some(left.saturating_sub(cost));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.is_ok_and(|left| left > cost)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
