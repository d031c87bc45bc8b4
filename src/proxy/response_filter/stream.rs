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
    dialect::{MergedChunks, ResponseDocument, Words},
    error::ApiError,
    hook::Progress,
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

/// Filters chunk by chunk. What waits and is nothing but text passes as such, up to the first
/// chunk that must be parsed.
async fn filter_chunks(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &mut ResponseBuffer,
    chunks: &mut ChunkQueue,
    output: &mut StreamOutput,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let mut last_text = None;
    loop {
        chunks.fill().await?;
        let is_end = chunks.waiting.is_empty();
        let opened = pass_text(
            context,
            turn,
            buffer,
            (&mut chunks.waiting, &mut last_text),
            output,
        )?;
        if let Some((data, progress)) = opened {
            output.flush().await;
            let extent = chunks.extent(buffer, &data).await?;
            let chunk = context
                .dialect
                .open_answer(data)
                .map_err(unreadable_response)?;
            // Boxed, because most chunks take the way above.
            match Box::pin(buffer.push(chunk, progress, extent)).await? {
                Continue(admitted) => output.write(context, turn, &admitted)?,
                Break(refusal) => return Ok(Break(refusal)),
            }
        }
        if is_end {
            break;
        }
        output.flush().await;
    }
    match Box::pin(buffer.finish()).await? {
        Continue(admitted) => output.write(context, turn, &admitted)?,
        Break(refusal) => return Ok(Break(refusal)),
    }
    Ok(Continue(()))
}

/// Writes chunks of nothing but text. Returns the first chunk that must be parsed, and how far
/// policies have come with it.
fn pass_text(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &mut ResponseBuffer,
    (waiting, last): (&mut VecDeque<Bytes>, &mut Option<Words>),
    output: &mut StreamOutput,
) -> Result<Option<(Bytes, Progress)>, ApiError> {
    while let Some(data) = waiting.pop_front() {
        if !buffer.takes_words() {
            return Ok(Some((data, Progress::default())));
        }
        let mut words = match context.dialect.open_words(data, last.as_ref()) {
            Ok(words) => words,
            Err(data) => return Ok(Some((data, Progress::default()))),
        };
        if let Some(progress) = buffer.take_words(&mut words) {
            return Ok(Some((words.to_bytes(), progress)));
        }
        turn.record_emitted_text(&words);
        output.write_bytes(context, &words.to_bytes())?;
        *last = Some(words);
    }
    Ok(None)
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
    let open = |chunk| {
        context
            .dialect
            .open_answer(chunk)
            .map_err(unreadable_response)
    };
    let chunks: Vec<ResponseDocument> = chunks.into_iter().map(open).collect::<Result<_, _>>()?;
    let merged = MergedChunks::of_read(chunks.clone()).map_err(|_| unreadable())?;
    let whole = ResponseDocument::parse(merged.answer.clone()).map_err(|_| unreadable())?;
    let whole = whole.wrapped_like(chunks.last());
    match buffer
        .push(whole, Progress::default(), ChunkPosition::Last)
        .await?
    {
        Continue(admitted) => buffer.hold(admitted),
        Break(refusal) => return Ok(Break(refusal)),
    }
    if !merged.omits && buffer.holds_only(&merged.answer) {
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

    /// Returns whether `data` is the last chunk, with which policies must release what they hold
    /// back. Some models set a finish reason in every chunk, so only the next chunk shows it; no
    /// other chunk waits for the next one.
    async fn extent(
        &mut self,
        buffer: &ResponseBuffer,
        data: &Bytes,
    ) -> Result<ChunkPosition, ApiError> {
        if buffer.filter.has_policies() && has_finish_reason(data) {
            self.fill().await?;
            if self.waiting.is_empty() {
                return Ok(ChunkPosition::Last);
            }
        }
        Ok(ChunkPosition::Chunk)
    }
}

fn has_finish_reason(data: &[u8]) -> bool {
    let has = |key: &str| memchr::memmem::find(data, key.as_bytes()).is_some();
    has("finishReason") || has("finish_reason")
}
