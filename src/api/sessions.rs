//! Stored sessions: their identity and size, never their content.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};
use jiff::Timestamp;
use serde::Serialize;
use url::form_urlencoded;
use utoipa::ToSchema;

use super::openapi_errors::{AdminErrors, GoogleError};
use crate::{
    error::{ApiError, ErrorReason},
    event::EventName,
    session::{ItemNote, SessionKey, SessionState},
    state::App,
};

const DEFAULT_LISTED_SESSIONS: usize = 100;
const MAX_LISTED_SESSIONS: usize = 1000;

/// Sessions by last activity, newest first.
#[utoipa::path(get, path = "/sessions", tag = "admin", operation_id = "sessions",
    params(("limit" = Option<u32>, Query, description = "Number of sessions, from 1 to 1000; 100 if absent.")),
    responses(
        (status = 200, description = "The sessions.", body = SessionList),
        (status = 400, description = "`limit` is out of range.", body = GoogleError), AdminErrors))]
pub(super) async fn list_sessions(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionList>, ApiError> {
    let limit = query_parameter(query.as_deref(), "limit");
    let limit = limit.map_or(Some(DEFAULT_LISTED_SESSIONS), |limit| limit.parse().ok());
    let Some(limit) = limit.filter(|limit| (1..=MAX_LISTED_SESSIONS).contains(limit)) else {
        let message = format!("`limit` must be a number from 1 to {MAX_LISTED_SESSIONS}");
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    };
    let snapshot = app.snapshot();
    let newest = snapshot.sessions.store().newest(limit).await;
    let sessions = newest
        .iter()
        .map(|(key, state)| SessionInfo::new(key, state));
    let sessions = sessions.collect();
    Ok(Json(SessionList { sessions }))
}

/// One session and what is stored of it.
#[utoipa::path(get, path = "/sessions/{id}", tag = "admin", operation_id = "session",
    params(
        ("id" = String, Path, description = "The id that hooks receive."),
        ("caller" = Option<String>, Query, description = "Key of the caller, if several have a session with this id. The most recent one if absent.")),
    responses(
        (status = 200, description = "The session.", body = SessionDetails),
        (status = 404, description = "No session has this id.", body = GoogleError), AdminErrors))]
pub(super) async fn get_session(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionDetails>, ApiError> {
    let caller = query_parameter(query.as_deref(), "caller");
    let snapshot = app.snapshot();
    let sessions = snapshot.sessions.store().find_by_id(&id).await;
    let matching = sessions
        .iter()
        .filter(|(key, _)| caller.as_ref().is_none_or(|caller| *caller == key.caller));
    let newest = matching.max_by_key(|(_, state)| state.last_seen);
    let Some((key, state)) = newest else {
        let message = "no session has this id";
        return Err(ApiError::new(ErrorReason::UnknownSession, message));
    };
    Ok(Json(SessionDetails::new(key, state)))
}

/// Sessions by last activity.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// Sessions, most recently used first.
    sessions: Vec<SessionInfo>,
}

/// One session of the list.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionInfo {
    /// The id that hooks receive.
    id: String,
    /// How it is identified: `history`, `path`, `header`, `code_assist` or `reported`.
    source: &'static str,
    /// The `User-Agent` of its first request.
    agent: String,
    /// Key of its caller: derived from the caller's name, or the SHA-256 of its credential;
    /// empty without one.
    caller: String,
    /// Time of the first request: RFC 3339 in UTC.
    started: String,
    /// Time of the last request.
    last_seen: String,
    /// Number of user prompts.
    turns: u64,
    /// Number of model calls.
    requests: u64,
}

/// One session and what is stored of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionDetails {
    #[serde(flatten)]
    session: SessionInfo,
    /// Items of its conversation for which hooks have run or will not run again.
    items: usize,
    /// Denied requests that are removed from its history.
    denied: usize,
    /// Tool results that are hidden from the model.
    replaced: usize,
    /// Prompts, results and session starts to which hooks added context.
    contexts: usize,
    /// Whether hooks stopped a turn.
    stopped: bool,
    /// Events that the agent reports itself.
    #[schema(value_type = Vec<String>)]
    reported: BTreeSet<EventName>,
}

impl SessionInfo {
    fn new(key: &SessionKey, state: &SessionState) -> Self {
        Self {
            id: key.id.clone(),
            source: state.source.as_str(),
            agent: state.agent.clone(),
            caller: key.caller.clone(),
            started: rfc3339(state.first_seen),
            last_seen: rfc3339(state.last_seen),
            turns: state.turns,
            requests: state.requests,
        }
    }
}

impl SessionDetails {
    fn new(key: &SessionKey, state: &SessionState) -> Self {
        // A note is stored for its item's prefix and for the item's own fingerprint.
        let mut notes: Vec<&ItemNote> = state.notes.values().collect();
        notes.sort();
        notes.dedup();
        let count = |has: fn(&ItemNote) -> bool| notes.iter().filter(|note| has(note)).count();
        Self {
            session: SessionInfo::new(key, state),
            items: state.evaluated.len().div_ceil(2),
            denied: count(|note| note.denied.is_some()),
            replaced: count(|note| note.replaced.is_some()),
            contexts: count(|note| note.context.is_some()) + usize::from(state.context.is_some()),
            stopped: count(|note| note.stopped.is_some()) > 0,
            reported: state.reported.clone(),
        }
    }
}

/// Returns the decoded value of a query parameter.
pub(super) fn query_parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pair = pairs.find(|(key, _)| key == name);
    pair.map(|(_, value)| value.into_owned())
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC.
fn rfc3339(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
