//! An answer in chunks, judged chunk by chunk or as a whole.
//!
//! One task pulls, in order; nothing is read from upstream before the agent has
//! taken what came before.

use std::{collections::VecDeque, io, sync::Arc};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::{HeaderValue, header};
use serde_json::Value;

use super::{
    gate::{Gate, Judged, unreadable},
    keep_alive::keep_alive,
    reply::{Reply, Teller, media_type},
};
use crate::{
    app::ApiError,
    config::AfterModelMode,
    dialect::{self, Framing, Merged},
    event::Reason,
    policy::Extent,
    upstream::{
        Answer, UpstreamError, headers,
        sse::{self, SseReader},
    },
};

/// Writes chunks in one framing.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    /// What goes before the next element of an array.
    lead: &'static [u8],
}

impl Frames {
    const fn new(framing: Framing) -> Self {
        let lead = b"[";
        Self { framing, lead }
    }

    /// A stream of one chunk.
    pub(super) fn only(framing: Framing, document: &Value) -> Bytes {
        let mut frames = Self::new(framing);
        let mut out = BytesMut::from(frames.chunk(document.to_string().as_bytes()).as_ref());
        out.extend_from_slice(&frames.end());
        out.freeze()
    }

    fn chunk(&mut self, json: &[u8]) -> Bytes {
        match self.framing {
            Framing::Sse => sse::write_event(json),
            Framing::Array => {
                let lead = std::mem::replace(&mut self.lead, b",\r\n");
                [lead, json].concat().into()
            }
        }
    }

    fn end(&mut self) -> Bytes {
        match (self.framing, self.lead) {
            (Framing::Sse, _) => Bytes::new(),
            (Framing::Array, b"[") => Bytes::from_static(b"[]"),
            (Framing::Array, _) => Bytes::from_static(b"]"),
        }
    }
}

