//! The shadow: another config that evaluates live calls after they have ended.

use axum::{
    Json,
    extract::{RawQuery, State},
};
use serde_json::{Map, Number, Value};
use url::form_urlencoded;

use super::{
    openapi_errors::{AdminErrors, GoogleError},
    request::ReceivedBody,
};
use crate::{
    auth::AdminPrincipal,
    config::ShadowSettings,
    error::{ApiError, ErrorReason},
    middleware::require_operator,
    state::{App, ShadowAction, ShadowStatus},
};

/// Settings of a shadow that a query can have.
const PARAMETERS: [&str; 3] = ["sample", "until", "hooks"];

/// State of the shadow, with the report of the calls that it has evaluated.
#[utoipa::path(get, path = "/shadow", tag = "admin",
    responses(
        (status = 200, description = "The state.", body = ShadowStatus),
        (status = 503, description = "The shadow does not answer.", body = GoogleError), AdminErrors))]
pub(super) async fn get_shadow(State(app): State<App>) -> Result<Json<ShadowStatus>, ApiError> {
    Ok(Json(
        app.resources.shadow.request(ShadowAction::Status).await?,
    ))
}

/// Starts a shadow of the config in the body, in the place of one that is running. Hooks of the
/// config do not run, and it cannot name hook files.
#[utoipa::path(post, path = "/shadow", tag = "admin",
    params(
        ("sample" = Option<f64>, Query, description = "Share of the sessions, from 0 to 1. Default: 0.1."),
        ("until" = Option<String>, Query, description = "Time after which it ends, such as `30m`. Default: `24h`."),
        ("hooks" = Option<String>, Query, description = "`policies` or `recorded`, as in the config.")),
    request_body(content = String, content_type = "application/yaml"),
    responses(
        (status = 200, description = "The shadow is running.", body = ShadowStatus),
        (status = 400, description = "The config or a parameter has problems; a shadow that is running stays, unless the config cannot be built.", body = GoogleError),
        (status = 413, description = "The body is larger than 2 MiB.", body = GoogleError),
        (status = 503, description = "The shadow does not answer.", body = GoogleError), AdminErrors))]
pub(super) async fn start_shadow(
    State(app): State<App>,
    principal: AdminPrincipal,
    RawQuery(query): RawQuery,
    body: ReceivedBody,
) -> Result<Json<ShadowStatus>, ApiError> {
    require_operator(&principal)?;
    let settings = settings(&query.unwrap_or_default())?;
    let config = String::from_utf8(body?.into()).map_err(|_| {
        let message = "the config is not UTF-8";
        ApiError::new(ErrorReason::BadConfig, message)
    })?;
    let action = ShadowAction::Start {
        config,
        settings: Box::new(settings),
        by: principal.name,
    };
    Ok(Json(app.resources.shadow.request(action).await?))
}

/// Ends the shadow that is running, and returns its report.
#[utoipa::path(delete, path = "/shadow", tag = "admin",
    responses(
        (status = 200, description = "The state after it.", body = ShadowStatus),
        (status = 503, description = "The shadow does not answer.", body = GoogleError), AdminErrors))]
pub(super) async fn end_shadow(
    State(app): State<App>,
    principal: AdminPrincipal,
) -> Result<Json<ShadowStatus>, ApiError> {
    require_operator(&principal)?;
    let action = ShadowAction::End { by: principal.name };
    Ok(Json(app.resources.shadow.request(action).await?))
}

/// Reads the settings of a shadow whose config is not a file.
fn settings(query: &str) -> Result<ShadowSettings, ApiError> {
    let refused = |message: String| ApiError::new(ErrorReason::BadQuery, message);
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if !PARAMETERS.contains(&&*name) {
            let known = PARAMETERS.join("`, `");
            let message = format!("unknown parameter `{name}`: parameters are `{known}`");
            return Err(refused(message));
        }
        let number: Option<Number> = value.parse().ok().filter(|_| name == "sample");
        let value = number.map_or_else(|| Value::String(value.into_owned()), Value::Number);
        fields.insert(name.into_owned(), value);
    }
    // The config is the body.
    fields.insert("config".to_owned(), "".into());
    let settings: ShadowSettings = serde_json::from_value(Value::Object(fields))
        .map_err(|error| refused(error.to_string()))?;
    if !(0.0..=1.0).contains(&settings.sample) {
        return Err(refused("`sample` must be from 0 to 1".to_owned()));
    }
    if settings.until.is_zero() {
        return Err(refused("`until` must be longer than 0".to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settings_are_read_from_the_query() {
        let read = settings("sample=0.5&until=30m&hooks=recorded").unwrap();

        assert_eq!((read.sample, read.until), (0.5, Duration::from_mins(30)));
        assert!(settings("").is_ok());
        for wrong in [
            "sample=2",
            "sample=x",
            "until=5",
            "until=0s",
            "until=0ms",
            "hooks=run",
        ] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
        for unknown in ["config=a", "budget=1", "other=1"] {
            let error = settings(unknown).unwrap_err();
            let expected = "parameters are `sample`, `until`, `hooks`";
            assert!(error.message().contains(expected), "{}", error.message());
        }
    }
}
