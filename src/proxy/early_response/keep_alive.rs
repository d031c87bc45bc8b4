//! Keep-alives in silent streams, so that agents do not give up on a slow hook.

use std::{
    task::{Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use crate::{resettable_timer::ResettableTimer, upstream::sse::KEEP_ALIVE};

/// Adds a keep-alive to a stream whenever it is silent for `interval`.
pub fn keep_alive<E: Send + 'static>(
    inner: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    let mut inner = inner.boxed();
    let mut silent_since = None;
    let mut deadline = ResettableTimer::default();
    stream::poll_fn(move |context| {
        if let Poll::Ready(item) = inner.poll_next_unpin(context) {
            silent_since = None;
            return Poll::Ready(item);
        }
        let until = *silent_since.get_or_insert_with(Instant::now) + interval;
        ready!(deadline.poll(context, until));
        silent_since = None;
        Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))))
    })
}
