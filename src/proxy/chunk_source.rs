//! Where the chunks of an answer come from.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};

use http::request::Parts;

use super::response_filter::unreadable;
use crate::{
    config::Limits,
    dialect,
    state::{ApiError, hold},
    upstream::{
        UpstreamError, UpstreamResponse,
        content_headers::{self, MediaType, UnexpectedContentType},
        sse::SseReader,
    },
};

/// Where chunks come from.
pub(super) enum Source {
    /// Server-sent events, as they come.
    Events(Pieces, SseReader),
    /// Chunks that are here already.
    Known(VecDeque<Bytes>),
}

type Pieces = BoxStream<'static, Result<Bytes, UpstreamError>>;

impl Source {
    /// The chunks of an answer.
    pub(super) async fn open(
        answer: UpstreamResponse,
        head: &Parts,
        limits: &Limits,
    ) -> Result<Self, ApiError> {
        if content_headers::media_type(&answer.headers) == MediaType::EventStream {
            let pieces = answer.into_decoded_stream(limits.event);
            return Ok(Self::Events(pieces, SseReader::new(limits.event)));
        }
        // Some upstreams do not stream. What is neither events nor JSON must not
        // become a stream of nothing.
        let body = json(answer, head, limits).await?;
        let elements = dialect::elements(&body).map_err(|it| unreadable().because(&it))?;
        Ok(Self::Known(elements.into()))
    }

    /// The data of the next events; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ApiError> {
        match self {
            Self::Known(chunks) => Ok(chunks.pop_front().map(|it| vec![it])),
            Self::Events(pieces, reader) => {
                if let Some(piece) = pieces.next().await {
                    let events = reader.push(&piece?);
                    return events.map(Some).map_err(|it| unreadable().because(&it));
                }
                let rest = std::mem::replace(reader, SseReader::new(0)).finish();
                let rest = rest.map_err(|it| unreadable().because(&it))?;
                *self = Self::Known(VecDeque::new());
                Ok(rest.map(|it| vec![it]))
            }
        }
    }
}

/// The whole of an answer that is JSON by its head's word.
pub(super) async fn json(
    answer: UpstreamResponse,
    head: &Parts,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    if content_headers::media_type(&answer.headers) != MediaType::Json {
        return Err(unreadable().because(&UnexpectedContentType::from_headers(&answer.headers)));
    }
    let admit = |bytes| hold(head, bytes, limits.memory);
    answer.read_body_with(limits.response, admit).await
}
