//! Reads request bodies within limits of size and time, and decodes them.

use std::{mem, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header, request::Parts};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{
    cache_owner, model_request::ModelRequest, request_context::RequestContext,
    session_name::SessionName,
};
use crate::{
    config::Limits,
    dialect::{self, Call, Document},
    error::{ApiError, ErrorReason},
    middleware::reserve_memory,
    observe::recorder::ExchangeEvent,
    upstream::{
        content_headers::{self, ContentEncoding, MediaType},
        decompress::{BoundedGunzip, DecompressError},
    },
};

/// Bytes beyond the limit that are read and discarded, so that an agent that sends its whole
/// request before it reads still receives the error.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;

/// Capacity that is reserved at once for a body of known length, or this multiple of what has
/// arrived if that is more. Capacity costs memory only once it is used; growing copies.
const RESERVED_BYTES: usize = 1024 * 1024;
const RESERVED_FACTOR: usize = 8;

/// A body of at least this size that arrives in one piece is not copied. A smaller one is: it
/// would keep the whole read buffer alive.
const MIN_UNCOPIED_BYTES: usize = 16 * 1024;

/// Reads the request of a hooked call.
///
/// # Errors
///
/// If the body is too large, late, not one unambiguous JSON object, or uses cached content of
/// another caller.
pub(super) async fn read_request(
    context: &RequestContext,
    mut call: Call,
    body: Body,
) -> Result<ModelRequest, ApiError> {
    let config = &context.snapshot.config;
    let bytes = read(body, &context.head, &config.limits, config.timeouts.body).await?;
    let opened = context
        .dialect
        .open_request(&mut call, Document::parse(bytes)?)?;
    let named = context.session_name.clone();
    let session_name = named.or_else(|| opened.session.and_then(SessionName::from_body));
    let session_id = session_name.as_ref().map(|name| name.id.as_str());
    context.recorder.record(&ExchangeEvent::CallRead {
        operation: call.label(),
        model: call.model_name(),
        session_id: session_id.unwrap_or_default(),
    });
    if let Some(cache) = dialect::cached_content(&opened.document)? {
        cache_owner::check(context, &cache)?;
    }
    Ok(ModelRequest {
        expectation: dialect::expected_response(&opened.document)?,
        document: opened.document,
        envelope: opened.envelope,
        call,
        session_name,
    })
}

/// Reads the whole body and decodes it. `read_timeout` is for each piece.
pub(super) async fn read(
    mut body: Body,
    head: &Parts,
    limits: &Limits,
    read_timeout: Duration,
) -> Result<Bytes, ApiError> {
    let limit = limits.body;
    let mut reader = BodyReader::new(&head.headers, limit)?;
    let (mut received, mut counted) = (0, 0);
    loop {
        let frame = timeout(read_timeout, body.frame()).await;
        let frame = match frame.map_err(|_elapsed| stalled())? {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(ApiError::broken_body(&error)),
            None => break,
        };
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        received += piece.len();
        if received > limit.saturating_add(MAX_DRAINED_BYTES) {
            break;
        }
        reader.push(piece, received)?;
        let new = reader.len() - counted;
        counted += new;
        reserve_memory(head, new, limits.memory)?;
    }
    reader.finish()
}

/// Body that is being read.
enum BodyReader {
    Plain(BodyBuffer, usize),
    Gzip(Box<BoundedGunzip>, usize),
    /// The rest is discarded.
    TooLarge(usize),
}

impl BodyReader {
    fn new(headers: &HeaderMap, limit: usize) -> Result<Self, ApiError> {
        if content_headers::media_type(headers) != MediaType::Json {
            let message = "expected `content-type: application/json` in UTF-8";
            return Err(ApiError::new(ErrorReason::BadContentType, message));
        }
        match content_headers::encoding(headers) {
            ContentEncoding::Identity => {
                // The body may be shorter than it announces.
                let expected = content_length(headers).unwrap_or_default();
                let buffer = BodyBuffer {
                    expected: expected.min(limit),
                    ..BodyBuffer::default()
                };
                Ok(Self::Plain(buffer, limit))
            }
            ContentEncoding::Gzip => Ok(Self::Gzip(Box::new(BoundedGunzip::new(limit)), limit)),
            ContentEncoding::Other => {
                let message = "unsupported `content-encoding`; supported: `gzip`";
                Err(ApiError::new(ErrorReason::UnsupportedMediaType, message))
            }
        }
    }

