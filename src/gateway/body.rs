//! Reading a request's body: of a bounded size, each piece within a time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::app::{ApiError, ErrorReason};

/// How much more than the limit is read and thrown away, so that an agent that
/// sends before it listens still hears why its request is refused.
const DRAINED: usize = 64 * 1024 * 1024;

/// The whole body, of at most `limit` bytes; `patience` is for each piece.
pub(super) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, ApiError> {
    let expected = declared_length(headers).unwrap_or_default();
    let mut whole = BytesMut::with_capacity(expected.min(limit));
    let mut seen = 0;
    loop {
        let frame = timeout(patience, body.frame()).await;
        let frame = match frame.map_err(|_elapsed| stalled())? {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => {
                let message = "the request's body broke off";
                return Err(ApiError::new(ErrorReason::BodyBroken, message));
            }
            None => break,
        };
        let Some(piece) = frame.data_ref() else {
            continue;
        };
        seen += piece.len();
        if seen > limit.saturating_add(DRAINED) {
            break;
        }
        if seen <= limit {
            whole.extend_from_slice(piece);
        }
    }
    if seen > limit {
        return Err(too_large(limit));
    }
    Ok(whole.freeze())
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
