//! Turns for others, while there is much to do without a wait.
//!
//! A connection stays on its thread, so that all others there wait for whoever
//! does not.

use tokio::task::yield_now;

/// After how many steps others get their turns: some are as small as an item of a
/// history, and take a few microseconds.
const STEPS: u32 = 64;

/// Counts the steps of something that may be long.
#[derive(Debug, Default)]
pub struct YieldBudget(u32);

impl YieldBudget {
    /// Waits until others had their turns, if they are due.
    pub async fn step(&mut self) {
        self.0 = (self.0 + 1) % STEPS;
        if self.0 == 0 {
            yield_now().await;
        }
    }
}
