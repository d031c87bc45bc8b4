//! Delays before a failed process is started again.

use std::time::Duration;

use crate::backoff::Backoff;

const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Returns the backoff of the starts of a process.
pub(super) const fn start_backoff() -> Backoff {
    Backoff::new(MIN_DELAY, MAX_DELAY)
}
