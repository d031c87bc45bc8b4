//! The end of a wait, where that moves on with every piece that comes.
//!
//! A timer is set anew only once it has come, for setting one takes the runtime's
//! lock, and most never come. It must not know what is waited for.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for a wait whose end moves. None is set before it is first asked.
#[derive(Debug, Default)]
pub struct ResettableTimer(Option<Pin<Box<Sleep>>>);

impl ResettableTimer {
    /// Waits until `until`, which may be another one each time.
    pub fn poll(&mut self, context: &mut Context<'_>, until: Instant) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if until < timer.deadline() {
            timer.as_mut().reset(until);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_it_was_last_told_to() {
        for last in [1, 5, 9] {
            let mut deadline = ResettableTimer::default();
            let begun = Instant::now();
            let [early, until] = [5, last].map(|it| begun + Duration::from_secs(it));

            let first = poll_fn(|it| Poll::Ready(deadline.poll(it, early))).await;
            poll_fn(|it| deadline.poll(it, until)).await;

            assert!(first.is_pending());
            assert_eq!(begun.elapsed().as_secs(), last);
        }
    }
}
