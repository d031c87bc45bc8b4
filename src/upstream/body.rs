//! What is sent upstream.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};

type Piece = Result<Bytes, axum::Error>;

/// The body of a request, which can be sent again as long as nobody has asked
/// for any of it.
#[derive(Clone)]
pub struct OutgoingBody(Kind);

#[derive(Clone)]
enum Kind {
    Whole(Bytes),
    /// Empty once somebody has begun to read it.
    Stream(Arc<Mutex<Option<BoxStream<'static, Piece>>>>),
}

impl OutgoingBody {
    /// No body.
    pub const fn empty() -> Self {
        Self(Kind::Whole(Bytes::new()))
    }

    /// A body that comes piece by piece.
    pub fn stream(pieces: impl Stream<Item = Piece> + Send + 'static) -> Self {
        Self(Kind::Stream(Arc::new(Mutex::new(Some(pieces.boxed())))))
    }

    /// Whether all of it is here, so that only upstream can be slow.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Whole(_))
    }

    /// For the client. Nothing is taken of a stream before it asks for it.
    pub(super) fn lend(&self) -> reqwest::Body {
        match &self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => reqwest::Body::default(),
            Kind::Whole(bytes) => bytes.clone().into(),
            Kind::Stream(shared) => reqwest::Body::wrap_stream(Lent {
                shared: Arc::clone(shared),
                taken: None,
            }),
        }
    }

    /// Whether it can be sent once more.
    pub(super) fn is_unread(&self) -> bool {
        match &self.0 {
            Kind::Whole(_) => true,
            Kind::Stream(shared) => {
                let stream = shared.lock().unwrap_or_else(PoisonError::into_inner);
                stream.is_some()
            }
        }
    }
}

impl<T: Into<Bytes>> From<T> for OutgoingBody {
    fn from(bytes: T) -> Self {
        Self(Kind::Whole(bytes.into()))
    }
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutgoingBody")
    }
}

/// Takes the stream when it is first asked for a piece.
struct Lent {
    shared: Arc<Mutex<Option<BoxStream<'static, Piece>>>>,
    taken: Option<BoxStream<'static, Piece>>,
}

impl Stream for Lent {
    type Item = Piece;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if self.taken.is_none() {
            let stream = self.shared.lock();
            let stream = stream.unwrap_or_else(PoisonError::into_inner).take();
            self.taken = stream;
        }
        match &mut self.taken {
            Some(stream) => stream.poll_next_unpin(context),
            None => Poll::Ready(None),
        }
    }
}