    /// Adds a piece. `received` counts the bytes so far, this piece included.
    fn push(&mut self, piece: Bytes, received: usize) -> Result<(), ApiError> {
        match self {
            Self::Plain(_, limit) | Self::Gzip(_, limit) if received > *limit => {
                *self = Self::TooLarge(*limit);
            }
            Self::Plain(buffer, _) => buffer.push(piece),
            Self::Gzip(gunzip, limit) => match gunzip.push(&piece) {
                Ok(()) => (),
                Err(DecompressError::TooLarge(_)) => *self = Self::TooLarge(*limit),
                Err(DecompressError::Invalid) => return Err(invalid_gzip()),
            },
            Self::TooLarge(_) => (),
        }
        Ok(())
    }

    /// Number of bytes held. Never decreases.
    fn len(&self) -> usize {
        match self {
            Self::Plain(buffer, _) => buffer.len(),
            Self::Gzip(gunzip, _) => gunzip.len(),
            Self::TooLarge(limit) => *limit,
        }
    }

    fn finish(self) -> Result<Bytes, ApiError> {
        match self {
            Self::Plain(buffer, _) => Ok(buffer.into_bytes()),
            Self::Gzip(mut gunzip, _) => gunzip.finish().map_err(|error| match error {
                DecompressError::TooLarge(limit) => too_large(limit),
                DecompressError::Invalid => invalid_gzip(),
            }),
            Self::TooLarge(limit) => Err(too_large(limit)),
        }
    }
}

/// Joins the pieces of a body.
#[derive(Default)]
struct BodyBuffer {
    /// Announced number of bytes.
    expected: usize,
    /// The whole body, if it arrived in one piece.
    only: Bytes,
    joined: BytesMut,
}

impl BodyBuffer {
    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 && piece.len() == self.expected && piece.len() >= MIN_UNCOPIED_BYTES {
            self.only = piece;
            return;
        }
        let only = mem::take(&mut self.only);
        let all = self.joined.len() + only.len() + piece.len();
        if all > self.joined.capacity() {
            let ahead = all.saturating_mul(RESERVED_FACTOR).max(RESERVED_BYTES);
            let capacity = ahead.min(self.expected).max(all);
            self.joined.reserve(capacity - self.joined.len());
        }
        self.joined.extend_from_slice(&only);
        self.joined.extend_from_slice(&piece);
    }

    fn len(&self) -> usize {
        self.only.len() + self.joined.len()
    }

    fn into_bytes(self) -> Bytes {
        if self.only.is_empty() {
            self.joined.freeze()
        } else {
            self.only
        }
    }
}

/// Returns the value of `content-length`.
pub(super) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// Reads a body to its end, so that the agent receives the error.
pub(super) async fn drain(mut body: Body, limit: usize, read_timeout: Duration) {
    let mut received = 0;
    while received <= limit.saturating_add(MAX_DRAINED_BYTES)
        && let Ok(Some(Ok(frame))) = timeout(read_timeout, body.frame()).await
    {
        received += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// Error for a request body over the limit.
pub(super) fn too_large(limit: usize) -> ApiError {
    let message = format!("request body exceeds {limit} bytes");
    ApiError::new(ErrorReason::BodyTooLarge, message)
}

/// Error for a request body whose next piece is late.
pub(super) fn stalled() -> ApiError {
    let message = "timed out reading the request body";
    ApiError::new(ErrorReason::BodyTimeout, message)
}

fn invalid_gzip() -> ApiError {
    let message = "request body is not a single valid gzip stream";
    ApiError::new(ErrorReason::BodyBroken, message)
}
