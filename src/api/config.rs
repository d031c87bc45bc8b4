//! The config in use, its revisions, and the state of the gateway at one look.

use axum::{
    Json,
    extract::{RawQuery, State},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    request::{ReceivedBody, json_body, query_parameter},
};
use crate::{
    audit_log::PromotionRecord,
    auth::AdminPrincipal,
    error::{ApiError, ErrorReason},
    middleware::require_operator,
    state::App,
    view::{
        config::{self, ConfigDiff, ConfigView, StoredRevisionView},
        config_change::{self, on_blocking_thread},
        overview::{self, Overview},
    },
};

/// Digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// A stored revision to take into use.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromotionRequest {
    /// Version of the revision.
    revision: String,
    /// SHA-256 of the report on which the promotion is based, for the decision log.
    report: Option<String>,
}

/// A change of the config in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct Promotion {
    /// Version that was in use.
    from: String,
    /// Version that is in use.
    to: String,
}

/// State of the gateway at one look.
#[utoipa::path(get, path = "/overview", tag = "admin",
    responses((status = 200, description = "The state.", body = Overview), AdminErrors))]
pub(super) async fn get_overview(State(app): State<App>) -> Json<Overview> {
    Json(overview::overview(&app))
}

/// Config in use, without secrets, and the revisions before it.
#[utoipa::path(get, path = "/config", tag = "admin",
    responses((status = 200, description = "The config.", body = ConfigView), AdminErrors))]
pub(super) async fn get_config(State(app): State<App>) -> Json<ConfigView> {
    Json(config::current(&app))
}

/// Difference of two revisions of the config.
#[utoipa::path(get, path = "/config/diff", tag = "admin",
    params(
        ("from" = String, Query, description = "The older revision: its version, or its number in `revisions` of `/config`."),
        ("to" = String, Query, description = "The newer revision.")),
    responses(
        (status = 200, description = "The difference.", body = ConfigDiff),
        (status = 400, description = "A revision does not exist, or cannot be loaded.", body = GoogleError), AdminErrors))]
pub(super) async fn get_config_diff(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<ConfigDiff>, ApiError> {
    let parameter = |name| query_parameter(query.as_deref(), name);
    let (Some(from), Some(to)) = (parameter("from")?, parameter("to")?) else {
        let message = "`from` and `to` must be versions or numbers of revisions";
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    };
    let diff = on_blocking_thread(move || config::diff(&app, &from, &to)).await??;
    Ok(Json(diff))
}

/// Configs that are or were in use and are kept as files, that which was last taken into use
/// first.
#[utoipa::path(get, path = "/config/history", tag = "admin",
    responses(
        (status = 200, description = "The revisions.", body = Vec<StoredRevisionView>),
        (status = 400, description = "The config has no `revisions`, or they cannot be read.", body = GoogleError), AdminErrors))]
pub(super) async fn get_config_history(
    State(app): State<App>,
) -> Result<Json<Vec<StoredRevisionView>>, ApiError> {
    let history = on_blocking_thread(move || config::history(&app)).await??;
    Ok(Json(history))
}

/// Takes a stored revision into use, until the config file changes.
#[utoipa::path(post, path = "/config/promote", tag = "admin",
    request_body = PromotionRequest,
    responses(
        (status = 200, description = "The revision is in use.", body = Promotion),
        (status = 400, description = "The revision does not exist, is in use without a rollout, or has problems; the config in use stays.", body = GoogleError),
        (status = 413, description = "The body is larger than 2 MiB.", body = GoogleError),
        (status = 503, description = "It takes longer than 60 s, and goes on.", body = GoogleError), AdminErrors))]
pub(super) async fn promote(
    State(app): State<App>,
    principal: AdminPrincipal,
    body: ReceivedBody,
) -> Result<Json<Promotion>, ApiError> {
    require_operator(&principal)?;
    let PromotionRequest { revision, report } = json_body(body)?;
    if !report.as_deref().is_none_or(is_sha256) {
        let message = "`report` must be a SHA-256 in hexadecimal digits";
        return Err(ApiError::new(ErrorReason::BadDocument, message));
    }
    let promoted = config_change::promote(app, revision, principal.name, report, None).await?;
    Ok(Json(promoted.into()))
}

/// Takes the revision into use that was in use before, until the config file changes.
#[utoipa::path(post, path = "/config/rollback", tag = "admin",
    responses(
        (status = 200, description = "The revision is in use.", body = Promotion),
        (status = 400, description = "No revision was in use before, or it has problems; the config in use stays.", body = GoogleError),
        (status = 503, description = "It takes longer than 60 s, and goes on.", body = GoogleError), AdminErrors))]
pub(super) async fn roll_back(
    State(app): State<App>,
    principal: AdminPrincipal,
) -> Result<Json<Promotion>, ApiError> {
    require_operator(&principal)?;
    let rolled_back = config_change::roll_back(app, principal.name, None).await?;
    Ok(Json(rolled_back.into()))
}

impl From<PromotionRecord> for Promotion {
    fn from(record: PromotionRecord) -> Self {
        Self {
            from: record.from,
            to: record.to,
        }
    }
}

fn is_sha256(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == SHA256_DIGITS && text.bytes().all(is_digit)
}
