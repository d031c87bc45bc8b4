//! Filters a streamed response, chunk by chunk or as a whole.

use std::ops::ControlFlow::{self, Break, Continue};

use bytes::Bytes;

use super::{
    chunk_source::ChunkSource,
    output::Output,
    refusal::Refusal,
    response_buffer::{Admitted, ResponseBuffer},
    text_ends::TextEnds,
};
use crate::{
    config::AfterModelMode,
    dialect::{DialectError, ResponseDocument},
    error::ApiError,
    policy::ChunkPosition,
    proxy::{
        earlier_responses,
        reply::{unreadable, unreadable_response},
        turn_state::TurnState,
    },
    upstream::{UpstreamError, UpstreamResponse},
};

/// Filters the response and writes what may pass. Breaks if the response is refused.
pub async fn filter(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    answer: UpstreamResponse,
    output: &mut Output,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let source = ChunkSource::open(turn.context, answer).await?;
    match turn.context.snapshot.config.after_model {
        AfterModelMode::Chunk => filter_chunks(turn, buffer, source, output).await,
        AfterModelMode::Buffered => Box::pin(filter_buffered(turn, buffer, source)).await,
    }
}

/// Filters chunk by chunk. What has passed goes out before hooks are awaited.
async fn filter_chunks(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    mut source: ChunkSource,
    output: &mut Output,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let mut reader = turn.context.dialect.chunk_reader();
    let mut ends = TextEnds::default();
    while source.fill().await? {
        while let Some(data) = source.waiting.pop_front() {
            earlier_responses::record(turn.context, &data);
            let chunk = reader.read(data).transpose();
            let is_immediate =
                matches!(&chunk, Some(Ok(chunk)) if buffer.filter.is_immediate(chunk));
            if chunk.is_some() && !is_immediate {
                output.flush().await;
            }
            match chunk.transpose().map_err(unreadable_response)? {
                Some(chunk) => ends.push(chunk),
                // What is collected is no text.
                None => ends.end(),
            }
            let filtered = filter_ready(turn, buffer, &mut source, &mut ends, output).await?;
            if let Break(refusal) = filtered {
                return Ok(Break(refusal));
            }
        }
        output.flush().await;
    }
    ends.end();
    if let Break(refusal) = filter_ready(turn, buffer, &mut source, &mut ends, output).await? {
        return Ok(Break(refusal));
    }
    if source.is_terminated {
        reader.read_terminator().map_err(unreadable_response)?;
    }
    let last = reader.finish();
    if let Some(chunk) = last.map_err(unreadable_response)? {
        let admitted = buffer.push(chunk, ChunkPosition::Last).await?;
        if let Break(refusal) = write(turn, buffer, admitted, output)? {
            return Ok(Break(refusal));
        }
    }
    let admitted = Box::pin(buffer.finish()).await?;
    write(turn, buffer, admitted, output)
}

/// Filters the chunks that do not wait for the next text, and writes what may pass.
async fn filter_ready(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    source: &mut ChunkSource,
    ends: &mut TextEnds,
    output: &mut Output,
) -> Result<ControlFlow<Refusal>, ApiError> {
    while let Some(chunk) = ends.pop(&buffer.filter)? {
        if let Break(refusal) = release_in_front(turn, buffer, &chunk, output).await? {
            return Ok(Break(refusal));
        }
        let position = position(buffer, &chunk, ends, source).await?;
        let admitted = buffer.push(chunk, position).await?;
        if let Break(refusal) = write(turn, buffer, admitted, output)? {
            return Ok(Break(refusal));
        }
    }
    Ok(Continue(()))
}

/// Writes what policies hold back in front of an error that ends the response. Text in the error's
/// chunk may complete a secret, so that policies then search both as one.
async fn release_in_front(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    chunk: &ResponseDocument,
    output: &mut Output,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let has_error = chunk.has_error().map_err(unreadable_response)?;
    if !has_error || chunk.has_filled_part() {
        return Ok(Continue(()));
    }
    let admitted = Box::pin(buffer.finish()).await?;
    write(turn, buffer, admitted, output)
}

/// Writes the chunks that are admitted, once what is held back is counted.
fn write(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    admitted: Admitted,
    output: &mut Output,
) -> Result<ControlFlow<Refusal>, ApiError> {
    match admitted {
        Continue(chunks) => {
            buffer.reserve()?;
            output.write(turn, chunks)?;
            Ok(Continue(()))
        }
        Break(refusal) => Ok(Break(refusal)),
    }
}

/// Returns whether `chunk` is the last chunk, with which policies must release what they hold
/// back. Some models set a finish reason in every chunk, so only the next chunk shows it; no
/// other chunk waits for the next one.
async fn position(
    buffer: &ResponseBuffer<'_>,
    chunk: &ResponseDocument,
    ends: &TextEnds,
    source: &mut ChunkSource,
) -> Result<ChunkPosition, ApiError> {
    let has_error = chunk.has_error().map_err(unreadable_response)?;
    let may_be_last = buffer.filter.has_policies() && chunk.has_finish_reason() && ends.is_empty();
    if has_error || may_be_last && !source.fill().await? {
        return Ok(ChunkPosition::Last);
    }
    Ok(ChunkPosition::Chunk)
}

/// Filters all chunks as one response. If it is left as it is, the chunks pass as they came.
async fn filter_buffered(
    turn: &TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    mut source: ChunkSource,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut size = 0;
    let is_stream = source.is_stream();
    while source.fill().await? {
        let bytes: usize = source.waiting.iter().map(Bytes::len).sum();
        let parsed = source.waiting.len() * ResponseDocument::PARSED_BYTES;
        let reserved = if is_stream { bytes } else { 0 };
        turn.context.reserve_memory(reserved + parsed)?;
        size += bytes + parsed;
        let limit = turn.context.snapshot.config.limits.response;
        if size > limit {
            return Err(UpstreamError::TooLarge { limit }.into());
        }
        chunks.extend(source.waiting.drain(..));
    }
    let mut reader = turn.context.dialect.chunk_reader();
    let read = chunks.into_iter().map(|chunk| {
        earlier_responses::record(turn.context, &chunk);
        reader.read(chunk)
    });
    let read: Result<Vec<_>, DialectError> = read.collect();
    let read = read.and_then(|chunks| {
        if source.is_terminated {
            reader.read_terminator()?;
        }
        Ok((chunks, reader.finish()?))
    });
    let (chunks, last) = read.map_err(unreadable_response)?;
    let chunks: Vec<ResponseDocument> = chunks.into_iter().chain([last]).flatten().collect();
    let whole = ResponseDocument::merge(chunks.clone()).map_err(|_| unreadable())?;
    let merged = whole.original_bytes();
    if let Break(refusal) = buffer.push_whole(whole).await? {
        return Ok(Break(refusal));
    }
    buffer.hold_chunks_of(&merged, chunks);
    Ok(Continue(()))
}
