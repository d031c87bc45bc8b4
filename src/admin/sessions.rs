//! The sessions that are remembered: who they are and how much, never what was
//! said in them.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};
use jiff::Timestamp;
use serde::Serialize;
use url::form_urlencoded;
use utoipa::ToSchema;

use crate::{
    session::{self, SessionKey},
    state::{AdminRefusals, ApiError, App, ErrorReason, GoogleError},
};

/// How many sessions are listed unless the query says otherwise, and at most.
const LISTED: usize = 100;
const MOST: usize = 1000;

/// The sessions that were heard of last, newest first.
#[utoipa::path(get, path = "/sessions", tag = "admin",
    params(("limit" = Option<u32>, Query, description = "How many, from 1 to 1000; 100 if absent.")),
    responses(
        (status = 200, description = "The sessions.", body = SessionList),
        (status = 400, description = "`limit` is no such number.", body = GoogleError), AdminRefusals))]
pub async fn sessions(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionList>, ApiError> {
    let limit = parameter(query.as_deref(), "limit");
    let limit = limit.map_or(Some(LISTED), |it| it.parse().ok());
    let Some(limit) = limit.filter(|it| (1..=MOST).contains(it)) else {
        let message = format!("`limit` must be a number from 1 to {MOST}");
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    };
    let snapshot = app.snapshot();
    let newest = snapshot.sessions.store().newest(limit).await;
    let sessions = newest.iter().map(|(key, it)| SessionInfo::of(key, it));
    let sessions = sessions.collect();
    Ok(Json(SessionList { sessions }))
}

/// One session, and how much is remembered of it.
#[utoipa::path(get, path = "/sessions/{id}", tag = "admin", 
    params(
        ("id" = String, Path, description = "The id that hooks are told."),
        ("caller" = Option<String>, Query, description = "Whose, if callers have named their sessions alike: the key of the caller. The one that was heard of last if absent.")),
    responses(
        (status = 200, description = "The session.", body = SessionDetails),
        (status = 404, description = "No session is remembered by that id.", body = GoogleError), AdminRefusals))]
pub async fn session(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionDetails>, ApiError> {
    let whose = parameter(query.as_deref(), "caller");
    let snapshot = app.snapshot();
    let called = snapshot.sessions.store().find_by_id(&id).await;
    let asked = called
        .iter()
        .filter(|(key, _)| whose.as_ref().is_none_or(|it| *it == key.caller));
    let newest = asked.max_by_key(|(_, state)| state.last_seen);
    let Some((key, state)) = newest else {
        let message = "no session is remembered by that id";
        return Err(ApiError::new(ErrorReason::UnknownSession, message));
    };
    Ok(Json(SessionDetails::of(key, state)))
}

/// The sessions that were heard of last.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// Newest first.
    sessions: Vec<SessionInfo>,
}

/// One session.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionInfo {
    /// The id that hooks are told.
    id: String,
    /// How it is told apart: `history`, `path`, `header`, `code_assist` or
    /// `reported`.
    source: &'static str,
    /// The `User-Agent` of its first request.
    agent: String,
    /// The key of its caller: made of its name, or the SHA-256 of its credential;
    /// empty without one.
    caller: String,
    /// When it was heard of first: RFC 3339, in UTC.
    started: String,
    /// And last.
    last_seen: String,
    /// Prompts of the user.
    turns: u64,
    /// Model calls.
    requests: u64,
}

/// One session, and how much is remembered of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionDetails {
    #[serde(flatten)]
    session: SessionInfo,
    /// Pieces of its conversation that hooks were asked about, or will not be
    /// asked about again.
    items: usize,
    /// Requests that were denied and are taken out of its history.
    denied: usize,
    /// Tool results that the model is not shown.
    replaced: usize,
    /// Prompts and results that hooks added something to, and the session's start
    /// if they did so there.
    contexts: usize,
    /// Whether hooks stopped a turn of it.
    stopped: bool,
    /// Events that its agent reports itself.
    #[schema(value_type = Vec<String>)]
    reported: BTreeSet<crate::event::EventName>,
}

impl SessionInfo {
    fn of(key: &SessionKey, state: &session::SessionState) -> Self {
        Self {
            id: key.id.clone(),
            source: state.source.as_str(),
            agent: state.agent.clone(),
            caller: key.caller.clone(),
            started: time(state.first_seen),
            last_seen: time(state.last_seen),
            turns: state.turns,
            requests: state.requests,
        }
    }
}

impl SessionDetails {
    fn of(key: &SessionKey, state: &session::SessionState) -> Self {
        let counts = state.counts();
        Self {
            session: SessionInfo::of(key, state),
            items: counts.items,
            denied: counts.denied,
            replaced: counts.replaced,
            contexts: counts.contexts,
            stopped: counts.stopped > 0,
            reported: state.reported.clone(),
        }
    }
}

/// A parameter of a query, decoded.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let found = pairs.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Milliseconds since 1970 as RFC 3339.
fn time(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
