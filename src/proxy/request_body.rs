//! Reading a request's body: of a bounded size, each piece within a time, and
//! decoded if it is compressed.

use std::{mem, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header, request::Parts};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::{
    config::Limits,
    state::{ApiError, ErrorReason, hold},
    upstream::{
        content_headers::{self, ContentEncoding, MediaType},
        decompress::{BoundedGunzip, DecompressError},
    },
};

/// How much more than the limit is read and thrown away, so that an agent that
/// sends before it listens still hears why its request is refused.
const DRAINED: usize = 64 * 1024 * 1024;

/// How much room is made at once for what is announced, and how many times of what
/// has come if that is more. Room costs memory only once something is in it; what
/// is there must be copied each time that it moves to a larger one.
const AHEAD: usize = 1024 * 1024;
const TIMES_AHEAD: usize = 8;

/// A body of so many bytes that comes in one piece stays where it was read. A
/// smaller one is copied, or it would keep all the room that is there for reading.
const LARGE: usize = 16 * 1024;

/// The whole body, decoded, within `limits`; `patience` is for each piece. A body
/// that by its head's word is no JSON is refused.
pub(super) async fn read(
    mut body: Body,
    head: &Parts,
    limits: &Limits,
    patience: Duration,
) -> Result<Bytes, ApiError> {
    let limit = limits.body;
    let whole = Whole::begin(&head.headers, limit);
    let (mut seen, mut counted) = (0, 0);
    let mut whole = whole?;
    loop {
        let frame = timeout(patience, body.frame()).await;
        let frame = match frame.map_err(|_elapsed| stalled())? {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(ApiError::broken_body(&error)),
            None => break,
        };
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        seen += piece.len();
        if seen > limit.saturating_add(DRAINED) {
            break;
        }
        whole.take(piece, seen)?;
        let new = whole.len() - counted;
        counted += new;
        hold(head, new, limits.memory)?;
    }
    whole.finish()
}

/// A body, as far as it was read.
enum Whole {
    /// Not compressed.
    Plain(Pieces, usize),
    /// Compressed.
    Gzip(Box<BoundedGunzip>, usize),
    /// Too large: the rest is thrown away.
    TooLarge(usize),
}

impl Whole {
    fn begin(headers: &HeaderMap, limit: usize) -> Result<Self, ApiError> {
        if content_headers::media_type(headers) != MediaType::Json {
            let message = "a model call is `content-type: application/json`, in UTF-8";
            return Err(ApiError::new(ErrorReason::BadContentType, message));
        }
        match content_headers::encoding(headers) {
            ContentEncoding::Identity => {
                // What is announced need not come.
                let expected = declared_length(headers).unwrap_or_default();
                let pieces = Pieces {
                    expected: expected.min(limit),
                    ..Pieces::default()
                };
                Ok(Self::Plain(pieces, limit))
            }
            ContentEncoding::Gzip => Ok(Self::Gzip(Box::new(BoundedGunzip::new(limit)), limit)),
            ContentEncoding::Other => {
                let message = "the only `content-encoding` here is `gzip`";
                Err(ApiError::new(ErrorReason::UnsupportedMediaType, message))
            }
        }
    }

    /// Takes in a piece; with it, `seen` bytes have come.
    fn take(&mut self, piece: Bytes, seen: usize) -> Result<(), ApiError> {
        match self {
            Self::Plain(_, limit) | Self::Gzip(_, limit) if seen > *limit => {
                *self = Self::TooLarge(*limit);
            }
            Self::Plain(pieces, _) => pieces.push(piece),
            Self::Gzip(gunzip, limit) => match gunzip.push(&piece) {
                Ok(()) => (),
                Err(DecompressError::TooLarge(_)) => *self = Self::TooLarge(*limit),
                Err(DecompressError::Invalid) => return Err(no_gzip()),
            },
            Self::TooLarge(_) => (),
        }
        Ok(())
    }

    /// How many bytes it holds; no fewer than before.
    fn len(&self) -> usize {
        match self {
            Self::Plain(pieces, _) => pieces.len(),
            Self::Gzip(gunzip, _) => gunzip.len(),
            Self::TooLarge(limit) => *limit,
        }
    }

    fn finish(self) -> Result<Bytes, ApiError> {
        match self {
            Self::Plain(pieces, _) => Ok(pieces.join()),
            Self::Gzip(gunzip, _) => gunzip.finish().map_err(|error| match error {
                DecompressError::TooLarge(limit) => too_large(limit),
                DecompressError::Invalid => no_gzip(),
            }),
            Self::TooLarge(limit) => Err(too_large(limit)),
        }
    }
}

/// Pieces of a body that become one.
#[derive(Default)]
struct Pieces {
    /// How many bytes are announced.
    expected: usize,
    /// All of them, if they came at once.
    only: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 && piece.len() == self.expected && piece.len() >= LARGE {
            self.only = piece;
            return;
        }
        let only = mem::take(&mut self.only);
        let all = self.joined.len() + only.len() + piece.len();
        if all > self.joined.capacity() {
            let ahead = all.saturating_mul(TIMES_AHEAD).max(AHEAD);
            let room = ahead.min(self.expected).max(all);
            self.joined.reserve(room - self.joined.len());
        }
        self.joined.extend_from_slice(&only);
        self.joined.extend_from_slice(&piece);
    }

    fn len(&self) -> usize {
        self.only.len() + self.joined.len()
    }

    fn join(self) -> Bytes {
        if self.only.is_empty() {
            self.joined.freeze()
        } else {
            self.only
        }
    }
}

/// The body's length by its own word.
pub(super) fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// Reads a body to its end, so that the agent hears why it is refused.
pub(super) async fn drain(mut body: Body, limit: usize, patience: Duration) {
    let mut seen = 0;
    while seen <= limit.saturating_add(DRAINED)
        && let Ok(Some(Ok(frame))) = timeout(patience, body.frame()).await
    {
        seen += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// The error for a body over the limit.
pub(super) fn too_large(limit: usize) -> ApiError {
    let message = format!("the request's body is larger than {limit} bytes");
    ApiError::new(ErrorReason::BodyTooLarge, message)
}

/// The error for a body whose next piece does not come.
pub(super) fn stalled() -> ApiError {
    let message = "the request's body did not come in time";
    ApiError::new(ErrorReason::BodyTimeout, message)
}

fn no_gzip() -> ApiError {
    broken("the request's body is not the one gzip that its head promises")
}

fn broken(message: &str) -> ApiError {
    ApiError::new(ErrorReason::BodyBroken, message)
}
