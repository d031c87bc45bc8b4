//! Reads the chunks of a response.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use http::request::Parts;

use crate::{
    config::Limits,
    dialect,
    error::ApiError,
    middleware::reserve_memory,
    proxy::reply::{unreadable, unreadable_response},
    upstream::{
        UpstreamError, UpstreamResponse,
        content_headers::{self, MediaType, UnexpectedContentType},
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
    /// Opens the body of a response.
    pub async fn open(
        answer: UpstreamResponse,
        head: &Parts,
        limits: &Limits,
    ) -> Result<Self, ApiError> {
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
        let body = read_json(answer, head, limits).await?;
        let elements = dialect::elements(&body).map_err(unreadable_response)?;
        Ok(Self {
            waiting: elements.into(),
            is_terminated: false,
            events: None,
        })
    }

    /// Reads until a chunk waits. Returns false at the end of the response.
    pub async fn fill(&mut self) -> Result<bool, ApiError> {
        while self.waiting.is_empty()
            && let Some((pieces, reader)) = &mut self.events
        {
            let events = match pieces.next().await {
                Some(piece) => reader.push(&piece?),
                None => match self.events.take() {
                    Some((_, reader)) => reader.finish().map(Vec::from_iter),
                    None => break,
                },
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
    answer: UpstreamResponse,
    head: &Parts,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    if content_headers::media_type(&answer.headers) != MediaType::Json {
        return Err(unreadable().with_source(&UnexpectedContentType::from_headers(&answer.headers)));
    }
    let admit = |bytes| reserve_memory(head, bytes, limits.memory);
    answer.read_body(limits.response, admit).await
}
