//! Limits on concurrent requests and on the memory that they buffer.
//!
//! A request counts against `limits.in_flight` once it is authenticated and its body is received,
//! so that slow uploads, and tokens whose issuer does not respond, take no slots of requests that
//! can be processed. A `GET` does not wait for its body, which may never be read. Requests that are
//! still being received are bounded by `limits.connections`, also if HTTP/2 has several of them on
//! one connection, by the concurrency limit of their caller, and by `limits.memory`.

use std::{
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use http::{Method, request::Parts};
use hyper::body::{Body as _, Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;

use crate::{
    config::Limits,
    error::{ApiError, ErrorReason, TooManyInFlight},
    observe::Metrics,
};

/// Maximum number of requests that are being received, unless `limits.connections` is set.
const MAX_RECEIVING: usize = 20_000;

/// Counts a request as being received or in flight until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct InFlightGuard(Arc<InFlightRequest>);

#[derive(Debug)]
struct InFlightRequest {
    receiving: Gauge,
    in_flight: Gauge,
    limit: i64,
    /// Counted as `in_flight` if true, as `receiving` else.
    is_received: AtomicBool,
    memory: Gauge,
    /// Bytes of `memory` that belong to this request.
    reserved: AtomicI64,
}

impl InFlightGuard {
    /// Counts a request, and from the end of its body on against `limits.in_flight`. One without
    /// a body, or a `GET`, counts from [`Self::admit`] on.
    ///
    /// # Errors
    ///
    /// Returns an error if too many requests are in flight or being received already. Later,
    /// the body fails with [`TooManyInFlight`] instead of its end.
    pub fn enter(
        metrics: &Metrics,
        limits: &Limits,
        request: &mut Request,
    ) -> Result<Self, ApiError> {
        let limit = to_i64(limits.in_flight);
        let max_receiving = to_i64(limits.connections.unwrap_or(MAX_RECEIVING));
        if metrics.in_flight.get() >= limit || metrics.receiving.get() >= max_receiving {
            return Err(ApiError::too_many_in_flight());
        }
        metrics.receiving.inc();
        let guard = Self(Arc::new(InFlightRequest {
            receiving: metrics.receiving.clone(),
            in_flight: metrics.in_flight.clone(),
            limit,
            is_received: AtomicBool::new(false),
            memory: metrics.buffered_bytes.clone(),
            reserved: AtomicI64::new(0),
        }));
        if !request.body().is_end_stream() {
            let body = mem::take(request.body_mut());
            let guard = guard.clone();
            *request.body_mut() = Body::new(CountedBody { body, guard });
        }
        Ok(guard)
    }

    /// Counts an authenticated request against `limits.in_flight` if it has no body, or one that
    /// may not be read: the authentication may have waited for the keys of an issuer.
    ///
    /// # Errors
    ///
    /// Returns an error if too many requests are in flight already.
    pub fn admit(&self, request: &Request) -> Result<(), ApiError> {
        let is_body_read = !matches!(*request.method(), Method::GET | Method::HEAD);
        if is_body_read && !has_ended(request.body()) {
            return Ok(());
        }
        let counted = self.finish_receiving();
        counted.map_err(|TooManyInFlight| ApiError::too_many_in_flight())
    }

    /// Counts the request as in flight from now on.
    fn finish_receiving(&self) -> Result<(), TooManyInFlight> {
        let request = &self.0;
        if request.is_received.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        request.receiving.dec();
        if request.in_flight.inc() < request.limit {
            Ok(())
        } else {
            Err(TooManyInFlight)
        }
    }

    /// Adds to the request's memory. Returns whether all requests together stay within
    /// `limit` bytes.
    fn reserve(&self, bytes: usize, limit: usize) -> bool {
        let bytes = to_i64(bytes);
        self.0.reserved.fetch_add(bytes, Ordering::Relaxed);
        let before = self.0.memory.inc_by(bytes);
        before.saturating_add(bytes) <= to_i64(limit)
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if *self.is_received.get_mut() {
            self.in_flight.dec();
        } else {
            self.receiving.dec();
        }
        self.memory.dec_by(*self.reserved.get_mut());
    }
}

/// Request body whose end counts the request as in flight, or fails.
struct CountedBody {
    body: Body,
    guard: InFlightGuard,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let is_complete = match &frame {
            Some(Ok(_)) => has_ended(&self.body),
            Some(Err(_)) => false,
            None => true,
        };
        if is_complete && let Err(error) = self.guard.finish_receiving() {
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Counts bytes that are buffered for a request until it ends.
///
/// # Errors
///
/// Returns an error if all requests together exceed `limit` bytes.
pub fn reserve_memory(head: &Parts, bytes: usize, limit: usize) -> Result<(), ApiError> {
    let guard = head.extensions.get::<InFlightGuard>();
    if guard.is_none_or(|guard| guard.reserve(bytes, limit)) {
        return Ok(());
    }
    let message = "memory limit for buffered requests and responses exceeded";
    Err(ApiError::new(ErrorReason::Overloaded, message))
}

/// Returns whether a body has no more data. Over HTTP/2, the end of the stream may follow the last
/// data or be missing, and a body of a known length is not polled for it.
fn has_ended(body: &Body) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
