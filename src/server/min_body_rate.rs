//! Minimum rate at which a request body must be received, and timeout of its next piece.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use super::io_timeout::ConnectionState;
use crate::{error::BodyTooSlow, resettable_timer::ResettableTimer};

/// Minimum rate of a request body.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRate {
    /// Time for the next piece, and time that may be spent waiting beyond what the rate allows.
    pub(super) grace: Duration,
    /// Bytes per second. Not zero.
    pub(super) bytes_per_second: usize,
}

/// Request body that fails with [`BodyTooSlow`] below the minimum rate, or if a piece is late. Only
/// time during which the body is polled counts, so that back-pressure is not charged to the client.
pub(super) struct MinRateBody {
    body: Incoming,
    min_rate: MinRate,
    /// Informed when the body is complete.
    connection: ConnectionState,
    received_bytes: u64,
    waited: Duration,
    /// Start of the current wait.
    waiting_since: Option<Instant>,
    timer: ResettableTimer,
}

impl MinRateBody {
    /// Wraps a request body.
    pub(super) fn wrap(body: Incoming, min_rate: MinRate, connection: ConnectionState) -> Body {
        if body.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self {
            body,
            min_rate,
            connection,
            received_bytes: 0,
            waited: Duration::ZERO,
            waiting_since: None,
            timer: ResettableTimer::default(),
        })
    }

    /// Returns the time that may be spent waiting for the next piece.
    fn allowed_wait(&self) -> Duration {
        let MinRate {
            grace,
            bytes_per_second,
        } = self.min_rate;
        let rate = u64::try_from(bytes_per_second).unwrap_or(u64::MAX);
        let of_rate = grace + Duration::from_secs(self.received_bytes / rate.max(1));
        of_rate.saturating_sub(self.waited).min(grace)
    }

    fn record(&mut self, frame: Option<&Result<Frame<Bytes>, hyper::Error>>) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        let is_complete = match frame {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                self.received_bytes = self.received_bytes.saturating_add(length as u64);
                self.body.is_end_stream()
            }
            Some(Err(_)) => false,
            None => true,
        };
        if is_complete {
            self.connection.finish_body();
        }
    }
}

impl hyper::body::Body for MinRateBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.record(frame.as_ref());
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let deadline = since + self.allowed_wait();
        ready!(self.timer.poll(context, deadline));
        Poll::Ready(Some(Err(BodyTooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
