//! The live trace: calls, denials and rules. Content is served apart from the rest.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, RawQuery, State},
    response::Response,
    routing::{get, post},
};
use http::HeaderMap;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    request::{ReceivedBody, json_body, query_parameter},
};
use crate::{
    auth::AdminPrincipal,
    error::{ApiError, ErrorReason},
    observe::trace::{
        CallList, CallView, DenialList, InFlightCalls, MAX_PAGE_RECORDS, SessionWatch,
        StoredContent, TraceBatch, TraceFilter,
    },
    state::App,
    view::{
        content,
        live_tail::{self, LiveTail},
        rules::{self, RuleView},
    },
};

/// Returns the routes of the live trace.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/calls", get(list_calls))
        .route("/calls/stream", get(stream_calls))
        .route("/calls/in_flight", get(list_in_flight))
        .route("/calls/{id}", get(get_call))
        .route("/calls/{id}/content", get(get_content))
        .route("/sessions/{id}/watch", post(watch_session))
        .route("/denials", get(denials))
        .route("/rules", get(rules))
}

/// Calls and reported events that have ended, newest first.
#[utoipa::path(get, path = "/calls", tag = "admin", operation_id = "calls",
    params(
        ("q" = Option<String>, Query, description = "Conditions such as `verdict:deny rule:\"no shell\"`; each can also be a parameter of its own."),
        ("caller" = Option<String>, Query, description = "Name of the caller, or at least 8 digits of its key; empty for calls without authentication."),
        ("session" = Option<String>, Query, description = "Id of the session."),
        ("dialect" = Option<String>, Query, description = "Model API, such as `anthropic`."),
        ("request" = Option<String>, Query, description = "Request id."),
        ("model" = Option<String>, Query, description = "Model that was requested or called."),
        ("verdict" = Option<String>, Query, description = "Action on the call, or verdict of one of its events."),
        ("since" = Option<String>, Query, description = "RFC 3339 time, or a duration such as `15m`."),
        ("rule" = Option<String>, Query, description = "Policy or hook that ran."),
        ("tool" = Option<String>, Query, description = "Tool that an event was about, or whose call was denied or would have been."),
        ("would" = Option<String>, Query, description = "Verdict that a rule in mode `observe` would have had."),
        ("edited" = Option<String>, Query, description = "`request`, `answer` or `any`."),
        ("error" = Option<String>, Query, description = "Reason code of an error, or `any`."),
        ("ended" = Option<String>, Query, description = "End of the response, such as `truncated`."),
        ("cursor" = Option<u64>, Query, description = "`next` of the page before."),
        ("limit" = Option<u32>, Query, description = "Number of calls, from 1 to 100; 100 if absent.")),
    responses(
        (status = 200, description = "The calls.", body = CallList),
        (status = 400, description = "A parameter is invalid.", body = GoogleError), AdminErrors))]
pub(super) async fn list_calls(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    principal: AdminPrincipal,
) -> Result<Json<CallList>, ApiError> {
    let query = CallQuery::parse(query.as_deref())?;
    let store = &app.resources.trace;
    let mut page = store.list(&query.filter, query.cursor, query.limit);
    let calls = page.calls.into_iter();
    let calls = calls.map(|call| content::visible_call(&principal, call));
    page.calls = calls.collect();
    Ok(Json(page))
}

/// One call with all of its steps, and its neighbours under a filter.
#[utoipa::path(get, path = "/calls/{id}", tag = "admin", operation_id = "call",
    params(
        ("id" = String, Path, description = "Request id, as in `x-hookgate-request-id`."),
        ("q" = Option<String>, Query, description = "Conditions of the neighbours, as for `/calls`.")),
    responses(
        (status = 200, description = "The call.", body = CallView),
        (status = 400, description = "A parameter is invalid.", body = GoogleError),
        (status = 404, description = "The call is not kept.", body = GoogleError), AdminErrors))]
