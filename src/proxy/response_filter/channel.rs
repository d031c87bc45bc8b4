//! Passes the chunks of a stream from the pipeline to the response body, one at a time.
//!
//! The receiver owns and polls the pipeline, so both ends run in one task: nothing is read from
//! upstream before the agent's connection has taken the previous chunk, and dropping the body
//! drops the pipeline and with it the call to upstream.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode};

use crate::{error::ApiError, proxy::reply::Reply};

/// A hooked call in progress. Returns the reply, or the rest of it if a part is streamed already.
pub type Pipeline = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send>>;

/// Creates both ends of a channel.
pub fn channel() -> (ChunkSender, ChunkReceiver) {
    let slot = Arc::new(Mutex::new(Slot::default()));
    (ChunkSender(Arc::clone(&slot)), ChunkReceiver(slot))
}

#[derive(Debug, Default)]
struct Slot {
    head: Option<(StatusCode, HeaderMap)>,
    chunk: Option<Bytes>,
}

/// Sending end, held by the pipeline.
#[derive(Debug)]
pub struct ChunkSender(Arc<Mutex<Slot>>);

/// Receiving end, held by the response body.
#[derive(Debug)]
pub struct ChunkReceiver(Arc<Mutex<Slot>>);

impl ChunkSender {
    /// Sends status and headers of the stream.
    pub fn send_head(&self, status: StatusCode, headers: HeaderMap) {
        lock(&self.0).head = Some((status, headers));
    }

    /// Sends a chunk and waits until the receiver has taken it. Needs no waker, because the
    /// receiver polls the pipeline again after it has taken the chunk.
    pub async fn send(&self, chunk: Bytes) {
        lock(&self.0).chunk = Some(chunk);
        poll_fn(|_| {
            if lock(&self.0).chunk.is_some() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

/// Progress of a streaming pipeline.
pub enum PipelineEvent {
    /// The next chunk of the stream.
    Chunk(Bytes),
    /// The pipeline has ended.
    Finished(Result<Reply, ApiError>),
}

/// Runs a pipeline and yields its chunks, then its end.
pub struct PipelineStream {
    pipeline: Option<Pipeline>,
    receiver: ChunkReceiver,
}

impl PipelineStream {
    pub const fn new(pipeline: Pipeline, receiver: ChunkReceiver) -> Self {
        let pipeline = Some(pipeline);
        Self { pipeline, receiver }
    }

    /// Takes status and headers, once the pipeline has sent them.
    pub fn take_head(&self) -> Option<(StatusCode, HeaderMap)> {
        lock(&self.receiver.0).head.take()
    }
}

impl Stream for PipelineStream {
    type Item = PipelineEvent;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<PipelineEvent>> {
        let Some(pipeline) = &mut self.pipeline else {
            return Poll::Ready(None);
        };
        let polled = pipeline.as_mut().poll(context);
        if let Poll::Ready(result) = polled {
            self.pipeline = None;
            return Poll::Ready(Some(PipelineEvent::Finished(result)));
        }
        match lock(&self.receiver.0).chunk.take() {
            Some(chunk) => Poll::Ready(Some(PipelineEvent::Chunk(chunk))),
            None => Poll::Pending,
        }
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
