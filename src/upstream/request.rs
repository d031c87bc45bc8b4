//! What is sent upstream.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of a request.
pub struct RequestBody(Kind);

enum Kind {
    Whole(Bytes),
    Stream(Body),
    /// A stream that was lent; empty once somebody has begun to read it.
    Lent(Arc<Mutex<Option<Body>>>),
}

impl RequestBody {
    /// No body.
    pub const fn empty() -> Self {
        Self(Kind::Whole(Bytes::new()))
    }

    /// A body that comes piece by piece.
    pub const fn stream(body: Body) -> Self {
        Self(Kind::Stream(body))
    }

    /// Whether all of it is here, so that only upstream can be slow.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Whole(_))
    }

    /// For a client that is the only one to be asked.
    pub(super) fn give(self) -> Body {
        match self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Body::empty(),
            Kind::Whole(bytes) => bytes.into(),
            Kind::Stream(body) => body,
            Kind::Lent(shared) => lent(shared),
        }
    }

    /// For a client that may not be the only one: it can be sent again as long as
    /// nobody has asked for any of it.
    pub(super) fn lend(self) -> (Self, Self) {
        let shared = match self.0 {
            Kind::Whole(bytes) => {
                return (Self(Kind::Whole(bytes.clone())), Self(Kind::Whole(bytes)));
            }
            Kind::Stream(body) => Arc::new(Mutex::new(Some(body))),
            Kind::Lent(shared) => shared,
        };
        let lent = Self(Kind::Lent(Arc::clone(&shared)));
        (lent, Self(Kind::Lent(shared)))
    }

    /// Whether it can be sent once more.
    pub(super) fn is_unread(&self) -> bool {
        match &self.0 {
            Kind::Whole(_) | Kind::Stream(_) => true,
            Kind::Lent(shared) => {
                let stream = shared.lock().unwrap_or_else(PoisonError::into_inner);
                stream.is_some()
            }
        }
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self(Kind::Whole(bytes.into()))
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestBody")
    }
}

/// Takes the body when it is first asked for a piece.
struct Lent {
    shared: Arc<Mutex<Option<Body>>>,
    taken: Option<Body>,
}

fn lent(shared: Arc<Mutex<Option<Body>>>) -> Body {
    let taken = None;
    Body::new(Lent { shared, taken })
}

impl http_body::Body for Lent {
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
            .is_some_and(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.taken
            .as_ref()
            .map_or_else(SizeHint::new, http_body::Body::size_hint)
    }
}
