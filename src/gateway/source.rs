//! Where the chunks of an answer come from.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};

use super::gate::unreadable;
use crate::{
    app::ApiError,
    config::Limits,
    dialect,
    upstream::{
        Answer, UpstreamError,
        sse::{self, SseReader},
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
    pub(super) async fn open(answer: Answer, limits: &Limits) -> Result<Self, ApiError> {
        if answer.is_encoded() {
            return Err(unreadable());
        }
        if answer.media_type() == "text/event-stream" {
            return Ok(Self::Events(
                answer.pieces().boxed(),
                SseReader::new(limits.event),
            ));
        }
        // Some upstreams do not stream. What is neither events nor JSON must not
        // become a stream of nothing.
        let body = answer.whole(limits.response).await?;
        let elements = dialect::elements(&body).map_err(|_| unreadable())?;
        Ok(Self::Known(elements.into()))
    }

    /// The data of the next events; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ApiError> {
        match self {
            Self::Known(chunks) => Ok(chunks.pop_front().map(|it| vec![it])),
            Self::Events(pieces, reader) => {
                if let Some(piece) = pieces.next().await {
                    let events = reader.push(&piece?);
                    return events.map(Some).map_err(|error| too_large(&error));
                }
                let rest = std::mem::replace(reader, SseReader::new(0)).finish();
                *self = Self::Known(VecDeque::new());
                Ok(rest.map(|it| vec![it]))
            }
        }
    }
}

fn too_large(error: &sse::TooLarge) -> ApiError {
    tracing::warn!(%error, "the answer cannot be read");
    unreadable()
}
