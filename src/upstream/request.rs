//! Request to a model API.

use std::sync::Arc;

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
    Streamed(Body),
}

impl RequestBody {
    pub(super) fn into_http_body(self) -> Body {
        match self {
            Self::Buffered(bytes) => bytes.into(),
            Self::Streamed(body) => body,
        }
    }

    /// Returns the body for a first address, and a function that returns it for another
    /// one, unless the first has begun to read a stream.
    pub(super) fn share(self) -> (Self, Box<dyn FnOnce() -> Option<Self> + Send>) {
        let stream = match self {
            Self::Buffered(bytes) => {
                let first = bytes.clone();
                let second = || Some(Self::Buffered(bytes));
                return (Self::Buffered(first), Box::new(second));
            }
            Self::Streamed(body) => Arc::new(Mutex::new(Some(body))),
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
        let first = Self::Streamed(Body::from_stream(pieces.flatten()));
        (first, Box::new(move || take(&unread).map(Self::Streamed)))
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self::Buffered(bytes.into())
    }
}
