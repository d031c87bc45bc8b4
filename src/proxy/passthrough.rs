//! Calls without hooks: request and response pass unparsed; only their sizes are checked.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use hyper::body::Frame;
use tokio::time::Instant;

use super::{
    reply,
    request_body::{self, content_length, stalled, too_large},
    request_context::RequestContext,
    upstream_call,
};
use crate::{
    dialect::{Call, Operation},
    error::ApiError,
    resettable_timer::ResettableTimer,
    upstream::{
        OutgoingRequest, RequestBody,
        headers::{self, ResponseUse},
    },
};

/// Forwards request and response piece by piece.
pub(super) async fn forward(
    context: Box<RequestContext>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let config = &context.snapshot.config;
    let (limit, read_timeout) = (config.limits.body, config.timeouts.body);
    let length = content_length(&context.head.headers);
    if length.is_some_and(|length| length > limit) {
        // Read to its end, so that the agent receives the error.
        request_body::drain(body, limit, read_timeout).await;
        return Err(too_large(limit));
    }
    let body_error = SharedError::default();
    let outgoing_body = if hyper::body::Body::is_end_stream(&body) {
        RequestBody::empty()
    } else {
        let limited = LimitedBody::new(body, body_error.clone(), limit, read_timeout);
        RequestBody::stream(Body::new(limited))
    };
    let outgoing = outgoing(&context, &call, outgoing_body, length);
    let sent = upstream_call::send(&context, &call, outgoing, None).await;
    let answer = sent.map_err(|error| body_error.take().unwrap_or(error))?;
    let recorder = &context.recorder;
    Ok(reply::finish(reply::passed(answer, recorder), recorder))
}

/// The request as it came, but for hop-by-hop headers.
fn outgoing(
    context: &RequestContext,
    call: &Call,
    body: RequestBody,
    length: Option<usize>,
) -> OutgoingRequest {
    let mut outgoing = upstream_call::outgoing(context, call, body, ResponseUse::PassedThrough);
    let received = &context.head.headers;
    if let Some(encoding) = received.get(header::CONTENT_ENCODING) {
        // The body is forwarded as it is encoded.
        outgoing
            .headers
            .insert(header::CONTENT_ENCODING, encoding.clone());
    }
    if call.operation == Operation::Other {
        outgoing.headers.extend(headers::upload_headers(received));
    }
    if let Some(length) = length {
        let value = HeaderValue::from(length);
        outgoing.headers.insert(header::CONTENT_LENGTH, value);
    }
    outgoing
}

/// Error that ended a request body early. The client that reads the body reports only that it
/// ended.
#[derive(Debug, Clone, Default)]
struct SharedError(Arc<Mutex<Option<ApiError>>>);

impl SharedError {
    fn set(&self, error: ApiError) -> axum::Error {
        let broken = axum::Error::new(io::Error::other(error.reason().as_str()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        broken
    }

    fn take(&self) -> Option<ApiError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Request body that fails once it exceeds the limit or its next piece is late.
struct LimitedBody {
    body: Body,
    error_slot: SharedError,
    limit: usize,
    seen: usize,
    read_timeout: Duration,
    /// Start of the wait for the next piece.
    waiting_since: Option<Instant>,
    deadline: ResettableTimer,
}

impl LimitedBody {
    fn new(body: Body, error_slot: SharedError, limit: usize, read_timeout: Duration) -> Self {
        Self {
            body,
            error_slot,
            limit,
            seen: 0,
            read_timeout,
            waiting_since: None,
            deadline: ResettableTimer::default(),
        }
    }

    /// Checks a frame. Returns `None` for trailers, which are not forwarded.
    fn check(
        &mut self,
        frame: Result<Frame<Bytes>, axum::Error>,
    ) -> Option<Result<Frame<Bytes>, axum::Error>> {
        let piece = match frame {
            Ok(frame) => frame.into_data().ok()?,
            Err(error) => return Some(Err(self.error_slot.set(ApiError::broken_body(&error)))),
        };
        self.seen += piece.len();
        if self.seen > self.limit {
            return Some(Err(self.error_slot.set(too_large(self.limit))));
        }
        Some(Ok(Frame::data(piece)))
    }
}

impl hyper::body::Body for LimitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        while let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting_since = None;
            let Some(frame) = frame else {
                return Poll::Ready(None);
            };
            if let Some(checked) = this.check(frame) {
                return Poll::Ready(Some(checked));
            }
        }
        let waiting_since = *this.waiting_since.get_or_insert_with(Instant::now);
        ready!(
            this.deadline
                .poll(context, waiting_since + this.read_timeout)
        );
        Poll::Ready(Some(Err(this.error_slot.set(stalled()))))
    }
}
