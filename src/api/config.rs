//! The config in use, its revisions, and the state of the gateway at one look.

use axum::{
    Json,
    extract::{RawQuery, State},
};

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    sessions::query_parameter,
};
use crate::{
    error::{ApiError, ErrorReason},
    state::App,
    view::{
        config::{self, ConfigDiff, ConfigView},
        overview::{self, Overview},
    },
};

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
        ("from" = u32, Query, description = "Number of the older revision in `revisions` of `/config`."),
        ("to" = u32, Query, description = "Number of the newer revision.")),
    responses(
        (status = 200, description = "The difference.", body = ConfigDiff),
        (status = 400, description = "No revision has this number.", body = GoogleError), AdminErrors))]
pub(super) async fn get_config_diff(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<ConfigDiff>, ApiError> {
    let number = |name| query_parameter(query.as_deref(), name)?.parse().ok();
    let found = match (number("from"), number("to")) {
        (Some(from), Some(to)) => config::diff(&app, from, to),
        _ => None,
    };
    found.map(Json).ok_or_else(|| {
        let message = "`from` and `to` must be numbers of revisions";
        ApiError::new(ErrorReason::BadQuery, message)
    })
}
