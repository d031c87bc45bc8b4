//! Replicas that share a Redis.

use axum::{Json, extract::State};

use super::openapi_errors::{AdminErrors, GoogleError};
use crate::{error::ApiError, fleet::FleetStatus, state::App, view};

/// Replicas that share a Redis, their configs and the last lines of their decision logs.
#[utoipa::path(get, path = "/fleet", tag = "admin", responses(
    (status = 200, description = "The replicas.", body = FleetStatus),
    (status = 404, description = "The config has no Redis.", body = GoogleError),
    (status = 503, description = "Redis is unavailable.", body = GoogleError), AdminErrors))]
pub(super) async fn get_fleet(State(app): State<App>) -> Result<Json<FleetStatus>, ApiError> {
    Ok(Json(view::fleet::status(&app).await?))
}
