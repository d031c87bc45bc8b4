//! Stored sessions: their identity and size, never their content.

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    request::query_parameter,
};
use crate::{
    error::{ApiError, ErrorReason},
    state::App,
    view::sessions::{self, SessionDetails, SessionList},
};

const DEFAULT_LISTED_SESSIONS: usize = 100;
const MAX_LISTED_SESSIONS: usize = 1000;

/// Sessions by last activity, newest first.
#[utoipa::path(get, path = "/sessions", tag = "admin", operation_id = "sessions",
    params(("limit" = Option<u32>, Query, description = "Number of sessions, from 1 to 1000; 100 if absent.")),
    responses(
        (status = 200, description = "The sessions.", body = SessionList),
        (status = 400, description = "`limit` is out of range.", body = GoogleError),
        (status = 503, description = "The session store does not answer within 60 s.", body = GoogleError), AdminErrors))]
pub(super) async fn list_sessions(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionList>, ApiError> {
    let limit = query_parameter(query.as_deref(), "limit")?;
    let limit = limit.map_or(Some(DEFAULT_LISTED_SESSIONS), |limit| limit.parse().ok());
    let Some(limit) = limit.filter(|limit| (1..=MAX_LISTED_SESSIONS).contains(limit)) else {
        let message = format!("`limit` must be a number from 1 to {MAX_LISTED_SESSIONS}");
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    };
    Ok(Json(sessions::newest(&app, limit).await))
}

/// One session and what is stored of it.
#[utoipa::path(get, path = "/sessions/{id}", tag = "admin", operation_id = "session",
    params(
        ("id" = String, Path, description = "The id in the list of sessions: that of the agent or of its history, without the caller that hooks receive behind it."),
        ("caller" = Option<String>, Query, description = "Key of the caller or its begin, if several have a session with this id; empty for a caller without a credential. The most recent one if absent.")),
    responses(
        (status = 200, description = "The session.", body = SessionDetails),
        (status = 400, description = "`caller` is given twice.", body = GoogleError),
        (status = 404, description = "No session has this id.", body = GoogleError),
        (status = 503, description = "The session store does not answer within 60 s.", body = GoogleError), AdminErrors))]
pub(super) async fn get_session(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<SessionDetails>, ApiError> {
    let caller = query_parameter(query.as_deref(), "caller")?;
    sessions::find(&app, &id, caller.as_deref()).await.map(Json)
}
