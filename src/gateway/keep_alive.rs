//! Keeps a quiet stream open, so that no agent gives up on a slow hook.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use crate::upstream::sse::KEEP_ALIVE;

/// The same stream, with a keep-alive wherever it is silent for `interval`.
pub(super) fn keep_alive<E: Send + 'static>(
    inner: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    stream::unfold(inner.boxed(), move |mut inner| async move {
        match tokio::time::timeout(interval, inner.next()).await {
            Ok(item) => Some((item?, inner)),
            Err(_elapsed) => Some((Ok(Bytes::from_static(KEEP_ALIVE)), inner)),
        }
    })
}
