//! Reads the chunks of a response.

use std::collections::VecDeque;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};

use crate::{
    dialect,
    error::ApiError,
    proxy::{
        reply::{unreadable, unreadable_response},
        request_context::RequestContext,
    },
    upstream::{
        UpstreamError, UpstreamResponse,
        content_headers::{self, MediaType, UnexpectedContentType},
        headers,
        sse::SseReader,
    },
};

/// Chunks that are read, and the server-sent events from which more come.
#[derive(Default)]
pub struct ChunkSource {
    pub waiting: VecDeque<Bytes>,
    /// True if the terminator was read. It is no chunk.
    pub is_terminated: bool,
    /// `None` at the end of the response.
    events: Option<(BoxStream<'static, Result<Bytes, UpstreamError>>, SseReader)>,
}

impl ChunkSource {
    /// Opens the body of a response. Memory of a JSON body and its chunks is reserved.
    pub async fn open(
        context: &RequestContext,
        answer: UpstreamResponse,
    ) -> Result<Self, ApiError> {
        let limit = context.snapshot.config.limits.event;
        let mut source = Self::default();
        let body = match content_headers::media_type(&answer.headers) {
            MediaType::EventStream => {
                let pieces = answer.into_decoded_stream(limit);
                source.events = Some((pieces, SseReader::new(limit)));
                return Ok(source);
            }
            MediaType::Absent => read_body(context, answer).await?,
            MediaType::Json | MediaType::Other => read_json(context, answer).await?,
        };
        // Some upstreams do not stream, and some streams have no content type, or that of JSON. A
        // body that is neither events nor JSON must not become an empty stream.
        if is_event_stream(&body) {
            source.push(read_events(&body, limit)?);
            return Ok(source);
        }
        let events = context.dialect.body_events(&body);
        let events = events.map_err(unreadable_response)?;
        // Some are parts of the body, others hold copies of its texts.
        let bytes: usize = events.iter().map(Bytes::len).sum();
        context.reserve_memory(bytes.saturating_sub(body.len()))?;
        source.waiting = events.into();
        Ok(source)
    }

    /// Returns whether chunks arrive as events, for which no memory is reserved.
    pub const fn is_stream(&self) -> bool {
        self.events.is_some()
    }

    /// Reads until a chunk waits. Returns false at the end of the response.
    pub async fn fill(&mut self) -> Result<bool, ApiError> {
        while self.waiting.is_empty()
            && let Some((pieces, reader)) = &mut self.events
        {
            let events = if let Some(piece) = pieces.next().await {
                reader.push(&piece?)
            } else {
                let last = self.events.take().map(|(_, reader)| reader.finish());
                last.and_then(Result::transpose).into_iter().collect()
            };
            self.push(events.map_err(|error| unreadable().with_source(&error))?);
        }
        Ok(!self.waiting.is_empty())
    }

    fn push(&mut self, events: Vec<Bytes>) {
        for event in events {
            if dialect::is_terminator(&event) {
                self.is_terminated = true;
            } else {
                self.waiting.push_back(event);
            }
        }
    }
}

/// Returns whether a body begins with the field of a server-sent event, or a comment.
fn is_event_stream(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    let mut fields = [&b":"[..], b"data:", b"event:", b"id:", b"retry:"].into_iter();
    fields.any(|field| body.starts_with(field))
}

fn read_events(body: &[u8], limit: usize) -> Result<Vec<Bytes>, ApiError> {
    let mut reader = SseReader::new(limit);
    let events = reader.push(body).and_then(|mut events| {
        events.extend(reader.finish()?);
        Ok(events)
    });
    events.map_err(|error| unreadable().with_source(&error))
}

/// Reads a whole response whose media type is JSON.
pub async fn read_json(
    context: &RequestContext,
    answer: UpstreamResponse,
) -> Result<Bytes, ApiError> {
    if content_headers::media_type(&answer.headers) != MediaType::Json {
        return Err(unreadable().with_source(&UnexpectedContentType::from_headers(&answer.headers)));
    }
    read_body(context, answer).await
}

async fn read_body(context: &RequestContext, answer: UpstreamResponse) -> Result<Bytes, ApiError> {
    let limit = context.snapshot.config.limits.response;
    let admit = |bytes| context.reserve_memory(bytes);
    answer.read_body(limit, admit).await
}

/// Reads a response whose media type is JSON, and returns it with its body, which is not edited.
pub async fn read_unedited(
    context: &RequestContext,
    answer: UpstreamResponse,
) -> Result<(Response, Bytes), ApiError> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers::rewritten_response_headers(answer.headers.clone());
    let body = read_json(context, answer).await?;
    *response.body_mut() = Body::from(body.clone());
    Ok((response, body))
}
