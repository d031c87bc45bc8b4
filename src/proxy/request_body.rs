//! Reads request bodies within limits of size, and decodes them. The body itself fails if it is
//! received too slowly.

use std::time::SystemTime;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, header, request::Parts};
use http_body_util::BodyExt;

use super::{
    cache_owner, earlier_responses, model_request::ModelRequest, request_context::RequestContext,
    session_name::SessionName,
};
use crate::{
    config::Limits,
    dialect::{self, Call, Document, ResponseExpectation},
    error::{ApiError, ErrorReason},
    middleware::{limit_error, reserve_memory},
    observe::recorder::ExchangeEvent,
    upstream::{
        content_headers::{self, ContentEncoding, MediaType},
        decompress::{BoundedGunzip, BoundedUnzstd, DecompressError},
    },
};

/// Bytes beyond the limit that are read and discarded, so that an agent that sends its whole
/// request before it reads still receives the error.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;

/// Maximum capacity that is reserved because a body announces its length. It may be shorter.
const MAX_RESERVED_BYTES: usize = 1024 * 1024;

/// Number of bytes of a body that is in memory and counted before it is read.
#[derive(Debug, Clone, Copy)]
struct PreloadedLength(usize);

/// Reads the request of a hooked call.
///
/// # Errors
///
/// If the body is too large, late, not one unambiguous JSON object, or uses cached content or a
/// response of another caller, or if its tokens exceed the caller's quota.
pub(super) async fn read_request(
    context: &RequestContext,
    mut call: Call,
    body: Body,
) -> Result<ModelRequest, ApiError> {
    if call.retrieves() {
        return retrieval(context, call);
    }
    let bytes = read_json(context, body).await?;
    let length = bytes.len();
    context.record(&ExchangeEvent::RequestRead(&bytes));
    let body = context.dialect.parse_request(bytes)?;
    dialect::check_values(&body)?;
    let opened = context.dialect.open_request(&mut call, body)?;
    let body = opened.original.as_ref().unwrap_or(&opened.form);
    let in_body = SessionName::in_body(context.dialect, body)?;
    let session_name = context.session_name.clone().or(in_body);
    let session_id = session_name.as_ref().map(|name| name.id.as_str());
    context.record(&ExchangeEvent::CallRead {
        operation: call.label(),
        model: call.model_name(),
        session_id: session_id.unwrap_or_default(),
    });
    if let Some(cache) = dialect::cached_content(&opened.form)? {
        cache_owner::check(context, &cache)?;
    }
    let request = ModelRequest {
        continued: earlier_responses::check(context, body, &opened.form)?,
        expectation: dialect::expected_response(&opened.form)?,
        document: opened.form,
        original: opened.original,
        call,
        session_name,
    };
    // Hooks may take long, and what they edit is counted again when it is sent.
    if request.reserve_tokens(&context.identity, length)? {
        // Chunked or compressed: its head did not have its size.
        Box::pin(admit_size(context)).await?;
    }
    Ok(request)
}

/// Checks that a request whose size was unknown before it was read fits into the token quota of
/// its caller.
///
/// # Errors
///
/// If it exceeds the quota.
pub(super) async fn admit_size(context: &RequestContext) -> Result<(), ApiError> {
    let identity = &context.identity;
    let admitted = identity.enter_again(SystemTime::now()).await;
    let id = context.recorder.request_id();
    admitted.map_err(|exceeded| limit_error(id, identity, exceeded))
}

/// Returns the request for a stored response of the caller's, which has no content.
fn retrieval(context: &RequestContext, call: Call) -> Result<ModelRequest, ApiError> {
    earlier_responses::check_owner(context, &call)?;
    let mut parameters = call.query.iter();
    if parameters.any(|parameter| parameter.starts_with("starting_after")) {
        let message =
            "`starting_after`: only a stream that is read from its start can be inspected";
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    }
    Ok(ModelRequest {
        call,
        document: Document::empty(),
        original: None,
        continued: None,
        expectation: ResponseExpectation::default(),
        session_name: context.session_name.clone(),
    })
}

/// Reads a body of known length, which is read again later. Returns its bytes if it arrives as a
/// whole, and a body that is the same to a later reader: one that breaks off or is late fails there.
pub(super) async fn preload(
    mut body: Body,
    head: &mut Parts,
    limits: &Limits,
) -> (Option<Bytes>, Body) {
    let expected = content_length(&head.headers).unwrap_or_default();
    let mut received = BytesMut::with_capacity(expected.min(MAX_RESERVED_BYTES));
    let mut reserved = 0;
    let rest = loop {
        let piece = match body.frame().await {
            None => break None,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => break Some(failing_body(error)),
        };
        received.extend_from_slice(&piece);
        if reserve_memory(head, received.len() - reserved, limits.memory).is_err() {
            // The later reader needs the memory, too, or none.
            break Some(body);
        }
        reserved = received.len();
    };
    head.extensions.insert(PreloadedLength(reserved));
    let received = received.freeze();
    match rest {
        None => (Some(received.clone()), Body::from(received)),
        Some(rest) => {
            let received = stream::iter([Ok(received)]);
            let body = Body::from_stream(received.chain(rest.into_data_stream()));
            (None, body)
        }
    }
}

