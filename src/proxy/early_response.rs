//! Responses to streaming calls. Agents give up on a call without a status after a minute, so
//! status 200 and keep-alives go out before hooks and upstream have come to an answer.

mod keep_alive;

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::Either, stream};
use http::{HeaderValue, header};

use self::keep_alive::keep_alive;
use super::{
    reply::Responder,
    response_filter::channel::{PipelineEvent, PipelineStream},
    stream_encoder::media_type,
};
use crate::{dialect::Framing, error::ApiError, upstream::sse::KEEP_ALIVE};

/// Builds the response of a streaming call. It has the status of the outcome if that is known
/// within `interval`, else status 200 followed by keep-alives.
pub(super) async fn respond(
    mut pipeline: PipelineStream,
    responder: Arc<Responder>,
    framing: Framing,
    interval: Duration,
) -> Result<Response, ApiError> {
    let Ok(event) = tokio::time::timeout(interval, pipeline.next()).await else {
        let first = Bytes::from_static(KEEP_ALIVE);
        let mut response = Response::new(body(first, pipeline, &responder, framing, interval));
        let value = HeaderValue::from_static(media_type(framing));
        response.headers_mut().insert(header::CONTENT_TYPE, value);
        return Ok(responder.finish_early(response));
    };
    let head = pipeline.take_head();
    let first = match (event, head.is_some()) {
        (Some(PipelineEvent::Chunk(chunk)), _) => chunk,
        (Some(PipelineEvent::Finished(reply)), false) => return Ok(responder.respond(reply?)),
        (Some(PipelineEvent::Finished(reply)), true) => reply.map(|_| Bytes::new())?,
        (None, _) => Bytes::new(),
    };
    let mut response = Response::new(body(first, pipeline, &responder, framing, interval));
    if let Some((status, headers)) = head {
        *response.status_mut() = status;
        *response.headers_mut() = headers;
    }
    Ok(responder.finish(response))
}

fn body(
    first: Bytes,
    pipeline: PipelineStream,
    responder: &Arc<Responder>,
    framing: Framing,
    interval: Duration,
) -> Body {
    let first = stream::iter([Ok(first)]);
    let rest = chunks(pipeline, Arc::clone(responder), framing);
    Body::from_stream(first.chain(keep_alive(rest, interval)))
}

/// The chunks of a pipeline whose response has begun. An error breaks the stream.
fn chunks(
    pipeline: PipelineStream,
    responder: Arc<Responder>,
    framing: Framing,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send {
    pipeline.flat_map(move |event| {
        let last = match event {
            PipelineEvent::Chunk(chunk) => return Either::Left(stream::iter([Ok(chunk)])),
            PipelineEvent::Finished(Ok(reply)) => responder.respond_in_stream(reply, framing),
            PipelineEvent::Finished(Err(error)) => responder.break_stream(&error),
        };
        Either::Right(last.into_data_stream())
    })
}
