//! Request to a model API.

use std::{
    convert::Infallible,
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, header::CONTENT_LENGTH, uri::PathAndQuery};
use tokio::time::Instant;

use crate::mutex::Mutex;

/// Request as it is sent upstream.
pub struct OutgoingRequest {
    /// HTTP method of the request.
    pub method: Method,
    /// Path and query of the request.
    pub target: PathAndQuery,
    /// Headers chosen by [`request_headers`](super::headers::request_headers). Values
    /// marked sensitive are configured credentials, which are masked in the response.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: RequestBody,
}

impl OutgoingRequest {
    /// Makes a body in memory a stream, which is complete when it is sent: over HTTP/2 a call may
    /// wait for a free stream. An empty body stays, because it is never read.
    pub(super) fn stream_body(&mut self) {
        let RequestBody::Buffered(bytes) = &mut self.body else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        self.headers.insert(CONTENT_LENGTH, bytes.len().into());
        let (bytes, progress) = (mem::take(bytes), BodyProgress::default());
        let sent = progress.clone();
        let piece = async move {
            sent.complete();
            Ok::<_, Infallible>(bytes)
        };
        let body = Body::from_stream(stream::once(piece));
        self.body = RequestBody::Streamed { body, progress };
    }
}

/// Body of a request to upstream.
pub enum RequestBody {
    /// The body is in memory, so that only upstream can delay the call.
    Buffered(Bytes),
    /// The body is sent as it arrives from the agent.
    Streamed {
        /// The body as it arrives.
        body: Body,
        /// Part of it that has arrived.
        progress: BodyProgress,
    },
}

/// Part of a streamed body that has arrived. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct BodyProgress {
    bytes: Arc<AtomicUsize>,
    completed: Arc<Mutex<Option<Instant>>>,
}

impl BodyProgress {
    /// Adds a piece. Returns the number of bytes so far.
    pub fn add(&self, bytes: usize) -> usize {
        self.bytes.fetch_add(bytes, Relaxed) + bytes
    }

    /// Marks that all of it has arrived. From then on, only upstream can delay the call.
    pub fn complete(&self) {
        self.completed.lock().get_or_insert_with(Instant::now);
    }
}

impl RequestBody {
    /// Returns the number of bytes, which grows while a streamed body arrives.
    pub fn size(&self) -> Arc<AtomicUsize> {
        match self {
            Self::Buffered(bytes) => Arc::new(bytes.len().into()),
            Self::Streamed { progress, .. } => Arc::clone(&progress.bytes),
        }
    }

    pub(super) fn into_http_body(self) -> Body {
        match self {
            Self::Buffered(bytes) => bytes.into(),
            Self::Streamed { body, .. } => body,
        }
    }

    /// Returns the time at which all of the body had arrived, which is set then.
    pub(super) fn completed(&self) -> Arc<Mutex<Option<Instant>>> {
        match self {
            Self::Buffered(_) => Arc::new(Mutex::new(Some(Instant::now()))),
            Self::Streamed { progress, .. } => Arc::clone(&progress.completed),
        }
    }

    /// Returns the body for a first address, and a function that returns it for another
    /// one, unless the first has begun to read a stream.
    pub(super) fn share(self) -> (Self, Box<dyn FnOnce() -> Option<Self> + Send>) {
        let (stream, progress) = match self {
            Self::Buffered(bytes) => {
                let first = bytes.clone();
                let second = || Some(Self::Buffered(bytes));
                return (Self::Buffered(first), Box::new(second));
            }
            Self::Streamed { body, progress } => (Arc::new(Mutex::new(Some(body))), progress),
        };
        let unread = Arc::clone(&stream);
        let take = |stream: &Mutex<Option<Body>>| {
            let mut stream = stream.lock();
            stream.take()
        };
        let pieces = stream::once(async move {
            let body = take(&stream);
            body.unwrap_or_default().into_data_stream()
        });
        let streamed = move |body| Self::Streamed { body, progress };
        let first = streamed.clone()(Body::from_stream(pieces.flatten()));
        (first, Box::new(move || take(&unread).map(streamed)))
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self::Buffered(bytes.into())
    }
}
