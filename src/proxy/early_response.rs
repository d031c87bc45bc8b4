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
use http::header;
use tokio::time::Instant;

use super::{
    exchange_events,
    reply::{self, Responder},
    response_filter::channel::{ChunkChannel, Pipeline, PipelineEvent},
};
use crate::{error::ApiError, resettable_timer::ResettableTimer};

/// Builds the response of a streaming call. It has the status of the outcome if that is known
/// within `interval`, else status 200 followed by keep-alives.
pub(super) async fn respond(
    pipeline: Pipeline,
    channel: ChunkChannel,
    responder: Arc<Responder>,
    interval: Duration,
) -> Result<Response, ApiError> {
    let (recorder, media_type) = (responder.recorder.clone(), responder.media_type());
    let keep_alive_bytes = Bytes::from_static(responder.dialect.keep_alive());
    let mut events = channel.clone().run(pipeline);
    let event = tokio::time::timeout(interval, events.next()).await;
    let (first, head) = match event.ok().flatten() {
        Some(PipelineEvent::Chunk(chunk)) => (chunk, channel.take_head()),
        Some(PipelineEvent::Finished(reply)) => match reply? {
            Some(reply) => return Ok(responder.respond(reply)),
            None => (Bytes::new(), channel.take_head()),
        },
        None => {
            channel.announce();
            (keep_alive_bytes.clone(), None)
        }
    };
    let rest = keep_alive(chunks(events, responder), interval, keep_alive_bytes);
    let body = Body::from_stream(stream::iter([Ok(first)]).chain(rest));
    let mut response = Response::new(body);
    let Some((status, headers)) = head else {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, media_type);
        return Ok(exchange_events::record_response(&recorder, response));
    };
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(reply::finish(response, &recorder))
}

/// The chunks of a pipeline whose response has begun. An error breaks the stream.
fn chunks(
    events: impl Stream<Item = PipelineEvent>,
    responder: Arc<Responder>,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    events.flat_map(move |event| {
        let last = match event {
            PipelineEvent::Chunk(chunk) => return Either::Left(stream::iter([Ok(chunk)])),
            PipelineEvent::Finished(Ok(None)) => Body::empty(),
            PipelineEvent::Finished(Ok(Some(reply))) => responder.respond_in_stream(reply),
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
