//! Filters a response that is one JSON document.

use std::ops::ControlFlow::{self, Break, Continue};

use super::{chunk_source, filter::Refusal, response_buffer::ResponseBuffer};
use crate::{
    dialect::ResponseDocument,
    error::ApiError,
    policy::ChunkPosition,
    proxy::{reply::unreadable_response, request_context::RequestContext},
    upstream::UpstreamResponse,
};

/// Filters the response and holds back all of it. Breaks if it is refused.
pub async fn filter(
    context: &RequestContext,
    buffer: &mut ResponseBuffer,
    answer: UpstreamResponse,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let limits = &context.snapshot.config.limits;
    let body = chunk_source::read_json(answer, &context.head, limits).await?;
    let envelope = context.dialect.response_envelope();
    let response =
        ResponseDocument::open(body, envelope).map_err(|error| unreadable_response(&error))?;
    match buffer.push(response, ChunkPosition::Last).await? {
        Continue(chunks) => buffer.hold(chunks),
        Break(refusal) => return Ok(Break(refusal)),
    }
    Ok(Continue(()))
}
