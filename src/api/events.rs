//! `POST /hookgate/v1/events`: runs the hooks of an event that an agent reports, and
//! returns their merged output. The prefix `/s/{session}` names the event's session.

mod event_session;
mod explanation;
mod object_fields;
mod options;

use std::{error::Error, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::{
    event_session::{assigned_snapshot, record_report, session_key},
    explanation::{EventOutput, Explanation, HookReport},
    object_fields::list_for_object,
    options::ReportOptions,
};
use super::{openapi_errors::AgentErrors, openapi_schemas::EventInput};
use crate::{
    auth::CallerInFlightGuard,
    dialect,
    error::{ApiError, ErrorReason},
    event::{
        Action, Caller, Context, EventKind, EventName, EventOrigin, EventVisitor, HookOutput,
        text_field,
    },
    hook::{EventOutcome, EventScope},
    middleware::{
        Authenticated, InFlightGuard, RequestId, reserve_memory, split_session, trace_context,
    },
    observe::recorder::{ExchangeEvent, Recorder},
    protocol,
    state::{App, Snapshot},
    timestamp::utc_timestamp,
    upstream::content_headers::{self, ContentEncoding, MediaType},
};

/// Path of the endpoint.
const EVENTS_PATH: &str = "/hookgate/v1/events";

/// Returns the routes of the endpoint.
pub fn routes() -> Router<App> {
    let named = format!("/s/{{session}}{EVENTS_PATH}");
    Router::new()
        .route(EVENTS_PATH, post(report_event))
        .route(&named, post(report_event))
}

/// Returns whether a path is that of the endpoint, with or without the prefix of a session. One
/// with an empty session is refused as that of a model call.
pub fn is_events_path(path: &str) -> bool {
    let (session, path) = dialect::split_session(path);
    path == EVENTS_PATH && session != Some("")
}

/// Runs the hooks of one event and returns their merged output in the format in which
/// hooks print it. The path prefix `/s/{session}` names the session and replaces `session_id`.
#[utoipa::path(post, path = "/hookgate/v1/events", tag = "events",
    params(
        ("explain" = Option<String>, Query, description = "`1` adds what each hook did."),
        ("wait" = Option<String>, Query, description = "`1` waits for the hooks of an advisory event.")),
    request_body(content = EventInput, description = "The hook input of any event. Missing base fields are filled in."),
    responses(
        (status = 200, description = "The merged output of the hooks.", body = EventOutput),
        (status = 202, description = "The hooks of an advisory event were started. The body is `{}`.", body = Object),
        AgentErrors))]
pub(super) async fn report_event(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    check_media_type(&head.headers)?;
    let options = ReportOptions::parse(query.as_deref().unwrap_or_default())?;
    let Some(authenticated) = head.extensions.get::<Authenticated>() else {
        let message = "request was not authenticated";
        return Err(ApiError::new(ErrorReason::Internal, message));
    };
    let Authenticated {
        identity, snapshot, ..
    } = authenticated.clone();
    if let Some(audit) = &snapshot.audit {
        audit.ensure_writable()?;
    }
    reserve_memory_for(&body, &head, &snapshot)?;
    let body = read_body(body, &head.headers, &snapshot).await?;
    let mut fields = parse_fields(&body)?;
    apply_session_prefix(head.uri.path(), &mut fields)?;
    let name = event_name(&fields)?;
    let snapshot = assigned_snapshot(snapshot, &identity, &fields);
    let context = context(&head, &fields, identity.caller(), &snapshot)?;
    let recorder = snapshot.event_recorder(&context, app.resources.abort.clone());
    let named = context.session_named.then(|| session_key(&context));
    let sessions = Arc::clone(&snapshot.sessions);
    let outcome = name.visit(ReportedEvent {
        snapshot,
        recorder: recorder.clone(),
        context,
        fields: Value::Object(fields),
        body,
        is_explained: options.is_explained,
    })?;
    if let Some(key) = named {
        record_report(&sessions, &key, name).await;
    }
    if name.is_advisory() && !options.waits {
        // The request stays in flight until its hooks have run, in total and for its caller.
        let guard = head.extensions.get::<InFlightGuard>().cloned();
        let caller = head.extensions.get::<Option<Arc<CallerInFlightGuard>>>();
        let guards = (guard, caller.cloned());
        app.resources.spawn_event(async move {
            outcome.await;
            drop(guards);
        });
        return Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response());
    }
    let output = outcome.await;
    // The agent acts on the output, so the decision must be durable first.
    recorder.commit().await?;
    Ok(Json(output).into_response())
}

