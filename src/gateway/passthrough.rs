//! A call that no hook listens to: nothing of it is read, only counted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, future};
use http::{HeaderValue, header};

use super::{
    body::{self, declared_length, too_large},
    exchange::Exchange,
    reply::{DenialForm, Teller},
};
use crate::{app::ApiError, upstream::headers::AnswerIs};

/// Hands request and answer on, piece by piece.
pub(super) async fn forward(
    exchange: Exchange,
    query_key: Option<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let limit = exchange.snapshot.config.limits.body;
    let patience = exchange.snapshot.config.timeouts.body;
    let length = declared_length(&exchange.head.headers);
    if length.is_some_and(|it| it > limit) {
        // Read to its end, so that the agent hears why.
        let read = body::read(body, &exchange.head.headers, limit, patience).await;
        return Err(read.err().unwrap_or_else(|| too_large(limit)));
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let outgoing_body = if exchange.call.operation.sends_content() {
        reqwest::Body::wrap_stream(counted(body, Arc::clone(&seen), limit))
    } else {
        reqwest::Body::default()
    };
    let mut outgoing = exchange.outgoing(outgoing_body, query_key.as_deref(), AnswerIs::Passed);
    if let Some(length) = length {
        let value = HeaderValue::from(length);
        outgoing.headers.insert(header::CONTENT_LENGTH, value);
    }
    let answer = match exchange.snapshot.upstream.send(outgoing).await {
        Ok(answer) => answer,
        Err(_) if seen.load(Ordering::Relaxed) > limit => return Err(too_large(limit)),
        Err(error) => return Err(error.into()),
    };
    let teller = Teller {
        dialect: exchange.dialect,
        call: exchange.call.clone(),
        form: DenialForm::Error,
        facts: exchange.facts.clone(),
    };
    Ok(teller.tell(exchange.pass(answer)))
}

/// The same body, breaking off once it is over the limit.
fn counted(
    body: Body,
    seen: Arc<AtomicUsize>,
    limit: usize,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static {
    let pieces = body.into_data_stream();
    pieces.then(move |piece| {
        let size = piece.as_ref().map_or(0, Bytes::len);
        let total = seen.fetch_add(size, Ordering::Relaxed) + size;
        future::ready(match piece {
            Ok(_) if total > limit => Err(axum::Error::new("over the limit")),
            piece => piece,
        })
    })
}
