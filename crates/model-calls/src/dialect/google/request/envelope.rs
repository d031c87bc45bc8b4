//! Envelopes of requests: the object of Code Assist with the request in a field, or none.

use bytes::Bytes;

use crate::{
    dialect::{
        api_dialect::OpenedRequest,
        call::Call,
        content_form::refuse_private_fields,
        document::{Document, check_length, is_set, required_child},
        error::{DialectError, Result, field_error},
        google::{
            fields::{
                CACHED_CONTENT, CONTENT, CONTENTS, CONTINUATION_TOKEN, GENERATION_CONFIG, MODEL,
                REQUESTS, SYSTEM_INSTRUCTION, TOOL_CONFIG, TOOLS, WRAPPED_REQUEST,
            },
            request::model::{check_model, rename_model},
        },
        method::Operation,
        request_field::RequestField,
    },
    model::ModelName,
};

const REQUEST: &[&str] = &["request"];
const SESSION: &[&str] = &["session_id", "sessionId"];

/// Fields that a model reads and hookgate inspects. They are refused in the envelope.
const INNER_FIELDS: &[&[&str]] = &[
    CONTENTS,
    CACHED_CONTENT,
    CONTINUATION_TOKEN,
    SYSTEM_INSTRUCTION,
    TOOLS,
    TOOL_CONFIG,
    GENERATION_CONFIG,
];

/// Opens a request without envelope. The creation of cached content names its model in the
/// body.
pub fn open_bare(call: &mut Call, body: Document) -> Result<OpenedRequest> {
    if call.operation == Operation::CreateCache {
        call.model = Some(read_model(call, &body)?.ok_or_else(invalid_model)?);
    }
    check_model(call, &body)?;
    check_form(call, &body)?;
    Ok(OpenedRequest {
        form: body,
        original: None,
    })
}

/// Opens a request in the field `request`. The model is named beside it, in it, or equally in
/// both.
pub fn open_wrapped(call: &mut Call, body: Document) -> Result<OpenedRequest> {
    let document = required_child(&body, "request")?;
    let mut inner_fields = INNER_FIELDS.iter().copied().flatten();
    if let Some(field) = inner_fields.find(|field| body.has(&[**field])) {
        return Err(field_error(field, "inside `request`"));
    }
    let model = match read_model(call, &body)? {
        Some(model) => Some(model),
        None => read_model(call, &document)?,
    };
    call.model = Some(model.ok_or_else(invalid_model)?);
    check_model(call, &document)?;
    check_form(call, &document)?;
    Ok(OpenedRequest::from_body(call, document, body))
}

/// Refuses a request with fields of hookgate's own, with a token that the config does not allow,
/// or with too many contents or parts.
fn check_form(call: &Call, request: &Document) -> Result<()> {
    refuse_private_fields(request)?;
    if is_set(request, CONTINUATION_TOKEN)? {
        let (allowed, api) = (call.allowed_fields, call.method.api);
        allowed.check(api, RequestField::Continuation)?;
    }
    check_length(request, REQUESTS, 4)?;
    let wrapped = request.child(WRAPPED_REQUEST)?;
    for request in [Some(request), wrapped.as_ref()].into_iter().flatten() {
        for content in [CONTENTS, CONTENT, SYSTEM_INSTRUCTION] {
            check_length(request, content, 3)?;
        }
    }
    Ok(())
}

/// Returns the session that an envelope names.
///
/// # Errors
///
/// Fails if the name is no text.
pub fn session_in(envelope: &Document) -> Result<Option<String>> {
    let request = envelope.child(REQUEST)?.unwrap_or_default();
    request.string(SESSION)
}

/// Returns the envelope for upstream. Unedited parts keep their bytes.
///
/// # Errors
///
/// Fails if the envelope cannot be edited.
pub fn close_request(call: &Call, envelope: &Document, document: &Document) -> Result<Bytes> {
    let mut envelope = envelope.clone();
    if let Some(model) = &call.model
        && read_model(call, &envelope)?.is_some_and(|named| named != *model)
    {
        rename_model(&mut envelope, model)?;
    }
    let request = document.to_bytes();
    if envelope.bytes_of(REQUEST)?.as_ref() != Some(&request) {
        envelope.set_bytes(REQUEST, request)?;
    }
    Ok(envelope.to_bytes())
}

fn read_model(call: &Call, document: &Document) -> Result<Option<ModelName>> {
    let Some(name) = document.string(MODEL)? else {
        return Ok(None);
    };
    let model = call.resolve_model(&name);
    model.map(Some).ok_or_else(invalid_model)
}

fn invalid_model() -> DialectError {
    field_error("model", "the name of a model")
}
