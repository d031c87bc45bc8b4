//! Response of a model API: its head at once, its body as it arrives.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream, stream::BoxStream};
use http::{HeaderMap, Response, StatusCode, Version, header};
use http_body_util::BodyDataStream;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::{
    content_headers::{self, ContentEncoding},
    decompress::{BoundedGunzip, DecompressError},
    error::UpstreamError,
    key_mask::KeyMask,
};
use crate::{media_type::is_media_type, resettable_timer::ResettableTimer};

/// Most bytes that one piece of a compressed body may have once decoded, where the
/// caller sets no limit.
const MAX_DECODED_PIECE_BYTES: usize = 16 << 20;

/// Response of a model API.
pub struct UpstreamResponse {
    /// Status, from 200 to 599.
    pub status: StatusCode,
    /// Headers as received, without those that contain a configured key.
    pub headers: HeaderMap,
    body: ResponseBody,
}

/// Body of a response. It ends cleanly only if upstream ended it so.
///
/// Trailers are dropped: they could carry headers that are withheld.
pub struct ResponseBody {
    source: BodySource,
    is_ended: bool,
    idle_timeout: Duration,
    waiting_since: Option<Instant>,
    timer: ResettableTimer,
    gunzip: Option<Box<BoundedGunzip>>,
    key_mask: Option<Box<KeyMask>>,
    observers: Vec<BodyObserver>,
}

/// Source of the pieces of a body.
#[derive(Debug)]
pub(super) enum BodySource {
    /// A connection to a model API.
    Network {
        incoming: Incoming,
        version: Version,
    },
    /// Pieces of a recorded response.
    Recorded {
        /// Pieces that were not taken yet.
        pieces: VecDeque<Bytes>,
        /// True if the body was recorded to its end.
        is_complete: bool,
    },
}

impl BodySource {
    /// Returns the next piece, `None` at the end. Trailers are empty pieces.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        match self {
            Self::Network { incoming, version } => {
                let frame = ready!(Pin::new(&mut *incoming).poll_frame(context));
                Poll::Ready(match frame {
                    Some(Ok(frame)) => Some(Ok(frame.into_data().unwrap_or_default())),
                    Some(Err(error)) => Some(Err(UpstreamError::Interrupted(error.into()))),
                    // Hyper reports a reset with `NO_ERROR` as the end of the body.
                    None if *version == Version::HTTP_2 && !incoming.is_end_stream() => {
                        Some(Err(UpstreamError::StreamReset))
                    }
                    None => None,
                })
            }
            Self::Recorded {
                pieces,
                is_complete,
            } => Poll::Ready(match pieces.pop_front() {
                Some(piece) => Some(Ok(piece)),
                None if *is_complete => None,
                None => Some(Err(UpstreamError::NotRecorded)),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Network { incoming, .. } => incoming.is_end_stream(),
            Self::Recorded {
                pieces,
                is_complete,
            } => *is_complete && pieces.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Network { incoming, .. } => incoming.size_hint(),
            Self::Recorded { .. } => SizeHint::default(),
        }
    }
}

/// Callback for each piece of a body, and `None` for its clean end.
type BodyObserver = Box<dyn FnMut(Option<&Bytes>) + Send>;

impl UpstreamResponse {
    /// Wraps a response. With a `key_mask` the body is decoded, since keys are not
    /// visible in compressed bytes.
    pub(super) fn new(
        response: Response<Incoming>,
        idle_timeout: Duration,
        key_mask: Option<KeyMask>,
    ) -> Result<Self, UpstreamError> {
        let (head, incoming) = response.into_parts();
        let source = BodySource::Network {
            incoming,
            version: head.version,
        };
        let mut response = Self {
            status: head.status,
            headers: head.headers,
            body: ResponseBody::new(source, idle_timeout),
        };
        if let Some(key_mask) = key_mask {
            key_mask.remove_headers(&mut response.headers);
            response.decode(MAX_DECODED_PIECE_BYTES)?;
            response.body.key_mask = Some(Box::new(key_mask));
        }
        Ok(response)
    }

    /// Decodes the body. A piece that decodes to more than `limit` bytes is an error.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::UnsupportedEncoding`] if it is compressed other than by gzip.
    pub fn decode(&mut self, limit: usize) -> Result<(), UpstreamError> {
        match content_headers::encoding(&self.headers) {
            ContentEncoding::Identity => (),
            ContentEncoding::Gzip => {
                self.headers.remove(header::CONTENT_ENCODING);
                self.headers.remove(header::CONTENT_LENGTH);
                self.body.gunzip = Some(Box::new(BoundedGunzip::new(limit)));
            }
            ContentEncoding::Zstd | ContentEncoding::Other => {
                return Err(UpstreamError::UnsupportedEncoding);
            }
        }
        Ok(())
    }

    /// Returns a recorded response, which was masked when it was received.
    pub(super) fn recorded(status: StatusCode, headers: HeaderMap, source: BodySource) -> Self {
        Self {
            status,
            headers,
            body: ResponseBody::new(source, Duration::MAX),
        }
    }

