//! Reads the chunks of a response.

use std::collections::VecDeque;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};

use crate::{
    dialect,
    error::ApiError,
    proxy::{
        exchange_events,
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
        let limits = &context.snapshot.config.limits;
        if content_headers::media_type(&answer.headers) == MediaType::EventStream {
            let pieces = answer.into_decoded_stream(limits.event);
            return Ok(Self {
                waiting: VecDeque::new(),
                is_terminated: false,
                events: Some((pieces, SseReader::new(limits.event))),
            });
        }
        // Some upstreams do not stream. A body that is neither events nor JSON must not become
        // an empty stream.
        let body = read_json(context, answer).await?;
        let events = context.dialect.body_events(&body);
        let events = events.map_err(unreadable_response)?;
        // Some are parts of the body, others hold copies of its texts.
        let bytes: usize = events.iter().map(Bytes::len).sum();
        context.reserve_memory(bytes.saturating_sub(body.len()))?;
        Ok(Self {
            waiting: events.into(),
            is_terminated: false,
            events: None,
        })
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
            let events = events.map_err(|error| unreadable().with_source(&error))?;
            for event in events {
                if dialect::is_terminator(&event) {
                    self.is_terminated = true;
                } else {
                    self.waiting.push_back(event);
                }
            }
        }
        Ok(!self.waiting.is_empty())
    }
}

/// Reads a whole response whose media type is JSON.
pub async fn read_json(
    context: &RequestContext,
    answer: UpstreamResponse,
) -> Result<Bytes, ApiError> {
    if content_headers::media_type(&answer.headers) != MediaType::Json {
        return Err(unreadable().with_source(&UnexpectedContentType::from_headers(&answer.headers)));
    }
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
    let answer = exchange_events::record_usage(&context.recorder, answer);
    let body = read_json(context, answer).await?;
    *response.body_mut() = Body::from(body.clone());
    Ok((response, body))
}
