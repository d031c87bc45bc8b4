//! A call that no hook listens to: nothing of it is read, only counted.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body::Frame;
use tokio::time::Instant;

use super::{
    exchange::Exchange,
    reply,
    request_body::{self, declared_length, stalled, too_large},
};
use crate::{
    dialect::Operation,
    resettable_timer::ResettableTimer,
    state::ApiError,
    upstream::{
        OutgoingRequest, RequestBody,
        headers::{self, ResponseUse},
    },
};

/// Hands request and answer on, piece by piece.
pub(super) async fn forward(exchange: Box<Exchange>, body: Body) -> Result<Response, ApiError> {
    let limit = exchange.snapshot.config.limits.body;
    let patience = exchange.snapshot.config.timeouts.body;
    let length = declared_length(&exchange.head.headers);
    if length.is_some_and(|it| it > limit) {
        // Read to its end, so that the agent hears why.
        request_body::drain(body, limit, patience).await;
        return Err(too_large(limit));
    }
    let fault = Fault::default();
    let outgoing = outgoing(&exchange, body, length, &fault);
    let answer = match exchange.send(outgoing, None).await {
        Ok(answer) => answer,
        Err(error) => return Err(fault.take().unwrap_or(error)),
    };
    let facts = &exchange.facts;
    Ok(reply::told(reply::passed(answer, facts), facts))
}

/// The request as it came, but for what stays on its hop.
fn outgoing(
    exchange: &Exchange,
    body: Body,
    length: Option<usize>,
    fault: &Fault,
) -> OutgoingRequest {
    let outgoing_body = if http_body::Body::is_end_stream(&body) {
        RequestBody::empty()
    } else {
        let limit = exchange.snapshot.config.limits.body;
        let patience = exchange.snapshot.config.timeouts.body;
        let bounded = Bounded::new(body, fault.clone(), limit, patience);
        RequestBody::stream(Body::new(bounded))
    };
    let mut outgoing = exchange.outgoing(outgoing_body, ResponseUse::PassedThrough);
    if let Some(encoding) = exchange.head.headers.get(header::CONTENT_ENCODING) {
        // The body is what it was, so it is encoded as it was.
        let headers = &mut outgoing.headers;
        headers.insert(header::CONTENT_ENCODING, encoding.clone());
    }
    if exchange.call.operation == Operation::Other {
        outgoing
            .headers
            .extend(headers::upload_headers(&exchange.head.headers));
    }
    if let Some(length) = length {
        let value = HeaderValue::from(length);
        outgoing.headers.insert(header::CONTENT_LENGTH, value);
    }
    outgoing
}

/// Why a body was broken off before its end. Upstream's client, which reads the
/// body, only tells that it was.
#[derive(Debug, Clone, Default)]
struct Fault(Arc<Mutex<Option<ApiError>>>);

impl Fault {
    fn set(&self, error: ApiError) -> axum::Error {
        let broken = axum::Error::new(std::io::Error::other(error.reason().parts().2));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        broken
    }

    fn take(&self) -> Option<ApiError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body that breaks off once it is over the limit or its next piece does not
/// come.
struct Bounded {
    body: Body,
    fault: Fault,
    limit: usize,
    seen: usize,
    patience: Duration,
    /// Since when the next piece is waited for.
    since: Option<Instant>,
    deadline: ResettableTimer,
}

impl Bounded {
    fn new(body: Body, fault: Fault, limit: usize, patience: Duration) -> Self {
        Self {
            body,
            fault,
            limit,
            seen: 0,
            patience,
            since: None,
            deadline: ResettableTimer::default(),
        }
    }

    /// What is left of a piece. Trailers are not handed on.
    fn take(
        &mut self,
        frame: Result<Frame<Bytes>, axum::Error>,
    ) -> Option<Result<Frame<Bytes>, axum::Error>> {
        let piece = match frame {
            Ok(frame) => frame.into_data().ok()?,
            Err(error) => return Some(Err(self.fault.set(ApiError::broken_body(&error)))),
        };
        self.seen += piece.len();
        if self.seen > self.limit {
            return Some(Err(self.fault.set(too_large(self.limit))));
        }
        Some(Ok(Frame::data(piece)))
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        while let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.since = None;
            let Some(frame) = frame else {
                return Poll::Ready(None);
            };
            if let Some(taken) = this.take(frame) {
                return Poll::Ready(Some(taken));
            }
        }
        let since = *this.since.get_or_insert_with(Instant::now);
        ready!(this.deadline.poll(context, since + this.patience));
        Poll::Ready(Some(Err(this.fault.set(stalled()))))
    }
}
