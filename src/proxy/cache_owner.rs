//! Ownership of cached content: only the caller that created a cache may use it.

use std::time::Duration;

use axum::response::Response;
use jiff::Timestamp;

use super::{
    reply::unreadable, request_context::RequestContext,
    response_filter::chunk_source::read_unedited,
};
use crate::{
    dialect,
    error::{ApiError, ErrorReason},
    upstream::UpstreamResponse,
};

/// Refuses a cache that the caller is not known to own.
pub(super) fn check(context: &RequestContext, name: &str) -> Result<(), ApiError> {
    let caller = context.identity.caller();
    if context.cached_content.is_owner(name, &caller.key) {
        return Ok(());
    }
    let message = "this cached content was not created by this caller through this gateway, or \
                   has expired";
    Err(ApiError::new(ErrorReason::UnknownCache, message))
}

/// Records the caller as the owner of the cache that a response describes. Returns the response.
pub(super) async fn record(
    context: &RequestContext,
    answer: UpstreamResponse,
) -> Result<Response, ApiError> {
    let (response, body) = read_unedited(context, answer).await?;
    let document = dialect::parse_document(body).map_err(|_| unreadable())?;
    let text = |spellings: &[&str]| document.string(spellings).map_err(|_| unreadable());
    let name = text(&["name"])?.ok_or_else(unreadable)?;
    let expires = text(&["expireTime", "expire_time"])?;
    let expires_in = expires.and_then(|time| duration_until(&time));
    let owner = context.identity.caller().key;
    context.cached_content.insert(&name, &owner, expires_in);
    Ok(response)
}

/// Returns the duration until an RFC 3339 time.
fn duration_until(time: &str) -> Option<Duration> {
    let time: Timestamp = time.parse().ok()?;
    Some(Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default())
}
