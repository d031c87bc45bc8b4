//! Request to a model API.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, uri::PathAndQuery};

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

/// Body of a request to upstream.
pub enum RequestBody {
    /// The body is in memory, so that only upstream can delay the call.
    Buffered(Bytes),
    /// The body is sent as it arrives from the agent.
    Streamed {
        /// The body as it arrives.
        body: Body,
        /// Set once the agent has sent all of it. From then on, only upstream can delay the call.
        is_complete: Arc<AtomicBool>,
    },
}

impl RequestBody {
    pub(super) fn into_http_body(self) -> Body {
        match self {
            Self::Buffered(bytes) => bytes.into(),
            Self::Streamed { body, .. } => body,
        }
    }

    /// Returns a function that returns whether the agent has sent all of the body.
    pub(super) fn completion(&self) -> impl Fn() -> bool + use<> {
        let is_complete = match self {
            Self::Buffered(_) => None,
            Self::Streamed { is_complete, .. } => Some(Arc::clone(is_complete)),
        };
        move || is_complete.as_ref().is_none_or(|flag| flag.load(Relaxed))
    }

    /// Returns the body for a first address, and a function that returns it for another
    /// one, unless the first has begun to read a stream.
    pub(super) fn share(self) -> (Self, Box<dyn FnOnce() -> Option<Self> + Send>) {
        let (stream, is_complete) = match self {
            Self::Buffered(bytes) => {
                let first = bytes.clone();
                let second = || Some(Self::Buffered(bytes));
                return (Self::Buffered(first), Box::new(second));
            }
            Self::Streamed { body, is_complete } => (Arc::new(Mutex::new(Some(body))), is_complete),
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
        let streamed = move |body| Self::Streamed { body, is_complete };
        let first = streamed.clone()(Body::from_stream(pieces.flatten()));
        (first, Box::new(move || take(&unread).map(streamed)))
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self::Buffered(bytes.into())
    }
}