/// Event about to be fired, before its type is known.
struct ReportedEvent {
    snapshot: Arc<Snapshot>,
    recorder: Recorder,
    context: Context,
    /// All fields of the body, to compare them with the event that is read from it.
    fields: Value,
    body: Bytes,
    is_explained: bool,
}

/// Future of the JSON response to an event.
type OutputFuture = BoxFuture<'static, Value>;

impl EventVisitor for ReportedEvent {
    type Output = Result<OutputFuture, ApiError>;

    fn visit<E: EventKind>(self) -> Self::Output {
        let Json(event) = Json::<E>::from_bytes(&self.body).map_err(|rejection| {
            let cause = rejection.source().map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| rejection.body_text());
            // axum names the field in front of the cause.
            bad_event(match cause.split_once(": ") {
                Some((path, cause)) => format!("`{path}`: {cause}"),
                None => cause,
            })
        })?;
        check_objects(&self.fields, &event)?;
        if let Some(problem) = event.invalid_subject() {
            return Err(bad_event(problem));
        }
        self.recorder.record(&ExchangeEvent::Reported {
            event: E::NAME,
            subject: event.subject().text(),
        });
        let explained = self.is_explained.then(|| event.clone());
        let (snapshot, context, recorder) = (self.snapshot, self.context, self.recorder);
        Ok(Box::pin(async move {
            let scope = EventScope::new(&context, &recorder);
            let outcome = snapshot
                .engine
                .fire(scope, event, EventOrigin::Reported)
                .await;
            if E::NAME == EventName::SessionEnd {
                snapshot.remove_transcript(&session_key(&context)).await;
            }
            to_response(outcome, explained, &context.session_id)
        }))
    }
}

/// Refuses lists in the place of objects.
fn check_objects<E: EventKind>(reported: &Value, event: &E) -> Result<(), ApiError> {
    let read = serde_json::to_value(event).unwrap_or_default();
    match list_for_object(reported, &read) {
        Some(path) => {
            let field = path.trim_start_matches('.');
            Err(bad_event(format!(
                "`{field}`: invalid type: sequence, expected an object"
            )))
        }
        None => Ok(()),
    }
}

/// Returns the output as a hook prints it, with an explanation if `explained` has the event.
fn to_response<E: EventKind>(
    outcome: EventOutcome<E::Verdict>,
    explained: Option<E>,
    session: &str,
) -> Value {
    // A masked result is a denial for the agent only.
    let verdict = E::action(&outcome.output);
    let mut output = outcome.output;
    output.deny_masked_result();
    let action = E::action(&output);
    let arguments = explained
        .as_ref()
        .filter(|_| matches!(action, Action::Proceed | Action::Ask))
        .and_then(|event| edited_arguments(event.clone(), &output));
    let added = output.plain_context().filter(|_| action == Action::Proceed);
    let specific = &mut output.hook_specific_output;
    if let Some(added) = added {
        specific.insert("additionalContext".to_owned(), json!(added));
    }
    if !specific.is_empty() {
        specific.insert("hookEventName".to_owned(), json!(E::NAME));
    }
    let hookgate = explained.map(|_event| Explanation {
        verdict: verdict.as_str(),
        hooks: outcome.runs.into_iter().map(HookReport::from).collect(),
        diagnostics: outcome.diagnostics.into_iter().map(Into::into).collect(),
        session: session.to_owned(),
        context: output.rendered_context(),
        arguments,
    });
    json!(EventOutput { output, hookgate })
}

