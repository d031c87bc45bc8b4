//! Keeps a quiet stream open, so that no agent gives up on a slow hook.

use std::{
    pin::Pin,
    task::{Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::upstream::sse::KEEP_ALIVE;

/// The same stream, with a keep-alive wherever it is silent for `interval`.
pub(super) fn keep_alive<E: Send + 'static>(
    inner: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    let mut inner = inner.boxed();
    let mut silent_since = None;
    // Until when, at least: it is not set anew for every piece.
    let mut deadline: Option<Pin<Box<Sleep>>> = None;
    stream::poll_fn(move |context| {
        if let Poll::Ready(item) = inner.poll_next_unpin(context) {
            silent_since = None;
            return Poll::Ready(item);
        }
        let until = *silent_since.get_or_insert_with(Instant::now) + interval;
        let deadline = deadline.get_or_insert_with(|| Box::pin(sleep_until(until)));
        loop {
            ready!(deadline.as_mut().poll(context));
            if deadline.deadline() >= until {
                silent_since = None;
                return Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))));
            }
            deadline.as_mut().reset(until);
        }
    })
}
