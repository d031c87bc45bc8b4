//! The pause before a process that failed is started again.

use std::time::Duration;

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// It doubles with every failure until there is a success.
#[derive(Debug)]
pub(super) struct Pause {
    next: Duration,
}

impl Pause {
    /// The first pause will be a short one.
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// Lets the time pass, unless nobody needs the process any more.
    pub(super) async fn rest(&mut self, closed: &CancellationToken) {
        select! {
            () = sleep(self.next) => (),
            () = closed.cancelled() => (),
        }
        self.next = (self.next * 2).min(LONGEST);
    }
}
