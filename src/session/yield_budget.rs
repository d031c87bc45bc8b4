//! Cooperative yielding in long computations.
//!
//! A connection stays on its thread, so a long computation delays all others there.
//! `tokio::task::coop` counts IO only, of which these computations do none.

use tokio::task::yield_now;

/// Steps between two yields. A step as small as an item of a history takes a few
/// microseconds.
const STEPS_PER_YIELD: u32 = 64;

/// Counts the steps of a computation and yields to other tasks in between.
#[derive(Debug, Default)]
pub struct YieldBudget(u32);

impl YieldBudget {
    /// Counts a step, and yields if the budget is used up.
    pub async fn step(&mut self) {
        self.0 = (self.0 + 1) % STEPS_PER_YIELD;
        if self.0 == 0 {
            yield_now().await;
        }
    }
}
