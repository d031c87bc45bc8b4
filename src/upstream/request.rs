//! Request to a model API.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method};
use hyper::body::{Frame, SizeHint};

/// Request as it is sent upstream.
#[derive(Debug)]
pub struct OutgoingRequest {
    /// HTTP method of the request.
    pub method: Method,
    /// Path and query of the request.
    pub target: String,
    /// Headers chosen by [`request_headers`](super::headers::request_headers). Values
    /// marked sensitive are configured credentials, which are masked in the response.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: RequestBody,
}

/// Body of a request to upstream.
pub struct RequestBody(BodySource);

enum BodySource {
    Buffered(Bytes),
    Streamed(Body),
    /// A stream that may be sent to another address; empty once it is being read.
    Shared(SharedBody),
}

type SharedBody = Arc<Mutex<Option<Body>>>;

impl OutgoingRequest {
    /// Splits the request into one for the first address and one to send to another
    /// address if the first has not read the body.
    pub(super) fn split(self) -> (Self, Self) {
        let (first, body) = self.body.split();
        let first = Self {
            method: self.method.clone(),
            target: self.target.clone(),
            headers: self.headers.clone(),
            body: first,
        };
        (first, Self { body, ..self })
    }
}

impl RequestBody {
    /// Returns an empty body.
    pub const fn empty() -> Self {
        Self(BodySource::Buffered(Bytes::new()))
    }

    /// Returns a body that is streamed.
    pub const fn stream(body: Body) -> Self {
        Self(BodySource::Streamed(body))
    }

    /// Whether the body is in memory, so that only upstream can delay the call.
    pub(super) const fn is_buffered(&self) -> bool {
        matches!(self.0, BodySource::Buffered(_))
    }

    pub(super) fn into_http_body(self) -> Body {
        match self.0 {
            BodySource::Buffered(bytes) if bytes.is_empty() => Body::empty(),
            BodySource::Buffered(bytes) => bytes.into(),
            BodySource::Streamed(body) => body,
            BodySource::Shared(shared) => Body::new(ReplayableBody {
                shared,
                taken: None,
            }),
        }
    }

    fn split(self) -> (Self, Self) {
        let shared = match self.0 {
            BodySource::Buffered(bytes) => {
                let first = Self(BodySource::Buffered(bytes.clone()));
                return (first, Self(BodySource::Buffered(bytes)));
            }
            BodySource::Streamed(body) => Arc::new(Mutex::new(Some(body))),
            BodySource::Shared(shared) => shared,
        };
        let first = Self(BodySource::Shared(Arc::clone(&shared)));
        (first, Self(BodySource::Shared(shared)))
    }

    /// Whether the body can still be sent from its start.
    pub(super) fn is_unread(&self) -> bool {
        match &self.0 {
            BodySource::Buffered(_) | BodySource::Streamed(_) => true,
            BodySource::Shared(shared) => {
                let body = shared.lock().unwrap_or_else(PoisonError::into_inner);
                body.is_some()
            }
        }
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self(BodySource::Buffered(bytes.into()))
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestBody")
    }
}

/// Body that takes the shared stream when it is first polled.
struct ReplayableBody {
    shared: SharedBody,
    taken: Option<Body>,
}

impl hyper::body::Body for ReplayableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.taken.is_none() {
            let body = self.shared.lock();
            let body = body.unwrap_or_else(PoisonError::into_inner).take();
            self.taken = body;
        }
        match &mut self.taken {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.taken
            .as_ref()
            .is_some_and(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.taken
            .as_ref()
            .map_or_else(SizeHint::new, hyper::body::Body::size_hint)
    }
}
