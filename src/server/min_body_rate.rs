//! How slowly the body of a request may come.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::io_timeout::Busy;
use crate::error::BodyTooSlow;

/// The slowest pace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long may be waited in all, beyond what the rate allows.
    pub(super) grace: Duration,
    /// Bytes per second. Not zero.
    pub(super) rate: usize,
}

/// A request's body, which breaks off if it comes too slowly; `busy` is told
/// when it was read to its end.
pub(super) fn paced(body: Incoming, pace: Pace, busy: Busy) -> Body {
    if body.is_end_stream() {
        return Body::empty();
    }
    Body::new(Paced {
        body,
        pace,
        busy,
        seen: 0,
        waited: Duration::ZERO,
        since: None,
        deadline: None,
    })
}

/// Only time counts in which the body is waited for: if nobody wants the next
/// piece yet, its sender is not to blame.
struct Paced {
    body: Incoming,
    pace: Pace,
    busy: Busy,
    /// Bytes that came.
    seen: u64,
    /// How long was waited for them.
    waited: Duration,
    /// Since when the next piece is waited for.
    since: Option<Instant>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    /// How long may be waited for what came.
    fn allowed(&self) -> Duration {
        let rate = u64::try_from(self.pace.rate).unwrap_or(u64::MAX);
        self.pace.grace + Duration::from_secs(self.seen / rate.max(1))
    }
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if let Some(since) = self.since.take() {
                self.waited += since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                let length = frame.data_ref().map_or(0, Bytes::len);
                self.seen = self.seen.saturating_add(length as u64);
            }
            let is_over = match &frame {
                Some(frame) => frame.is_ok() && self.body.is_end_stream(),
                None => true,
            };
            if is_over {
                self.busy.has_read();
            }
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        if self.since.is_none() {
            let now = Instant::now();
            let left = self.allowed().saturating_sub(self.waited);
            self.since = Some(now);
            match &mut self.deadline {
                Some(deadline) => deadline.as_mut().reset(now + left),
                None => self.deadline = Some(Box::pin(sleep_until(now + left))),
            }
        }
        if let Some(deadline) = &mut self.deadline {
            ready!(deadline.as_mut().poll(context));
        }
        Poll::Ready(Some(Err(BodyTooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