pub(super) async fn get_call(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    principal: AdminPrincipal,
) -> Result<Json<CallView>, ApiError> {
    let query = CallQuery::parse(query.as_deref())?;
    let view = app.resources.trace.view(&id, &query.filter);
    let mut view = view.ok_or_else(unknown_call)?;
    view.call = content::visible_call(&principal, view.call);
    Ok(Json(view))
}

/// Masked content of one call, if it is kept. The view is written to the decision log.
#[utoipa::path(get, path = "/calls/{id}/content", tag = "admin", operation_id = "callContent",
    params(
        ("id" = String, Path, description = "Request id, as in `x-hookgate-request-id`."),
        ("reason" = Option<String>, Query, description = "Why the content is viewed.")),
    responses(
        (status = 200, description = "The content.", body = StoredContent),
        (status = 400, description = "`reason` is given twice.", body = GoogleError),
        (status = 404, description = "No content of the call is kept.", body = GoogleError), AdminErrors))]
pub(super) async fn get_content(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    principal: AdminPrincipal,
) -> Result<Json<Arc<StoredContent>>, ApiError> {
    let reason = query_parameter(query.as_deref(), "reason")?.unwrap_or_default();
    let found = content::view_content(&app, &principal, &id, &reason).await?;
    found.map(Json).ok_or_else(unknown_call)
}

/// Calls as they end, as server-sent events `call`, each with one line of `/calls` as data. An
/// event `lost` has the number of calls that were evicted before they could be sent. The id of an
/// event is a position: the header `Last-Event-ID` continues behind it. The stream ends when the
/// credential of the request is no longer valid.
#[utoipa::path(get, path = "/calls/stream", tag = "admin", operation_id = "callStream",
    params(
        ("q" = Option<String>, Query, description = "Conditions, as for `/calls`; each can also be a parameter of its own."),
        ("after" = Option<u64>, Query, description = "Position behind which the events begin, such as `last_seq` of `/calls`, if there is no `Last-Event-ID`; from now on if absent.")),
    responses(
        (status = 200, description = "The events.", body = String, content_type = "text/event-stream"),
        (status = 400, description = "A parameter is invalid.", body = GoogleError),
        (status = 503, description = "There are too many live tails.", body = GoogleError), AdminErrors))]
pub(super) async fn stream_calls(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    principal: AdminPrincipal,
) -> Result<Response, ApiError> {
    let query = CallQuery::parse(query.as_deref())?;
    let after = live_tail::last_position(&headers).or(query.after);
    let tail = LiveTail::open(&app, principal, query.filter, after)?;
    let begin = call_events(&tail, &TraceBatch::default());
    let stop = app.resources.draining.clone();
    Ok(tail.respond(Some(begin), None, stop, call_events))
}

/// Keeps the content of a session for a while, for the reason that is given.
#[utoipa::path(post, path = "/sessions/{id}/watch", tag = "admin", operation_id = "watchSession",
    params(
        ("id" = String, Path, description = "The id in the list of sessions: that of the agent or of its history, without the caller that hooks receive behind it."),
        ("caller" = Option<String>, Query, description = "Key of the caller, or its begin, if several have a session with this id. All of them if absent.")),
    request_body = WatchRequest,
    responses(
        (status = 200, description = "The session is watched.", body = SessionWatch),
        (status = 400, description = "A field is missing or out of range, or the trace is off.", body = GoogleError),
        (status = 413, description = "The body is larger than 2 MiB.", body = GoogleError), AdminErrors))]
pub(super) async fn watch_session(
    State(app): State<App>,
    Path(session): Path<String>,
    RawQuery(query): RawQuery,
    principal: AdminPrincipal,
    body: ReceivedBody,
) -> Result<Json<SessionWatch>, ApiError> {
    let WatchRequest { minutes, reason } = json_body(body)?;
    let caller = query_parameter(query.as_deref(), "caller")?;
    let watch = content::watch(&app, &principal, session, caller, (minutes, reason));
    watch.await.map(Json)
}

