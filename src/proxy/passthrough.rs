//! Calls without hooks: request and response pass unparsed; only their sizes are checked. If the
//! tokens of an embedding are counted, a body that is encoded or of unknown size is read first.

use std::{io, sync::Arc};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, header};
use hyper::body::Body as _;

use super::{
    reply,
    request_body::{self, content_length, too_large},
    request_context::RequestContext,
    upstream_call,
};
use crate::{
    dialect::{Call, Operation},
    error::ApiError,
    mutex::Mutex,
    upstream::{
        BodyProgress, OutgoingRequest, RequestBody, UpstreamError,
        content_headers::{ContentEncoding, encoding},
        headers,
    },
};

/// Forwards request and response piece by piece.
pub(super) async fn forward(
    mut context: Box<RequestContext>,
    call: Call,
    mut body: Body,
) -> Result<Response, ApiError> {
    if call.operation.embeds() && context.identity.has_token_quota() {
        // Its tokens are counted by its decoded size.
        body = Box::pin(sized(&mut context, body)).await?;
    }
    let limit = context.snapshot.config.limits.body;
    request_body::check_announced(&context.head.headers, limit)?;
    let length = content_length(&context.head.headers);
    if length.is_some_and(|length| length > limit) {
        // Read to its end, so that the agent receives the error.
        request_body::drain(body, limit).await;
        return Err(too_large(limit));
    }
    let body_error = SharedError::default();
    let outgoing_body = if length == Some(0) || body.is_end_stream() {
        RequestBody::Buffered(Bytes::new())
    } else {
        let progress = BodyProgress::default();
        let body = limited(body, limit, length, body_error.clone(), progress.clone());
        RequestBody::Streamed { body, progress }
    };
    let outgoing = outgoing(&context, &call, outgoing_body, length)?;
    let sent = upstream_call::send(&context, &call, outgoing, None).await;
    let answer = sent.map_err(|error| body_error.lock().take().unwrap_or(error))?;
    let is_file = call.method.downloads_file() && answer.status.is_success();
    let response = if is_file {
        reply::unchanged(answer, &context)
    } else {
        reply::passed(answer, &context)
    };
    Ok(reply::finish(response, &context.recorder))
}

/// Returns a body of known size without its `content-encoding`, whose tokens are reserved.
async fn sized(context: &mut RequestContext, body: Body) -> Result<Body, ApiError> {
    let headers = &context.head.headers;
    let is_plain = encoding(headers) == ContentEncoding::Identity;
    if is_plain && content_length(headers).is_some() || body.is_end_stream() {
        return Ok(body);
    }
    let bytes = request_body::read(context, body).await?;
    if context.identity.estimate_tokens(bytes.len(), Some(0)) {
        request_body::admit_size(context).await?;
    }
    let headers = &mut context.head.headers;
    headers.remove(header::CONTENT_ENCODING);
    headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    Ok(bytes.into())
}

/// The request as it came, but for hop-by-hop headers.
fn outgoing(
    context: &RequestContext,
    call: &Call,
    body: RequestBody,
    length: Option<usize>,
) -> Result<OutgoingRequest, UpstreamError> {
    let mut outgoing = upstream_call::outgoing(context, call, body)?;
    let received = &context.head.headers;
    if let Some(encoding) = received.get(header::CONTENT_ENCODING) {
        // The body is forwarded as it is encoded.
        outgoing
            .headers
            .insert(header::CONTENT_ENCODING, encoding.clone());
    }
    if call.operation == Operation::Other {
        outgoing.headers.extend(headers::upload_headers(received));
    }
    if let Some(length) = length {
        let value = HeaderValue::from(length);
        outgoing.headers.insert(header::CONTENT_LENGTH, value);
    }
    Ok(outgoing)
}

/// Error that ended a request body early. The client that reads the body reports only that it
/// ended.
type SharedError = Arc<Mutex<Option<ApiError>>>;

/// Returns a request body that fails once it exceeds a limit. `length` is the size that the agent
/// has announced. Trailers are not forwarded.
fn limited(
    body: Body,
    limit: usize,
    length: Option<usize>,
    error_slot: SharedError,
    progress: BodyProgress,
) -> Body {
    let pieces = body.into_data_stream();
    let limited = stream::try_unfold(Some(pieces), move |pieces| {
        let (error_slot, progress) = (error_slot.clone(), progress.clone());
        async move {
            let Some(mut pieces) = pieces else {
                return Ok(None);
            };
            let error = match pieces.next().await {
                None => {
                    progress.complete();
                    return Ok(None);
                }
                Some(Ok(piece)) => {
                    let received = progress.add(piece.len());
                    // Nothing is read behind the announced size: an agent may never end its stream.
                    let is_last = length == Some(received);
                    if is_last {
                        progress.complete();
                    }
                    if received <= limit {
                        let rest = (!is_last).then_some(pieces);
                        return Ok(Some((piece, rest)));
                    }
                    too_large(limit)
                }
                Some(Err(error)) => ApiError::broken_body(&error),
            };
            let broken = io::Error::other(error.reason().as_str());
            *error_slot.lock() = Some(error);
            Err(axum::Error::new(broken))
        }
    });
    Body::from_stream(limited)
}
