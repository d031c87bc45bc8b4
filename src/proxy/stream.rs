//! An answer in chunks, judged chunk by chunk or as a whole.
//!
//! One task pulls, in order; nothing is read from upstream before the agent has
//! taken what came before.

use std::{collections::VecDeque, io, sync::Arc};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::{HeaderValue, header};

use super::{
    chunk_source::Source,
    exchange::{Asked, Exchange},
    keep_alive::keep_alive,
    reply::{Reply, ResponseBuilder, media_type},
    response_buffer::{Round, Taken},
    response_filter::{Gate, unreadable},
    tool_denial::Ending,
};
use crate::{
    config::AfterModelMode,
    dialect::{Document, Framing, MergedChunks, ResponseDocument, Words},
    hook::Progress,
    policy::ChunkPosition,
    state::{ApiError, hold},
    upstream::{UpstreamError, UpstreamResponse, headers, sse},
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
    pub(super) fn only(framing: Framing, document: &[u8]) -> Bytes {
        let mut frames = Self::new(framing);
        let mut out = BytesMut::new();
        frames.chunk(&mut out, document);
        out.extend_from_slice(&frames.end());
        out.freeze()
    }

    fn chunk(&mut self, out: &mut BytesMut, json: &[u8]) {
        match self.framing {
            Framing::Sse => sse::write_event(out, json),
            Framing::Array => {
                let lead = std::mem::replace(&mut self.lead, b",\r\n");
                out.extend_from_slice(lead);
                out.extend_from_slice(json);
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
    exchange: Box<Exchange>,
    answered: (UpstreamResponse, Gate),
    framing: Framing,
    teller: Arc<ResponseBuilder>,
) -> Result<Reply, ApiError> {
    let (answer, gate) = answered;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers::rewritten_response_headers(answer.headers.clone());
    let value = HeaderValue::from_static(media_type(framing));
    response.headers_mut().insert(header::CONTENT_TYPE, value);

    let interval = gate.snapshot.config.timeouts.keep_alive;
    let source = Source::open(answer, &exchange.head, &gate.snapshot.config.limits).await?;
    // Boxed, for it goes through hands with every chunk.
    let mut chunks = Box::new(Chunks {
        round: exchange.round(gate),
        exchange,
        source,
        teller,
        frames: Frames::new(framing),
        waiting: VecDeque::new(),
        open: None,
        last: None,
        ended: false,
    });
    // As long as nothing is out, an error can be told as one.
    let mut first = chunks.next().await?;
    while first.is_empty() && !chunks.ended {
        first = chunks.next().await?;
    }
    let first = stream::iter([Ok(first)]);
    let rest = stream::unfold(chunks, |mut chunks| async move {
        if chunks.ended {
            return None;
        }
        let bytes = chunks.next().await.map_err(|error| {
            chunks.ended = true;
            chunks.exchange.facts.report(&error);
            axum::Error::new(io::Error::other(error.reason().parts().2))
        });
        Some((bytes, chunks))
    });
    *response.body_mut() = Body::from_stream(first.chain(keep_alive(rest, interval)));
    Ok(Reply::Upstream(response))
}

/// A judged stream under way. Dropping it ends the call to upstream.
struct Chunks {
    exchange: Box<Exchange>,
    /// The answer that is read now.
    round: Round,
    source: Source,
    teller: Arc<ResponseBuilder>,
    frames: Frames,
    /// Read, not yet judged.
    waiting: VecDeque<Bytes>,
    /// The chunk before them, which was found to need a document, and how far
    /// policies have come with it.
    open: Option<(Bytes, Progress)>,
    /// The words that went by last.
    last: Option<Words>,
    ended: bool,
}

/// What some clients of other APIs expect at the end, and ours trip over.
const DONE: &[u8] = b"[DONE]";

impl Chunks {
    /// The next bytes for the agent, as long as it has not ended; none, if what
    /// was read has to wait.
    async fn next(&mut self) -> Result<Bytes, ApiError> {
        match self.exchange.snapshot.config.after_model {
            AfterModelMode::Chunk => self.step().await,
            AfterModelMode::Buffered => Box::pin(self.whole()).await,
        }
    }

    async fn step(&mut self) -> Result<Bytes, ApiError> {
        if self.open.is_none() {
            self.read_on().await?;
            let words = self.let_words_by()?;
            if !words.is_empty() {
                return Ok(words.freeze());
            }
        }
        // Boxed, for most chunks are words, and a future is moved as a whole.
        Box::pin(self.judge()).await
    }

    /// Judges the chunk that was opened, or what the end of the answer comes to.
    async fn judge(&mut self) -> Result<Bytes, ApiError> {
        let (taken, ended) = match self.open.take() {
            Some((data, progress)) => {
                let extent = self.extent(&data).await?;
                let chunk = self.exchange.open_answer(data)?;
                (self.round.take(chunk, progress, extent).await?, false)
            }
            None => (self.round.end().await?, true),
        };
        match taken {
            Taken::Out(chunks) => {
                let mut out = self.say(&chunks)?;
                if ended {
                    let ending = self.exchange.conclude(&self.round).await?;
                    out.extend_from_slice(&self.finish(ending).await?);
                }
                Ok(out.freeze())
            }
            Taken::Refused(refusal) => {
                let ending = self.exchange.refused(refusal);
                self.finish(ending).await
            }
        }
    }

    /// Writes what waits and is nothing but words, up to the first chunk that has to
    /// be opened.
    fn let_words_by(&mut self) -> Result<BytesMut, ApiError> {
        let mut out = BytesMut::new();
        while let Some(data) = self.waiting.pop_front() {
            if !self.round.takes_words() {
                self.open = Some((data, Progress::default()));
                break;
            }
            let mut words = match self.exchange.dialect.open_words(data, self.last.as_ref()) {
                Ok(words) => words,
                Err(data) => {
                    self.open = Some((data, Progress::default()));
                    break;
                }
            };
            if let Some(progress) = self.round.take_words(&mut words) {
                self.open = Some((words.to_bytes(), progress));
                break;
            }
            self.exchange.spoke_words(&words);
            self.write(&mut out, &words.to_bytes())?;
            self.last = Some(words);
        }
        Ok(out)
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
    async fn extent(&mut self, data: &Bytes) -> Result<ChunkPosition, ApiError> {
        if !self.round.gate.has_policies() || !says_it_finishes(data) {
            return Ok(ChunkPosition::Chunk);
        }
        self.read_on().await?;
        Ok(if self.waiting.is_empty() {
            ChunkPosition::Last
        } else {
            ChunkPosition::Chunk
        })
    }

    /// Judges all chunks as one answer. If hooks leave it as it is, and all that
    /// chunks say is in it, they go out as they came.
    async fn whole(&mut self) -> Result<Bytes, ApiError> {
        let limits = self.exchange.snapshot.config.limits;
        let limit = limits.response;
        let mut chunks: Vec<Bytes> = Vec::new();
        while let Some(events) = self.source.next().await? {
            let bytes = events.iter().map(Bytes::len).sum();
            hold(&self.exchange.head, bytes, limits.memory)?;
            chunks.extend(events.into_iter().filter(is_chunk));
            if chunks.iter().map(Bytes::len).sum::<usize>() > limit {
                return Err(UpstreamError::TooLarge { limit }.into());
            }
        }
        let chunks = chunks.into_iter().map(|it| self.exchange.open_answer(it));
        let chunks: Vec<ResponseDocument> = chunks.collect::<Result<_, _>>()?;
        let merged = MergedChunks::of_read(chunks.clone()).map_err(|_| unreadable())?;
        let whole = ResponseDocument::parse(merged.answer.clone()).map_err(|_| unreadable())?;
        let whole = whole.wrapped_like(chunks.last());
        let taken = self
            .round
            .take(whole, Progress::default(), ChunkPosition::Last);
        let ending = match taken.await? {
            Taken::Out(judged) => {
                self.round.hold(judged);
                if !merged.omits && self.round.holds_only(&merged.answer) {
                    self.round.hold_instead(chunks);
                }
                self.exchange.conclude(&self.round).await?
            }
            Taken::Refused(refusal) => self.exchange.refused(refusal),
        };
        self.finish(ending).await
    }

    /// What the end of an answer leaves to be said.
    async fn finish(&mut self, ending: Ending) -> Result<Bytes, ApiError> {
        self.exchange.settle_ending(&ending).await?;
        let mut out = BytesMut::new();
        match ending {
            Ending::Stands => {
                let held = self.round.release()?;
                out.extend_from_slice(&self.say(&held)?);
                out.extend_from_slice(&self.end(true).await);
            }
            Ending::Told(reason) => {
                let heard = self.round.release_open()?;
                out.extend_from_slice(&self.say(&heard)?);
                let reason = self.exchange.apart(&self.round, reason);
                out.extend_from_slice(&self.tell(Reply::Denied(reason)).await?);
            }
            Ending::Refused(reason) => {
                out.extend_from_slice(&self.tell(Reply::Denied(reason)).await?);
            }
            Ending::Again(document) => {
                let heard = self.round.release_open()?;
                out.extend_from_slice(&self.say(&heard)?);
                out.extend_from_slice(&self.ask_again(document).await?);
            }
        }
        Ok(out.freeze())
    }

    /// Goes on with the answer to another request.
    async fn ask_again(&mut self, document: Document) -> Result<Bytes, ApiError> {
        match Box::pin(self.exchange.ask(document)).await? {
            Asked::Answered(answer, gate) => {
                let limits = &self.exchange.snapshot.config.limits;
                self.source = Source::open(answer, &self.exchange.head, limits).await?;
                self.round = self.exchange.round(*gate);
                Ok(Bytes::new())
            }
            Asked::Told(reply) => self.tell(reply).await,
        }
    }

    /// Writes chunks for the agent.
    fn say(&mut self, chunks: &[ResponseDocument]) -> Result<BytesMut, ApiError> {
        let mut out = BytesMut::new();
        for chunk in chunks {
            self.exchange.spoke(chunk)?;
            let bytes = self.exchange.dialect.close_answer(chunk);
            self.write(&mut out, &bytes)?;
        }
        Ok(out)
    }

    fn write(&mut self, out: &mut BytesMut, chunk: &[u8]) -> Result<(), ApiError> {
        if chunk.len() > self.exchange.snapshot.config.limits.response {
            return Err(unreadable());
        }
        self.frames.chunk(out, chunk);
        Ok(())
    }

    /// The last words, in the place of all that might follow.
    async fn tell(&mut self, reply: Reply) -> Result<Bytes, ApiError> {
        self.source = Source::Known(VecDeque::new());
        self.waiting.clear();
        self.open = None;
        let words = match reply {
            Reply::Upstream(response) => Err(ApiError::upstream_status(response.status())),
            ours => self.teller.words(&ours),
        };
        let mut out = self.say(words?.as_slice())?;
        out.extend_from_slice(&self.end(false).await);
        Ok(out.freeze())
    }

    async fn end(&mut self, by_model: bool) -> Bytes {
        self.ended = true;
        self.exchange.has_spoken(by_model).await;
        self.frames.end()
    }
}

/// Whether a chunk may say why the answer ends.
fn says_it_finishes(data: &[u8]) -> bool {
    let has = |key: &str| memchr::memmem::find(data, key.as_bytes()).is_some();
    has("finishReason") || has("finish_reason")
}

fn is_chunk(data: &Bytes) -> bool {
    data.trim_ascii() != DONE
}
