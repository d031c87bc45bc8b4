//! Rate limit of records about rejected requests, so that a flood of them does not
//! rotate useful history out of the log.

use std::time::{Duration, Instant};

use crate::mutex::Mutex;

const MAX_RECORDS_PER_WINDOW: u64 = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// Admits a number of records per window and counts the others.
#[derive(Debug, Default)]
pub(super) struct RecordRateLimiter {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    start: Option<Instant>,
    admitted: u64,
    suppressed: u64,
}

impl RecordRateLimiter {
    /// Admits a record about one more rejected request, and returns the number of those
    /// suppressed before it that was not reported yet. `None`: it is suppressed, too.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock();
        let mut suppressed_before = 0;
        let is_open = |start| now.saturating_duration_since(start) < WINDOW;
        if !window.start.is_some_and(is_open) {
            suppressed_before = window.suppressed;
            *window = Window {
                start: Some(now),
                ..Window::default()
            };
        }
        if window.admitted == MAX_RECORDS_PER_WINDOW {
            window.suppressed += 1;
            return None;
        }
        window.admitted += 1;
        Some(suppressed_before)
    }

    /// Returns and resets the number of suppressed records that was not reported yet.
    pub(super) fn take_suppressed(&self) -> u64 {
        std::mem::take(&mut self.window.lock().suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_beyond_the_limit_are_counted_and_reported_in_the_next_window() {
        let (limiter, now) = (RecordRateLimiter::default(), Instant::now());

        let requests = 0..MAX_RECORDS_PER_WINDOW + 7;
        let admitted = requests.filter_map(|_| limiter.admit(now)).count();
        let next = limiter.admit(now + WINDOW);

        assert_eq!(admitted as u64, MAX_RECORDS_PER_WINDOW);
        assert_eq!(next, Some(7));
        assert_eq!(limiter.take_suppressed(), 0);
    }
}
