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

/// Terminator that some clients of other APIs expect; those of Google's APIs fail on it.
const DONE: &[u8] = b"[DONE]";

/// Source of the chunks of a response.
pub enum ChunkSource {
    /// Server-sent events as they arrive.
    Events(BoxStream<'static, Result<Bytes, UpstreamError>>, SseReader),
    /// Chunks that are read already.
    Elements(VecDeque<Bytes>),
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
            return Ok(Self::Events(pieces, SseReader::new(limits.event)));
        }
        // Some upstreams do not stream. A body that is neither events nor JSON must not become
        // an empty stream.
        let body = read_json(answer, head, limits).await?;
        let elements = dialect::elements(&body).map_err(|error| unreadable_response(&error))?;
        Ok(Self::Elements(elements.into()))
    }

    /// Returns the next chunks, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ApiError> {
        let events = match self {
            Self::Elements(chunks) => chunks.pop_front().map(|chunk| vec![chunk]),
            Self::Events(pieces, reader) => {
                if let Some(piece) = pieces.next().await {
                    let events = reader.push(&piece?);
                    Some(events.map_err(|error| unreadable().with_source(&error))?)
                } else {
                    let rest = std::mem::replace(reader, SseReader::new(0)).finish();
                    *self = Self::Elements(VecDeque::new());
                    rest.map_err(|error| unreadable().with_source(&error))?
                        .map(|event| vec![event])
                }
            }
        };
        Ok(events.map(|mut events| {
            events.retain(|event| event.trim_ascii() != DONE);
            events
        }))
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
    answer.read_body_with(limits.response, admit).await
}
