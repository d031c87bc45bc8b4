//! Methods on content that the model API keeps for its creator: on cached content get, update and
//! delete, on stored responses what returns no answer of a model.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::Method;

use super::{
    cache_owner, earlier_responses, passthrough, reply, request_body,
    request_context::RequestContext, upstream_call,
};
use crate::{
    dialect::{self, Call, ContentReference, DialectError},
    error::{ApiError, ErrorReason},
    state::content_name,
};

/// Fields of a cache that may be updated: its lifetime, and nothing that a model reads.
const UPDATABLE_FIELDS: [&str; 5] = ["ttl", "expireTime", "expire_time", "name", "etag"];

/// Forwards a method on a cache or a stored response, if it is the caller's.
pub(super) async fn forward(
    context: Box<RequestContext>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let (owners, names) = if let Some(id) = call.stored_response() {
        earlier_responses::check_owner(&context, &call)?;
        let kinds = [ContentReference::Response, ContentReference::StoredResponse];
        let names = kinds.map(|kind| content_name(&kind(id.to_owned())));
        (Arc::clone(&context.earlier_responses), Vec::from(names))
    } else {
        let name = call.resource();
        cache_owner::check(&context, &name)?;
        if context.head.method == Method::PATCH {
            return update(&context, &call, body).await;
        }
        (Arc::clone(&context.cached_content), vec![name])
    };
    let is_delete = context.head.method == Method::DELETE;
    let response = passthrough::forward(context, call, body).await?;
    if is_delete && response.status().is_success() {
        for name in &names {
            owners.remove(name);
        }
    }
    Ok(response)
}

async fn update(context: &RequestContext, call: &Call, body: Body) -> Result<Response, ApiError> {
    let document = dialect::parse_document(request_body::read_json(context, body).await?)?;
    let mut fields = document.fields();
    if let Some((field, _)) = fields.find(|field| !UPDATABLE_FIELDS.contains(&&*field.0)) {
        let message = format!("`{field}` of cached content cannot be updated");
        return Err(ApiError::new(ErrorReason::BadDocument, message));
    }
    let name = document.string(&["name"])?;
    if name.is_some_and(|name| name != call.resource()) {
        return Err(DialectError::Ambiguous("name".to_owned()).into());
    }
    let bytes = document.to_bytes();
    let outgoing = upstream_call::outgoing(context, call, bytes.clone().into())?;
    let answer = upstream_call::send(context, call, outgoing, Some(&bytes)).await?;
    let response = if answer.status.is_success() {
        cache_owner::record(context, answer).await?
    } else {
        reply::passed(answer, context)
    };
    Ok(reply::finish(response, &context.recorder))
}
