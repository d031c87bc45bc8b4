//! Body whose frames are written before an error ends it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Body that yields once before an error. hyper writes its buffer when a body is pending, but drops
/// it when a body fails: the client would lose the latest frames, and with the first of them the
/// head of the response.
#[derive(Debug)]
pub(super) struct FlushedBody<B> {
    body: B,
    /// The error that ends the body, until it is returned.
    error: Option<axum::Error>,
}

impl<B> FlushedBody<B> {
    pub(super) const fn new(body: B) -> Self {
        Self { body, error: None }
    }
}

impl<B: Body<Data = Bytes, Error = axum::Error> + Unpin> Body for FlushedBody<B> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Err(error))) => {
                self.error = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
