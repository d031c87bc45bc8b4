//! Timer with a deadline that is postponed often.
//!
//! The runtime's timer is reset only once it has fired, since a reset takes the
//! runtime's lock and most deadlines are postponed before they are reached.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Timer whose deadline may differ at each poll. Starts at the first poll.
#[derive(Debug, Default)]
pub struct ResettableTimer(Option<Pin<Box<Sleep>>>);

impl ResettableTimer {
    /// Completes at `deadline`, which may be another one at each call.
    pub fn poll(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_timer_fires_at_the_last_deadline() {
        for last in [1, 5, 9] {
            let mut timer = ResettableTimer::default();
            let start = Instant::now();
            let [early, late] = [5, last].map(|seconds| start + Duration::from_secs(seconds));

            let first = poll_fn(|context| Poll::Ready(timer.poll(context, early))).await;
            poll_fn(|context| timer.poll(context, late)).await;

            assert!(first.is_pending());
            assert_eq!(start.elapsed().as_secs(), last);
        }
    }
}
