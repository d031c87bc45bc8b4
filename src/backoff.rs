//! Exponential backoff between attempts, with jitter so that gateways do not retry together.

use std::time::Duration;

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Delay that doubles with every failure.
#[derive(Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff whose delays grow from `min` to `max`.
    pub const fn new(min: Duration, max: Duration) -> Self {
        let next = min;
        Self { min, max, next }
    }

    /// Begins with the shortest delay again, after a success.
    pub const fn reset(&mut self) {
        self.next = self.min;
    }

    /// Returns between half and all of the present delay, and doubles it.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = self.max.min(delay * 2);
        let share = Uuid::new_v4().as_u128() % 1000;
        delay / 2 + delay / 2000 * u32::try_from(share).unwrap_or_default()
    }

    /// Waits for the next delay, or until `closed`.
    pub async fn wait(&mut self, closed: &CancellationToken) {
        select! {
            () = sleep(self.next_delay()) => (),
            () = closed.cancelled() => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_maximum_with_jitter() {
        let (min, max) = (Duration::from_millis(100), Duration::from_millis(300));
        let mut backoff = Backoff::new(min, max);
        for longest_ms in [100, 200, 300, 300] {
            let longest = Duration::from_millis(longest_ms);
            let delay = backoff.next_delay();
            assert!((longest / 2..=longest).contains(&delay), "{delay:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= min);
    }
}
