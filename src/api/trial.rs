//! Trials of one action under the config in use.

use axum::{Extension, Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    request::{ReceivedBody, json_body},
};
use crate::{
    auth::AdminPrincipal,
    error::ApiError,
    state::App,
    view::trial::{Trial, TrialMode, Trials},
};

/// An action to try.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    /// Hook input, Gemini request, or `{"path", "headers", "body", "answer", "then"}`.
    #[schema(value_type = Object)]
    input: Value,
    /// `plan` lists policies and hooks; `run` runs them, which needs the role `operator`.
    #[serde(default)]
    mode: TrialMode,
    /// Version of a revision of `/config`; the config in use without it.
    version: Option<String>,
}

/// Shows which policies and hooks an event or a request meets under the config in use or
/// an earlier one, on a gateway of its own with the mock model API.
#[utoipa::path(post, path = "/try", tag = "admin",
    request_body = TrialRequest,
    responses(
        (status = 200, description = "The report, as `hookgate explain --json` prints it.", body = Object),
        (status = 400, description = "The input is neither an event nor a request, or no revision has the version.", body = GoogleError),
        (status = 413, description = "The body is larger than 2 MiB.", body = GoogleError),
        (status = 503, description = "Too many trials are running, or the trial was ended after 60 s.", body = GoogleError), AdminErrors))]
pub(super) async fn try_action(
    State(app): State<App>,
    Extension(trials): Extension<Trials>,
    principal: AdminPrincipal,
    body: ReceivedBody,
) -> Result<Json<Value>, ApiError> {
    let request: TrialRequest = json_body(body)?;
    let text = request.input.to_string();
    let trial = Trial {
        input: &text,
        mode: request.mode,
        version: request.version.as_deref(),
    };
    let tried = trials.perform(&app, &principal, trial, |_, report| json!(report));
    Ok(Json(tried.await?))
}