/// The reply whose body is the judged stream.
pub(super) async fn answer(
    gate: Gate,
    answer: Answer,
    framing: Framing,
    teller: Arc<Teller>,
) -> Result<Reply, ApiError> {
    if answer.is_encoded() {
        return Err(unreadable());
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers::to_agent(&answer.headers);
    let value = HeaderValue::from_static(media_type(framing));
    response.headers_mut().insert(header::CONTENT_TYPE, value);

    let config = &gate.snapshot.config;
    let (mode, interval) = (config.after_model, config.timeouts.keep_alive);
    let source = Source::open(answer, config.limits.event, config.limits.response).await?;
    let mut chunks = Chunks {
        gate,
        source,
        mode,
        teller,
        frames: Frames::new(framing),
        waiting: VecDeque::new(),
        ended: false,
    };
    // As long as nothing is out, an error can be told as one.
    let first = stream::iter([Ok(chunks.next().await?)]);
    let rest = stream::unfold(chunks, |mut chunks| async move {
        if chunks.ended {
            return None;
        }
        let bytes = chunks.next().await.map_err(|error| {
            chunks.ended = true;
            axum::Error::new(io::Error::other(error.reason().parts().2))
        });
        Some((bytes, chunks))
    });
    *response.body_mut() = Body::from_stream(first.chain(keep_alive(rest, interval)));
    Ok(Reply::Upstream(response))
}

/// Where chunks come from.
enum Source {
    /// Server-sent events, as they come.
    Events(Pieces, SseReader),
    /// Chunks that are here already.
    Known(VecDeque<Bytes>),
}

type Pieces = BoxStream<'static, Result<Bytes, UpstreamError>>;

impl Source {
    async fn open(answer: Answer, event: usize, whole: usize) -> Result<Self, ApiError> {
        if answer.media_type() == "text/event-stream" {
            return Ok(Self::Events(answer.pieces().boxed(), SseReader::new(event)));
        }
        // Some upstreams do not stream. What is neither events nor JSON must not
        // become a stream of nothing.
        let body = answer.whole(whole).await?;
        let elements = dialect::elements(&body).map_err(|_| unreadable())?;
        Ok(Self::Known(elements.into()))
    }

    /// The data of the next events; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ApiError> {
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

/// A judged stream under way. Dropping it ends the call to upstream.
struct Chunks {
    gate: Gate,
    source: Source,
    mode: AfterModelMode,
    teller: Arc<Teller>,
    frames: Frames,
    /// Read, not yet judged.
    waiting: VecDeque<Bytes>,
    ended: bool,
}

/// What some clients of other APIs expect at the end, and ours trip over.
const DONE: &[u8] = b"[DONE]";

impl Chunks {
    /// The next bytes for the agent, as long as it has not ended.
    async fn next(&mut self) -> Result<Bytes, ApiError> {
        match self.mode {
            AfterModelMode::Chunk => self.step().await,
            AfterModelMode::Buffered => self.whole().await,
        }
    }

    async fn step(&mut self) -> Result<Bytes, ApiError> {
        if self.waiting.is_empty() {
            self.read_on().await?;
        }
        let Some(data) = self.waiting.pop_front() else {
            return self.last().await;
        };
        let extent = self.extent(&data).await?;
        match self.gate.judge(data, extent).await? {
            Judged::Pass(json) => Ok(self.frames.chunk(&json)),
            Judged::Refused(reason) => Ok(self.refuse(&reason)),
        }
    }

    /// Reads until there is a chunk, or the end.
    async fn read_on(&mut self) -> Result<(), ApiError> {
        while self.waiting.is_empty() {
            let Some(events) = self.source.next().await? else {
                break;
            };
            self.waiting.extend(events.into_iter().filter(is_chunk));
        }
        Ok(())
    }

    /// Whether a chunk is the last one. What policies hold back must be said by
    /// then; and since some models say in every chunk that they finish, only what
    /// comes next tells. No other chunk waits for the next one.
    async fn extent(&mut self, data: &Bytes) -> Result<Extent, ApiError> {
        if !self.gate.has_policies() || !says_it_finishes(data) {
            return Ok(Extent::Chunk);
        }
        self.read_on().await?;
        Ok(if self.waiting.is_empty() {
            Extent::Last
        } else {
            Extent::Chunk
        })
    }

    /// What policies held back, and the end.
    async fn last(&mut self) -> Result<Bytes, ApiError> {
        let mut out = BytesMut::new();
        for judged in self.gate.end().await? {
            match judged {
                Judged::Pass(json) => out.extend(self.frames.chunk(&json)),
                Judged::Refused(reason) => {
                    out.extend(self.refuse(&reason));
                    return Ok(out.freeze());
                }
            }
        }
        out.extend(self.end());
        Ok(out.freeze())
    }

    /// Judges all chunks as one answer. If hooks leave it as it is, and all that
    /// chunks say is in it, they go out as they came.
    async fn whole(&mut self) -> Result<Bytes, ApiError> {
        let limit = self.gate.snapshot.config.limits.response;
        let mut chunks: Vec<Bytes> = Vec::new();
        while let Some(events) = self.source.next().await? {
            chunks.extend(events.into_iter().filter(is_chunk));
            if chunks.iter().map(Bytes::len).sum::<usize>() > limit {
                return Err(UpstreamError::TooLarge { limit }.into());
            }
        }
        let merged = Merged::of(&chunks).map_err(|_| unreadable())?;
        let mut out = BytesMut::new();
        let judged = self.gate.judge(merged.answer.clone(), Extent::Last);
        match judged.await? {
            Judged::Pass(json) if json == merged.answer && !merged.omits => {
                for chunk in &chunks {
                    out.extend(self.frames.chunk(chunk));
                }
            }
            Judged::Pass(json) => out.extend(self.frames.chunk(&json)),
            Judged::Refused(reason) => out.extend(self.refuse(&reason)),
        }
        if !self.ended {
            out.extend(self.end());
        }
        Ok(out.freeze())
    }

    /// One last chunk with the reason; the rest is never asked for.
    fn refuse(&mut self, reason: &Reason) -> Bytes {
        self.source = Source::Known(VecDeque::new());
        self.waiting.clear();
        let message = self.teller.message(reason).to_string();
        let mut out = BytesMut::from(self.frames.chunk(message.as_bytes()).as_ref());
        out.extend(self.end());
        out.freeze()
    }

    fn end(&mut self) -> Bytes {
        self.ended = true;
        self.frames.end()
    }
}

fn too_large(error: &sse::TooLarge) -> ApiError {
    tracing::warn!(%error, "the answer cannot be read");
    unreadable()
}

/// Whether a chunk may say why the answer ends.
fn says_it_finishes(data: &[u8]) -> bool {
    let has = |key: &str| memchr::memmem::find(data, key.as_bytes()).is_some();
    has("finishReason") || has("finish_reason")
}

fn is_chunk(data: &Bytes) -> bool {
    data.trim_ascii() != DONE
}
