//! What upstream answers: its head at once, its body as it comes.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream::BoxStream};
use http::{HeaderMap, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{UpstreamError, content_headers, decoded};
use crate::resettable_timer::ResettableTimer;

/// What upstream answers.
pub struct UpstreamResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: ResponseBody,
}

/// The body of an answer, as it is on the wire. It ends cleanly only if upstream
/// ended it so.
pub struct ResponseBody {
    incoming: Incoming,
    /// How long the next piece may take.
    idle: Duration,
    /// Since when it is waited for.
    since: Option<Instant>,
    deadline: ResettableTimer,
    /// Sees every piece before anybody else does.
    watcher: Option<Watcher>,
}

/// Somebody who sees an answer pass, and its clean end as no piece.
type Watcher = Box<dyn FnMut(Option<&[u8]>) + Send>;

impl UpstreamResponse {
    pub(super) fn new(response: Response<Incoming>, idle: Duration) -> Self {
        let (head, incoming) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body: ResponseBody {
                incoming,
                idle,
                since: None,
                deadline: ResettableTimer::default(),
                watcher: None,
            },
        }
    }

    /// The media type without parameters; empty if none is given.
    pub fn media_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE);
        let text = value.and_then(|it| it.to_str().ok()).unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim()
    }

    /// The same answer, of which `watcher` sees every piece before anybody else;
    /// and its end as no piece, if it is read so far and ends cleanly.
    #[must_use]
    pub fn with_observer(mut self, watcher: impl FnMut(Option<&[u8]>) + Send + 'static) -> Self {
        self.body.watcher = Some(Box::new(watcher));
        self
    }

    /// The body as it is on the wire.
    pub fn into_body(self) -> ResponseBody {
        self.body
    }

    /// The body piece by piece, decoded; at most `limit` bytes come of one piece.
    pub fn into_decoded_stream(
        self,
        limit: usize,
    ) -> BoxStream<'static, Result<Bytes, UpstreamError>> {
        let encoding = content_headers::encoding(&self.headers);
        decoded::decoded(BodyDataStream::new(self.body), encoding, limit)
    }

    /// The whole body, decoded, of at most `limit` bytes.
    pub async fn read_body(self, limit: usize) -> Result<Bytes, UpstreamError> {
        self.read_body_with(limit, |_| Ok(())).await
    }

    /// The same, if `admit` lets in every piece: it is told how many bytes are about
    /// to be held.
    pub async fn read_body_with<E: From<UpstreamError>>(
        self,
        limit: usize,
        admit: impl Fn(usize) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let mut pieces = self.into_decoded_stream(limit);
        let mut whole = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if whole.len() + piece.len() > limit {
                return Err(UpstreamError::TooLarge { limit }.into());
            }
            admit(piece.len())?;
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

impl fmt::Debug for UpstreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamResponse")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl ResponseBody {
    fn show(&mut self, piece: Option<&[u8]>) {
        if let Some(watcher) = &mut self.watcher {
            watcher(piece);
        }
    }

    /// Waits until the next piece has taken too long.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.deadline.poll(context, since + self.idle)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = &mut *self;
        let Poll::Ready(polled) = Pin::new(&mut this.incoming).poll_frame(context) else {
            ready!(this.poll_idle(context));
            return Poll::Ready(Some(Err(UpstreamError::Timeout)));
        };
        this.since = None;
        match &polled {
            Some(Ok(frame)) => {
                if let Some(piece) = frame.data_ref() {
                    this.show(Some(piece));
                }
                // Nobody may ask again after the last piece of a known length.
                if http_body::Body::is_end_stream(&this.incoming) {
                    this.show(None);
                    this.watcher = None;
                }
            }
            None => this.show(None),
            Some(Err(_)) => (),
        }
        Poll::Ready(polled.map(|it| it.map_err(|error| UpstreamError::Interrupted(error.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
