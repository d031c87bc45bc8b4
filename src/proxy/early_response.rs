//! Responses to streaming calls. Agents give up on a call without a status after a minute, so
//! status 200 and keep-alives go out before hooks and upstream have come to an answer.

use std::{
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::Either, stream};
use http::{HeaderValue, header};
use tokio::time::Instant;

use super::{
    exchange_events,
    reply::{self, Reply, Responder, media_type},
    response_filter::channel::{ChunkChannel, Pipeline, PipelineEvent},
};
use crate::{dialect::Framing, error::ApiError, resettable_timer::ResettableTimer};

/// Builds the response of a streaming call. It has the status of the outcome if that is known
/// within `interval`, else status 200 followed by keep-alives.
pub(super) async fn respond(
    pipeline: Pipeline,
    channel: ChunkChannel,
    responder: Arc<Responder>,
    framing: Framing,
    interval: Duration,
) -> Result<Response, ApiError> {
    let recorder = responder.recorder.clone();
    let keep_alive_bytes = Bytes::from_static(responder.dialect.keep_alive());
    let mut events = channel.clone().run(pipeline);
    let Ok(event) = tokio::time::timeout(interval, events.next()).await else {
        channel.announce();
        let rest = keep_alive(
            chunks(events, responder, framing),
            interval,
            keep_alive_bytes.clone(),
        );
        let mut response = Response::new(body(keep_alive_bytes, rest));
        let value = HeaderValue::from_static(media_type(framing));
        response.headers_mut().insert(header::CONTENT_TYPE, value);
        return Ok(exchange_events::record_response(&recorder, response));
    };
    let head = channel.take_head();
    let first = match event {
        Some(PipelineEvent::Chunk(chunk)) => chunk,
        Some(PipelineEvent::Finished(reply)) => match reply? {
            Reply::Streamed => Bytes::new(),
            reply => return Ok(responder.respond(reply)),
        },
        None => Bytes::new(),
    };
    let rest = keep_alive(
        chunks(events, responder, framing),
        interval,
        keep_alive_bytes,
    );
    let mut response = Response::new(body(first, rest));
    if let Some((status, headers)) = head {
        *response.status_mut() = status;
        *response.headers_mut() = headers;
    }
    Ok(reply::finish(response, &recorder))
}

fn body(
    first: Bytes,
    rest: impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
) -> Body {
    Body::from_stream(stream::iter([Ok(first)]).chain(rest))
}

/// The chunks of a pipeline whose response has begun. An error breaks the stream.
fn chunks(
    events: impl Stream<Item = PipelineEvent>,
    responder: Arc<Responder>,
    framing: Framing,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    events.flat_map(move |event| {
        let last = match event {
            PipelineEvent::Chunk(chunk) => return Either::Left(stream::iter([Ok(chunk)])),
            PipelineEvent::Finished(Ok(reply)) => responder.respond_in_stream(reply, framing),
            PipelineEvent::Finished(Err(error)) => responder.break_stream(&error),
        };
        Either::Right(last.into_data_stream())
    })
}

/// Adds the keep-alive `keep_alive_bytes` to a stream whenever it is silent for `interval`.
fn keep_alive<E: Send + 'static>(
    inner: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    interval: Duration,
    keep_alive_bytes: Bytes,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    let mut inner = inner.boxed();
    let mut silent_since = None;
    let mut deadline = ResettableTimer::default();
    stream::poll_fn(move |context| {
        if let Poll::Ready(item) = inner.poll_next_unpin(context) {
            silent_since = None;
            return Poll::Ready(item);
        }
        let until = *silent_since.get_or_insert_with(Instant::now) + interval;
        ready!(deadline.poll(context, until));
        silent_since = None;
        Poll::Ready(Some(Ok(keep_alive_bytes.clone())))
    })
}
