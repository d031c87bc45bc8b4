//! A response's body, and somebody who wants to know how it ends.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::observe::Ended;

/// A body that tells its observer how it ends, and drops it then. An observer
/// that is dropped without a word has seen the agent leave.
#[derive(Debug)]
pub struct OnBodyEnd<F> {
    body: Body,
    observer: Option<F>,
}

impl<F: FnOnce(Ended) + Unpin> OnBodyEnd<F> {
    /// The same body, observed.
    pub fn new(body: Body, observer: F) -> Self {
        let observer = Some(observer);
        let mut this = Self { body, observer };
        this.look();
        this
    }

    /// A body of known length may never be asked again after its last frame.
    fn look(&mut self) {
        if http_body::Body::is_end_stream(&self.body) {
            self.tell(Ended::Complete);
        }
    }

    fn tell(&mut self, ended: Ended) {
        if let Some(observer) = self.observer.take() {
            observer(ended);
        }
    }
}

impl<F: FnOnce(Ended) + Unpin> http_body::Body for OnBodyEnd<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => (),
            Poll::Ready(Some(Ok(_))) => self.look(),
            Poll::Ready(Some(Err(_))) => self.tell(Ended::Broken),
            Poll::Ready(None) => self.tell(Ended::Complete),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