/// Returns the arguments of a tool call if hooks changed them.
fn edited_arguments<E: EventKind>(mut event: E, output: &HookOutput) -> Option<Value> {
    output.specific("tool_input")?;
    event.apply(output);
    event.tool_input().map(|input| json!(input))
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_json = matches!(
        content_headers::media_type(headers),
        MediaType::Absent | MediaType::Json
    );
    if is_json && content_headers::encoding(headers) == ContentEncoding::Identity {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::UnsupportedMediaType,
        "events must be uncompressed `application/json` in UTF-8",
    ))
}

/// Reserves memory for a body. One of unknown length may be as large as allowed.
fn reserve_memory_for(body: &Body, head: &Parts, snapshot: &Snapshot) -> Result<(), ApiError> {
    let limits = &snapshot.config.limits;
    let length = body.size_hint().exact().and_then(|len| len.try_into().ok());
    let reserved = length.unwrap_or(limits.event).min(limits.event);
    reserve_memory(head, reserved, limits.memory)
}

async fn read_body(
    body: Body,
    headers: &HeaderMap,
    snapshot: &Snapshot,
) -> Result<Bytes, ApiError> {
    let limit = snapshot.config.limits.event;
    let too_large = || {
        let message = format!("event larger than {limit} bytes");
        ApiError::new(ErrorReason::BodyTooLarge, message)
    };
    // The agent waits until it is invited to send the body.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit && headers.contains_key(header::EXPECT) {
        return Err(too_large());
    }
    let body = Limited::new(body, limit).collect();
    let body = tokio::time::timeout(snapshot.config.timeouts.body, body).await;
    match body {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::broken_body(&*error)),
        Err(_elapsed) => Err(ApiError::body_timeout()),
    }
}

fn parse_fields(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ApiError::new(ErrorReason::BadJson, "invalid UTF-8"))?;
    match dialect::parse(text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(bad_event("event must be a JSON object")),
    }
}

fn event_name(fields: &Map<String, Value>) -> Result<EventName, ApiError> {
    let name = fields.get("hook_event_name").and_then(Value::as_str);
    name.and_then(EventName::parse).ok_or_else(|| {
        let names: Vec<&str> = EventName::ALL.iter().map(|name| name.as_str()).collect();
        bad_event(format!(
            "`hook_event_name` must be one of {}{}",
            names.join(", "),
            name.and_then(untranslated_event).unwrap_or_default()
        ))
    })
}

/// Returns the advice for an event with the name that it has in an agent.
fn untranslated_event(name: &str) -> Option<String> {
    let (_, event) = protocol::events_named(name).next()?;
    let options = protocol::events_named(name).map(|(form, _)| format!("`--protocol {form}`"));
    let options = options.collect::<Vec<_>>().join(" or ");
    Some(format!(
        "; `{name}` is `{event}` here, to which `hookgate forward` translates it with {options}"
    ))
}

/// Reads the base fields and fills in those that are absent.
fn context(
    head: &Parts,
    fields: &Map<String, Value>,
    caller: Caller,
    snapshot: &Snapshot,
) -> Result<Context, ApiError> {
    let context = Context {
        request_id: RequestId::from_extensions(&head.extensions).to_string(),
        session_id: Uuid::new_v4().to_string(),
        cwd: snapshot.config.hook_directory.display().to_string(),
        timestamp: utc_timestamp(),
        caller,
        trace: trace_context(snapshot.audit.as_deref(), &head.headers),
        ..Context::default()
    };
    context.with_reported(fields).map_err(bad_event)
}

/// Writes the session of the path into the base fields. It outranks theirs, as for model calls.
fn apply_session_prefix(path: &str, fields: &mut Map<String, Value>) -> Result<(), ApiError> {
    text_field(fields, "session_id").map_err(bad_event)?;
    if let (Some(session), _) = split_session(path)? {
        fields.insert("session_id".to_owned(), session.into());
    }
    Ok(())
}

fn bad_event(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorReason::BadEvent, message)
}
