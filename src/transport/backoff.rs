//! Exponential backoff before a failed process is started again.

use std::time::Duration;

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;

const INITIAL_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Delay that doubles with every failure.
#[derive(Debug)]
pub(super) struct Backoff {
    delay: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self {
            delay: INITIAL_DELAY,
        }
    }

    /// Waits for the current delay, or until `closed`.
    pub(super) async fn wait(&mut self, closed: &CancellationToken) {
        select! {
            () = sleep(self.delay) => (),
            () = closed.cancelled() => (),
        }
        self.delay = (self.delay * 2).min(MAX_DELAY);
    }
}
