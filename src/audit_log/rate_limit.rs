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

impl Window {
    fn is_open(&self, now: Instant) -> bool {
        let is_open = |start| now.saturating_duration_since(start) < WINDOW;
        self.start.is_some_and(is_open)
    }
}

impl RecordRateLimiter {
    /// Returns whether to write a record about one more rejected request. Others are counted.
    pub(super) fn admit(&self, now: Instant) -> bool {
        let mut window = self.window.lock();
        if !window.is_open(now) {
            window.start = Some(now);
            window.admitted = 0;
        }
        if window.admitted == MAX_RECORDS_PER_WINDOW {
            window.suppressed += 1;
            return false;
        }
        window.admitted += 1;
        true
    }

    /// Returns and resets the number of suppressed records, once their window is over.
    pub(super) fn take_past(&self, now: Instant) -> u64 {
        let mut window = self.window.lock();
        if window.is_open(now) {
            return 0;
        }
        std::mem::take(&mut window.suppressed)
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
    fn records_beyond_the_limit_are_counted_and_reported_after_the_window() {
        let (limiter, now) = (RecordRateLimiter::default(), Instant::now());

        let requests = 0..MAX_RECORDS_PER_WINDOW + 7;
        let admitted = requests.filter(|_| limiter.admit(now)).count();
        assert_eq!(admitted as u64, MAX_RECORDS_PER_WINDOW);
        assert_eq!(limiter.take_past(now), 0);
        assert_eq!(limiter.take_past(now + WINDOW), 7);
        assert!(limiter.admit(now + WINDOW));
        assert_eq!(limiter.take_suppressed(), 0);
    }
}