    /// Returns whether the response has this media type, with or without parameters. One without
    /// a type has an empty one.
    pub fn has_media_type(&self, name: &str) -> bool {
        is_media_type(&self.headers, name)
    }

    /// Calls `observer` with each piece of the body, and with `None` at its clean end, which is now
    /// if the body is empty.
    #[must_use]
    pub fn with_observer(
        mut self,
        mut observer: impl FnMut(Option<&Bytes>) + Send + 'static,
    ) -> Self {
        if self.body.is_ended {
            observer(None);
            return self;
        }
        self.body.observers.push(Box::new(observer));
        self
    }

    /// Returns the body with its content encoding.
    pub fn into_body(self) -> ResponseBody {
        self.body
    }

    /// Returns the decoded body piece by piece. A piece that decodes to more than
    /// `limit` bytes is an error.
    pub fn into_decoded_stream(
        mut self,
        limit: usize,
    ) -> BoxStream<'static, Result<Bytes, UpstreamError>> {
        if let Err(error) = self.decode(limit) {
            return stream::iter([Err(error)]).boxed();
        }
        BodyDataStream::new(self.body).boxed()
    }

    /// Reads the whole decoded body. Calls `reserve` with the number of bytes of each piece
    /// before it is buffered.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::TooLarge`] if it has more than `limit` bytes.
    pub async fn read_body<E: From<UpstreamError>>(
        self,
        limit: usize,
        reserve: impl Fn(usize) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let mut pieces = self.into_decoded_stream(limit);
        let mut body = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if body.len() + piece.len() > limit {
                return Err(UpstreamError::TooLarge { limit }.into());
            }
            reserve(piece.len())?;
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}

impl ResponseBody {
    fn new(source: BodySource, idle_timeout: Duration) -> Self {
        Self {
            // An empty body is not polled.
            is_ended: source.is_end_stream(),
            source,
            idle_timeout,
            waiting_since: None,
            timer: ResettableTimer::default(),
            gunzip: None,
            key_mask: None,
            observers: Vec::new(),
        }
    }

    /// Decodes and masks one piece.
    fn process(&mut self, piece: Bytes) -> Result<Bytes, UpstreamError> {
        let piece = match &mut self.gunzip {
            None => piece,
            Some(gunzip) => {
                let decoded = match gunzip.push(&piece) {
                    Ok(()) if self.is_ended => gunzip.finish(),
                    pushed => pushed.map(|()| gunzip.take()),
                };
                decoded.map_err(|error| match error {
                    DecompressError::TooLarge(limit) => UpstreamError::TooLarge { limit },
                    DecompressError::Invalid => UpstreamError::UnsupportedEncoding,
                })?
            }
        };
        Ok(match &mut self.key_mask {
            None => piece,
            Some(key_mask) if self.is_ended => key_mask.mask_last(piece),
            Some(key_mask) => key_mask.mask(piece),
        })
    }

    fn observe(&mut self, piece: &Bytes) {
        for observer in &mut self.observers {
            if !piece.is_empty() {
                observer(Some(piece));
            }
            if self.is_ended {
                observer(None);
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = &mut *self;
        while !this.is_ended {
            let Poll::Ready(piece) = this.source.poll_piece(context) else {
                let since = *this.waiting_since.get_or_insert_with(Instant::now);
                ready!(this.timer.poll(context, since + this.idle_timeout));
                return Poll::Ready(Some(Err(UpstreamError::Timeout)));
            };
            this.waiting_since = None;
            // A consumer may not poll again after the last piece of a known length.
            this.is_ended = piece.is_none() || this.source.is_end_stream();
            let piece = match piece.transpose() {
                Ok(piece) => piece,
                Err(error) => {
                    this.is_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            let piece = this.process(piece.unwrap_or_default())?;
            this.observe(&piece);
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }

    fn size_hint(&self) -> SizeHint {
        if self.gunzip.is_some() {
            return SizeHint::default();
        }
        let held = self.key_mask.as_ref().map_or(0, |mask| mask.held_bytes());
        let hint = self.source.size_hint();
        match hint.exact() {
            Some(bytes) => SizeHint::with_exact(bytes + held as u64),
            None => hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn an_empty_body_that_is_not_polled_has_a_clean_end() {
        for (is_complete, expected) in [(true, 1), (false, 0)] {
            let source = BodySource::Recorded {
                pieces: VecDeque::new(),
                is_complete,
            };
            let mut answer =
                UpstreamResponse::recorded(StatusCode::NO_CONTENT, HeaderMap::new(), source);
            let gzip = http::HeaderValue::from_static("gzip");
            answer.headers.insert(header::CONTENT_ENCODING, gzip);
            answer.decode(9).unwrap();
            let ends = Arc::<AtomicUsize>::default();
            let seen = Arc::clone(&ends);

            let answer = answer.with_observer(move |piece| {
                assert_eq!(piece, None);
                seen.fetch_add(1, Ordering::Relaxed);
            });

            assert_eq!(answer.into_body().is_end_stream(), is_complete);
            assert_eq!(ends.load(Ordering::Relaxed), expected);
        }
    }
}