/// Calls in flight, the oldest first. Of the filter, conditions on what is known at the end of a
/// call match none.
#[utoipa::path(get, path = "/calls/in_flight", tag = "admin", operation_id = "calls_in_flight",
    params(("q" = Option<String>, Query, description = "Conditions such as `caller:ci`, as for `/calls`.")),
    responses(
        (status = 200, description = "The calls.", body = InFlightCalls),
        (status = 400, description = "A condition is unknown or has a wrong value.", body = GoogleError), AdminErrors))]
pub(super) async fn list_in_flight(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<InFlightCalls>, ApiError> {
    let filter = CallQuery::parse(query.as_deref())?.filter;
    Ok(Json(app.resources.trace.calls_in_flight(&filter)))
}

/// Denials since the start, grouped by rule, decision, reason and tool.
#[utoipa::path(get, path = "/denials", tag = "admin",
    responses((status = 200, description = "The groups, those with the most denials first.", body = DenialList), AdminErrors))]
pub(super) async fn denials(State(app): State<App>, principal: AdminPrincipal) -> Json<DenialList> {
    Json(content::visible_denials(&app, &principal))
}

/// Policies and hooks of the config, and of the one that is rolled out, with their statistics
/// since the start.
#[utoipa::path(get, path = "/rules", tag = "admin",
    responses((status = 200, description = "The rules, in the order of the config, and then those that only the config of a rollout has.", body = Vec<RuleView>), AdminErrors))]
pub(super) async fn rules(State(app): State<App>) -> Json<Vec<RuleView>> {
    Json(rules::rules(&app))
}

/// For how long a session is watched, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// Minutes for which content is kept, from 1 to 1440.
    minutes: u64,
    /// Reason for which the content is needed.
    reason: String,
}

/// The parameters of a list of calls.
struct CallQuery {
    filter: TraceFilter,
    cursor: Option<u64>,
    after: Option<u64>,
    limit: usize,
}

impl CallQuery {
    fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let bad = |message: String| ApiError::new(ErrorReason::BadQuery, message);
        let filter =
            TraceFilter::from_query(query.unwrap_or_default(), &["cursor", "after", "limit"]);
        let parameter = |name| query_parameter(query, name);
        let number = |name| {
            let value = parameter(name)?.map(|value| value.parse());
            let value = value.transpose();
            value.map_err(|_| bad(format!("`{name}` must be a number")))
        };
        let limit = parameter("limit")?.map_or(Ok(MAX_PAGE_RECORDS), |limit| limit.parse());
        let limit = limit
            .ok()
            .filter(|limit| (1..=MAX_PAGE_RECORDS).contains(limit));
        Ok(Self {
            filter: filter.map_err(|error| bad(error.to_string()))?,
            cursor: number("cursor")?,
            after: number("after")?,
            limit: limit.ok_or_else(|| {
                bad(format!(
                    "`limit` must be a number from 1 to {MAX_PAGE_RECORDS}"
                ))
            })?,
        })
    }
}

/// Returns the events of calls. Without any, it is one without data: agents store its id, from
/// which they continue, and ignore the rest.
fn call_events(tail: &LiveTail, batch: &TraceBatch) -> String {
    let lost = tail.lost_event(batch);
    let calls = batch.calls.iter().map(|call| {
        // A summary of strings and numbers always becomes JSON.
        let data = serde_json::to_string(&call.summary()).unwrap_or_default();
        format!("id: {}\nevent: call\ndata: {data}\n\n", call.seq)
    });
    let text: String = lost.into_iter().chain(calls).collect();
    if text.is_empty() {
        return format!("id: {}\n\n", tail.position());
    }
    text
}

fn unknown_call() -> ApiError {
    let message = "no call with this id is kept, or no content of it";
    ApiError::new(ErrorReason::UnknownCall, message)
}
