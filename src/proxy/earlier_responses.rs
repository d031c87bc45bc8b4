//! References to earlier responses: only the caller that received a response may refer to it.

use axum::response::Response;
use bytes::Bytes;

use super::{reply, request_context::RequestContext, response_filter::chunk_source::read_unedited};
use crate::{
    config::CompactionMode,
    dialect::{Api, Call, ContentReference, DialectError, Document, Operation, RequestField},
    error::{ApiError, ErrorReason},
    event::EventName,
    state::{MAX_TTL, Snapshot, content_name},
    upstream::{
        UpstreamResponse,
        content_headers::{self, MediaType},
    },
};

const CONTENTS: &[&str] = &["contents"];
const PARTS: &[&str] = &["parts"];

/// Methods on stored responses, which only the caller of a response may use.
const STORED_RESPONSE_METHODS: [&str; 4] = [
    "responses.retrieve",
    "responses.cancel",
    "responses.input_items.list",
    "responses.delete",
];

/// Returns whether responses to a call are recorded, so that later requests may refer to them.
/// Embeddings refer to none, and their input may be a list of texts.
pub(super) fn are_recorded(call: &Call, snapshot: &Snapshot) -> bool {
    if matches!(call.operation, Operation::Embed | Operation::BatchEmbed) {
        return false;
    }
    let continues = call.allowed_fields.contains(RequestField::PreviousResponse);
    continues
        || snapshot.config.coverage.compaction == CompactionMode::Known
        || have_owners(call, snapshot)
}

/// Returns whether a method on stored responses is allowed, so that their owners must be known.
pub(super) fn have_owners(call: &Call, snapshot: &Snapshot) -> bool {
    let coverage = &snapshot.config.coverage;
    call.method.api == Api::OpenAiResponses
        && STORED_RESPONSE_METHODS
            .iter()
            .any(|name| coverage.allows(name))
}

/// Refuses a method on a stored response that the caller is not known to own.
pub(super) fn check_owner(context: &RequestContext, call: &Call) -> Result<(), ApiError> {
    let id = call.stored_response().unwrap_or_default().to_owned();
    let name = content_name(&ContentReference::StoredResponse(id));
    let caller = context.identity.caller();
    if context.earlier_responses.is_owner(&name, &caller.key) {
        return Ok(());
    }
    let message = "this response was not created by this caller through this gateway, or has \
                   expired";
    Err(ApiError::new(ErrorReason::UnknownResponse, message))
}

/// Refuses references to responses that the caller is not known to have received. Returns the id of
/// the one that the request continues.
pub(super) fn check(
    context: &RequestContext,
    body: &Document,
    document: &Document,
) -> Result<Option<String>, ApiError> {
    if !context.records_responses {
        return Ok(None);
    }
    let mut continued = None;
    let caller = context.identity.caller();
    let compaction = context.snapshot.config.coverage.compaction;
    for reference in context.dialect.request_references(body)? {
        let is_known = || {
            let earlier = &context.earlier_responses;
            earlier.is_owner(&content_name(&reference), &caller.key)
        };
        let field = match &reference {
            ContentReference::Compaction(_) if compaction == CompactionMode::Any => continue,
            ContentReference::Compaction(_) => "compaction",
            ContentReference::Response(_) | ContentReference::StoredResponse(_) => {
                check_results(context, document)?;
                "previous_response_id"
            }
        };
        if !is_known() {
            let message = format!(
                "`{field}` refers to a response that this caller has not received through this \
                 gateway, or that has expired"
            );
            return Err(ApiError::new(ErrorReason::BadDocument, message));
        }
        if let ContentReference::Response(id) = reference {
            continued = Some(id);
        }
    }
    Ok(continued)
}

/// Refuses results of tools whose call, and so whose name, is not in the request, where
/// `AfterTool` hooks run.
fn check_results(context: &RequestContext, document: &Document) -> Result<(), ApiError> {
    if !context
        .snapshot
        .engine
        .handles_derived(EventName::AfterTool)
    {
        return Ok(());
    }
    let is_nameless = |part: &Document| {
        let result = part.child(&["functionResponse"])?;
        let name = result.map(|result| result.string(&["name"])).transpose()?;
        Ok::<_, DialectError>(name.is_some_and(|name| name.is_none_or(|name| name.is_empty())))
    };
    for content in document.children(CONTENTS)?.unwrap_or_default() {
        for part in content.children(PARTS)?.unwrap_or_default() {
            if is_nameless(&part)? {
                let message = "hooks on AfterTool cannot inspect the result of a tool whose call \
                               is not in the request";
                return Err(ApiError::new(ErrorReason::BadDocument, message));
            }
        }
    }
    Ok(())
}

/// Records the caller as the one that receives a response, or an event of it.
pub(super) fn record(context: &RequestContext, data: &Bytes) {
    if !context.records_responses {
        return;
    }
    let references = context.dialect.response_references(data);
    if references.is_empty() {
        return;
    }
    let caller = context.identity.caller().key;
    for reference in references {
        let earlier = &context.earlier_responses;
        earlier.insert(&content_name(&reference), &caller, Some(MAX_TTL));
    }
}

/// Returns a response that no policy and no hook inspects, once it is recorded.
pub(super) async fn record_passed(
    context: &RequestContext,
    answer: UpstreamResponse,
) -> Result<Response, ApiError> {
    let is_json = content_headers::media_type(&answer.headers) == MediaType::Json;
    if !context.records_responses || !answer.status.is_success() || !is_json {
        return Ok(reply::passed(answer, context));
    }
    let (response, body) = read_unedited(context, answer).await?;
    record(context, &body);
    Ok(response)
}
