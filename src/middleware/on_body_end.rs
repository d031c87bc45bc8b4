//! Body wrapper that calls back once, with how the body ended.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::observe::recorder::ExchangeEnd;

/// Body that calls back once, with how it ended, as soon as its last frame is taken to be
/// written: the receiver may read that frame later. A callback that is dropped without a call
/// indicates that the receiver disconnected.
#[derive(Debug)]
pub struct OnBodyEnd<F> {
    body: Body,
    callback: Option<F>,
}

impl<F: FnOnce(ExchangeEnd) + Unpin> OnBodyEnd<F> {
    /// Wraps a body and registers the callback.
    pub fn new(body: Body, callback: F) -> Self {
        let mut this = Self {
            body,
            callback: Some(callback),
        };
        this.check_end();
        this
    }

    /// A body of known length may not be polled again after its last frame.
    fn check_end(&mut self) {
        if hyper::body::Body::is_end_stream(&self.body) {
            self.call(ExchangeEnd::Complete);
        }
    }

    fn call(&mut self, ended: ExchangeEnd) {
        if let Some(callback) = self.callback.take() {
            callback(ended);
        }
    }
}

impl<F: FnOnce(ExchangeEnd) + Unpin> hyper::body::Body for OnBodyEnd<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => (),
            Poll::Ready(Some(Ok(_))) => self.check_end(),
            Poll::Ready(Some(Err(_))) => self.call(ExchangeEnd::Truncated),
            Poll::Ready(None) => self.call(ExchangeEnd::Complete),
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
