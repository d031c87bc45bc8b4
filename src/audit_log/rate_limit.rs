//! Rate limit of records about rejected requests, so that a flood of them does not
//! rotate useful history out of the log.

use std::time::{Duration, Instant};

use crate::mutex::Mutex;

const MAX_RECORDS_PER_WINDOW: u64 = 100;
pub(super) const WINDOW: Duration = Duration::from_secs(1);

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

/// Decision about one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is written, after the number of those suppressed before it, unless that is reported.
    Admitted { suppressed_before: u64 },
    /// It is counted. The first one since the last report has it reported.
    Suppressed { is_first: bool },
}

impl RecordRateLimiter {
    /// Decides about a record of one more rejected request.
    pub(super) fn admit(&self, now: Instant) -> Admission {
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
            return Admission::Suppressed {
                is_first: window.suppressed == 1,
            };
        }
        window.admitted += 1;
        Admission::Admitted { suppressed_before }
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
        let decisions: Vec<_> = requests.map(|_| limiter.admit(now)).collect();
        let next = limiter.admit(now + WINDOW);

        let admitted = |suppressed_before| Admission::Admitted { suppressed_before };
        let count = |wanted| decisions.iter().filter(|found| **found == wanted).count();
        assert_eq!(count(admitted(0)) as u64, MAX_RECORDS_PER_WINDOW);
        assert_eq!(count(Admission::Suppressed { is_first: true }), 1);
        assert_eq!(count(Admission::Suppressed { is_first: false }), 6);
        assert_eq!(next, admitted(7));
        assert_eq!(limiter.take_suppressed(), 0);
    }
}
