//! Passes the chunks of a stream from the pipeline to the response body, one at a time.
//!
//! The response body owns and polls the pipeline, so both ends run in one task: nothing is read
//! from upstream before the agent's connection has taken the previous chunk, and dropping the
//! body drops the pipeline and with it the call to upstream.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, StatusCode};

use crate::{error::ApiError, mutex::Mutex, proxy::reply::Reply};

/// A hooked call in progress. Returns the reply; `None` if all of it is streamed.
pub type Pipeline = Pin<Box<dyn Future<Output = Result<Option<Reply>, ApiError>> + Send>>;

/// The head and the next chunk of a stream. Clones are ends of the same channel.
#[derive(Debug, Clone, Default)]
pub struct ChunkChannel(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    head: Option<(StatusCode, HeaderMap)>,
    chunk: Option<Bytes>,
    /// True if status 200 and keep-alives went out before the pipeline had a result.
    is_announced: bool,
}

impl ChunkChannel {
    /// Sends status and headers of the stream.
    pub fn send_head(&self, status: StatusCode, headers: HeaderMap) {
        self.0.lock().head = Some((status, headers));
    }

    /// Takes status and headers, once the pipeline has sent them.
    pub fn take_head(&self) -> Option<(StatusCode, HeaderMap)> {
        self.0.lock().head.take()
    }

    /// Marks that status 200 went out early: what follows must be whole chunks, between which
    /// keep-alives are sent.
    pub fn announce(&self) {
        self.0.lock().is_announced = true;
    }

    /// Returns whether status 200 went out early.
    pub fn is_announced(&self) -> bool {
        self.0.lock().is_announced
    }

    /// Sends a chunk and waits until the receiver has taken it. Needs no waker, because the
    /// receiver polls the pipeline again after it has taken the chunk.
    pub async fn send(&self, chunk: Bytes) {
        self.0.lock().chunk = Some(chunk);
        poll_fn(|_| match self.0.lock().chunk {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        })
        .await;
    }

    /// Runs a pipeline that sends into this channel. Yields its chunks, then its end.
    pub fn run(self, pipeline: Pipeline) -> impl Stream<Item = PipelineEvent> + Send + Unpin {
        let mut pipeline = Some(pipeline);
        stream::poll_fn(move |context| {
            let Some(running) = &mut pipeline else {
                return Poll::Ready(None);
            };
            if let Poll::Ready(result) = running.as_mut().poll(context) {
                pipeline = None;
                return Poll::Ready(Some(PipelineEvent::Finished(result)));
            }
            match self.0.lock().chunk.take() {
                Some(chunk) => Poll::Ready(Some(PipelineEvent::Chunk(chunk))),
                None => Poll::Pending,
            }
        })
    }
}

/// Progress of a streaming pipeline.
pub enum PipelineEvent {
    /// The next chunk of the stream.
    Chunk(Bytes),
    /// The pipeline has ended.
    Finished(Result<Option<Reply>, ApiError>),
}
