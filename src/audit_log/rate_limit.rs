//! How many requests that were turned away get a line of their own. Whoever
//! knocks on the door all the time must not push out of the log what others did.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// So many lines for each [`SPAN`].
const MOST: u64 = 100;
const SPAN: Duration = Duration::from_secs(1);

/// How many there were of late.
#[derive(Debug, Default)]
pub(super) struct Flood {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    told: u64,
    left_out: u64,
}

/// What is to be told of one more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// How many were left out before it, if that is to be told now.
    pub(super) left_out: u64,
    /// Whether it gets a line of its own.
    pub(super) line: bool,
}

impl Flood {
    /// One more at this time.
    pub(super) fn admit(&self, now: Instant) -> Admitted {
        let mut state = self.state();
        let mut left_out = 0;
        let fresh = |since| now.saturating_duration_since(since) < SPAN;
        if !state.since.is_some_and(fresh) {
            left_out = std::mem::take(&mut state.left_out);
            (state.since, state.told) = (Some(now), 0);
        }
        let line = state.told < MOST;
        if line {
            state.told += 1;
        } else {
            state.left_out += 1;
        }
        Admitted { left_out, line }
    }

    /// How many were left out and not told of yet.
    pub(super) fn rest(&self) -> u64 {
        std::mem::take(&mut self.state().left_out)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_then_told() {
        let (flood, now) = (Flood::default(), Instant::now());

        let lines = (0..MOST + 7).filter(|_| flood.admit(now).line).count();
        let next = flood.admit(now + SPAN);

        assert_eq!(lines as u64, MOST);
        assert_eq!(
            next,
            Admitted {
                left_out: 7,
                line: true
            }
        );
        assert_eq!(flood.rest(), 0);
    }
}
