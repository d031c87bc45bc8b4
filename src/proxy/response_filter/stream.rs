//! Filters a streamed response, chunk by chunk or as a whole.

use std::{
    collections::VecDeque,
    ops::ControlFlow::{self, Break, Continue},
};

use bytes::Bytes;

use super::{
    chunk_source::ChunkSource, filter::Refusal, output::StreamOutput,
    response_buffer::ResponseBuffer,
};
use crate::{
    config::AfterModelMode,
    dialect::{ChunkReader, MergedChunks, ResponseDocument},
    error::ApiError,
    middleware::reserve_memory,
    policy::ChunkPosition,
    proxy::{
        reply::{unreadable, unreadable_response},
        request_context::RequestContext,
        turn_state::TurnState,
    },
    upstream::{UpstreamError, UpstreamResponse},
};

/// Filters the response and writes what may pass. Breaks if the response is refused.
pub async fn filter(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &mut ResponseBuffer,
    answer: UpstreamResponse,
    output: &mut StreamOutput,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let config = &context.snapshot.config;
    let source = ChunkSource::open(answer, &context.head, &config.limits).await?;
    match config.after_model {
        AfterModelMode::Chunk => {
            let mut chunks = ChunkQueue {
                source,
                waiting: VecDeque::new(),
            };
            filter_chunks(context, turn, buffer, &mut chunks, output).await
        }
        AfterModelMode::Buffered => Box::pin(filter_whole(context, buffer, source)).await,
    }
}

/// Filters chunk by chunk. What has passed goes out before hooks are awaited.
async fn filter_chunks(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &mut ResponseBuffer,
    chunks: &mut ChunkQueue,
    output: &mut StreamOutput,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let mut reader = ChunkReader::new(context.dialect.response_envelope());
    loop {
        chunks.fill().await?;
        if chunks.waiting.is_empty() {
            break;
        }
        while let Some(data) = chunks.waiting.pop_front() {
            let chunk = reader.read(data);
            let is_immediate = matches!(&chunk, Ok(chunk) if buffer.filter.is_immediate(chunk));
            if !is_immediate {
                output.flush().await;
            }
            let chunk = chunk.map_err(|error| unreadable_response(&error))?;
            let position = chunks.position(buffer, &chunk).await?;
            match buffer.push(chunk, position).await? {
                Continue(admitted) => output.write(context, turn, &admitted)?,
                Break(refusal) => return Ok(Break(refusal)),
            }
        }
        output.flush().await;
    }
    match Box::pin(buffer.finish()).await? {
        Continue(admitted) => output.write(context, turn, &admitted)?,
        Break(refusal) => return Ok(Break(refusal)),
    }
    Ok(Continue(()))
}

/// Filters all chunks as one response. If it is left as it is and contains all that the chunks
/// do, the chunks pass as they came.
async fn filter_whole(
    context: &RequestContext,
    buffer: &mut ResponseBuffer,
    mut source: ChunkSource,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let limits = &context.snapshot.config.limits;
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut size = 0;
    while let Some(events) = source.next().await? {
        let bytes = events.iter().map(Bytes::len).sum();
        reserve_memory(&context.head, bytes, limits.memory)?;
        size += bytes;
        if size > limits.response {
            let limit = limits.response;
            return Err(UpstreamError::TooLarge { limit }.into());
        }
        chunks.extend(events);
    }
    let envelope = context.dialect.response_envelope();
    let open = |chunk| {
        ResponseDocument::open(chunk, envelope).map_err(|error| unreadable_response(&error))
    };
    let chunks: Vec<ResponseDocument> = chunks.into_iter().map(open).collect::<Result<_, _>>()?;
    let merged = MergedChunks::new(chunks.clone()).map_err(|_| unreadable())?;
    let whole = ResponseDocument::parse(merged.response.clone()).map_err(|_| unreadable())?;
    let whole = whole.in_envelope_of(chunks.last());
    match buffer.push(whole, ChunkPosition::Last).await? {
        Continue(admitted) => buffer.hold(admitted),
        Break(refusal) => return Ok(Break(refusal)),
    }
    if !merged.is_lossy && buffer.holds_only(&merged.response) {
        buffer.hold_instead(chunks);
    }
    Ok(Continue(()))
}

/// Chunks that are read, and where more come from.
struct ChunkQueue {
    source: ChunkSource,
    waiting: VecDeque<Bytes>,
}

impl ChunkQueue {
    /// Reads until a chunk waits, or the response ends.
    async fn fill(&mut self) -> Result<(), ApiError> {
        while self.waiting.is_empty()
            && let Some(events) = self.source.next().await?
        {
            self.waiting.extend(events);
        }
        Ok(())
    }

    /// Returns whether `chunk` is the last chunk, with which policies must release what they hold
    /// back. Some models set a finish reason in every chunk, so only the next chunk shows it; no
    /// other chunk waits for the next one.
    async fn position(
        &mut self,
        buffer: &ResponseBuffer,
        chunk: &ResponseDocument,
    ) -> Result<ChunkPosition, ApiError> {
        if buffer.filter.has_policies() && chunk.has_finish_reason() {
            self.fill().await?;
            if self.waiting.is_empty() {
                return Ok(ChunkPosition::Last);
            }
        }
        Ok(ChunkPosition::Chunk)
    }
}