/// Body that fails at once.
fn failing_body(error: axum::Error) -> Body {
    Body::from_stream(stream::iter([Err::<Bytes, _>(error)]))
}

/// Reads the whole body of a request in JSON and decodes it.
pub(super) async fn read_json(context: &RequestContext, body: Body) -> Result<Bytes, ApiError> {
    if content_headers::media_type(&context.head.headers) != MediaType::Json {
        let message = "expected `content-type: application/json` in UTF-8";
        return Err(ApiError::new(ErrorReason::BadContentType, message));
    }
    read(context, body).await
}

/// Reads the whole body and decodes it.
pub(super) async fn read(context: &RequestContext, mut body: Body) -> Result<Bytes, ApiError> {
    let limit = context.snapshot.config.limits.body;
    check_announced(&context.head.headers, limit)?;
    let mut decoder = BodyDecoder::new(&context.head.headers, limit)?;
    let reserved = context.head.extensions.get::<PreloadedLength>();
    let mut reserved = reserved.map_or(0, |reserved| reserved.0);
    let (mut received, mut is_too_large) = (0, false);
    loop {
        let frame = match body.frame().await {
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
        // The rest of a body that is too large is discarded.
        is_too_large = is_too_large || received > limit || !decoder.push(&piece)?;
        let decoded_len = if is_too_large { limit } else { decoder.len() };
        context.reserve_memory(decoded_len.saturating_sub(reserved))?;
        reserved = reserved.max(decoded_len);
    }
    if is_too_large {
        return Err(too_large(limit));
    }
    decoder.finish()
}

/// Body that is being received and decoded.
enum BodyDecoder {
    Plain(BytesMut),
    Gzip(Box<BoundedGunzip>),
    Zstd(Box<BoundedUnzstd>),
}

impl BodyDecoder {
    fn new(headers: &HeaderMap, limit: usize) -> Result<Self, ApiError> {
        match content_headers::encoding(headers) {
            ContentEncoding::Identity => {
                let expected = content_length(headers).unwrap_or_default();
                let reserved = expected.min(MAX_RESERVED_BYTES).min(limit);
                Ok(Self::Plain(BytesMut::with_capacity(reserved)))
            }
            ContentEncoding::Gzip => Ok(Self::Gzip(Box::new(BoundedGunzip::new(limit)))),
            ContentEncoding::Zstd => {
                let unzstd = BoundedUnzstd::new(limit).map_err(|_| invalid_encoding())?;
                Ok(Self::Zstd(Box::new(unzstd)))
            }
            ContentEncoding::Other => {
                let message = "unsupported `content-encoding`; supported: `gzip`, `zstd`";
                Err(ApiError::new(ErrorReason::UnsupportedMediaType, message))
            }
        }
    }

    /// Adds a piece. Returns false if the decoded body is too large.
    fn push(&mut self, piece: &[u8]) -> Result<bool, ApiError> {
        let pushed = match self {
            Self::Plain(buffer) => {
                buffer.extend_from_slice(piece);
                Ok(())
            }
            Self::Gzip(gunzip) => gunzip.push(piece),
            Self::Zstd(unzstd) => unzstd.push(piece),
        };
        match pushed {
            Ok(()) => Ok(true),
            Err(DecompressError::TooLarge(_)) => Ok(false),
            Err(DecompressError::Invalid) => Err(invalid_encoding()),
        }
    }

    /// Number of decoded bytes in memory, at most.
    fn len(&self) -> usize {
        match self {
            Self::Plain(buffer) => buffer.len(),
            Self::Gzip(gunzip) => gunzip.decoded_len(),
            Self::Zstd(unzstd) => unzstd.decoded_len(),
        }
    }

    fn finish(self) -> Result<Bytes, ApiError> {
        let finished = match self {
            Self::Plain(buffer) => Ok(buffer.freeze()),
            Self::Gzip(mut gunzip) => gunzip.finish(),
            Self::Zstd(mut unzstd) => unzstd.finish(),
        };
        finished.map_err(|error| match error {
            DecompressError::TooLarge(limit) => too_large(limit),
            DecompressError::Invalid => invalid_encoding(),
        })
    }
}

/// Returns the value of `content-length`.
pub(super) fn content_length(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Checks the announced length of a body that the agent does not send before it is invited.
///
/// # Errors
///
/// If it exceeds the limit.
pub(super) fn check_announced(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let is_too_large = content_length(headers).is_some_and(|length| length > limit);
    if is_too_large && headers.contains_key(header::EXPECT) {
        return Err(too_large(limit));
    }
    Ok(())
}

/// Reads a body to its end, so that the agent receives the error.
pub(super) async fn drain(mut body: Body, limit: usize) {
    let mut received = 0;
    while received <= limit.saturating_add(MAX_DRAINED_BYTES)
        && let Some(Ok(frame)) = body.frame().await
    {
        received += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// Error for a request body over the limit.
pub(super) fn too_large(limit: usize) -> ApiError {
    let message = format!("request body exceeds {limit} bytes");
    ApiError::new(ErrorReason::BodyTooLarge, message)
}

fn invalid_encoding() -> ApiError {
    let message = "request body is not a single valid stream of its `content-encoding`";
    ApiError::new(ErrorReason::BodyBroken, message)
}
