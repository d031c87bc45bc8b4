//! A call that no hook listens to: nothing of it is read, only counted.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, header};
use tokio::time::timeout;

use super::{
    body::{self, declared_length, stalled, too_large},
    exchange::Exchange,
    reply::{DenialForm, Reply, Teller},
};
use crate::{
    app::ApiError,
    dialect::Operation,
    upstream::{
        OutgoingBody,
        headers::{self, AnswerIs},
    },
};

/// Hands request and answer on, piece by piece.
pub(super) async fn forward(exchange: Box<Exchange>, body: Body) -> Result<Response, ApiError> {
    let limit = exchange.snapshot.config.limits.body;
    let patience = exchange.snapshot.config.timeouts.body;
    let length = declared_length(&exchange.head.headers);
    if length.is_some_and(|it| it > limit) {
        // Read to its end, so that the agent hears why.
        body::drain(body, limit, patience).await;
        return Err(too_large(limit));
    }
    let fault = Fault::default();
    let outgoing_body = if http_body::Body::is_end_stream(&body) {
        OutgoingBody::empty()
    } else {
        let bounded = bounded(body, fault.clone(), limit, patience);
        OutgoingBody::stream(Body::from_stream(bounded))
    };
    let mut outgoing = exchange.outgoing(outgoing_body, AnswerIs::Passed);
    if let Some(encoding) = exchange.head.headers.get(header::CONTENT_ENCODING) {
        // The body is what it was, so it is encoded as it was.
        let headers = &mut outgoing.headers;
        headers.insert(header::CONTENT_ENCODING, encoding.clone());
    }
    if exchange.call.operation == Operation::Other {
        outgoing
            .headers
            .extend(headers::of_uploads(&exchange.head.headers));
    }
    if let Some(length) = length {
        let value = HeaderValue::from(length);
        outgoing.headers.insert(header::CONTENT_LENGTH, value);
    }
    let answer = match exchange.send(outgoing, None).await {
        Ok(answer) => answer,
        Err(error) => return Err(fault.take().unwrap_or(error)),
    };
    let teller = Teller {
        dialect: exchange.dialect,
        call: exchange.call.clone(),
        form: DenialForm::Error,
        facts: exchange.facts.clone(),
    };
    Ok(teller.tell(Reply::passed(answer, &exchange.facts)))
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

/// The same body, breaking off once it is over the limit or its next piece does
/// not come.
fn bounded(
    body: Body,
    fault: Fault,
    limit: usize,
    patience: Duration,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static {
    let start = (body.into_data_stream(), 0);
    stream::unfold(start, move |(mut pieces, seen)| {
        let fault = fault.clone();
        async move {
            let piece = match timeout(patience, pieces.next()).await {
                Ok(piece) => {
                    let piece = piece?;
                    piece.map_err(|error| fault.set(ApiError::broken_body(&error)))
                }
                Err(_elapsed) => Err(fault.set(stalled())),
            };
            let seen = seen + piece.as_ref().map_or(0, Bytes::len);
            let piece = if seen > limit {
                Err(fault.set(too_large(limit)))
            } else {
                piece
            };
            Some((piece, (pieces, seen)))
        }
    })
}
