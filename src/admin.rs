//! The door for operators: health, metrics, hooks, sessions. Never on the agents'
//! port.

pub mod sessions;

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::header;
use secrecy::ExposeSecret;
use serde::Serialize;
use subtle::ConstantTimeEq;
use utoipa::ToSchema;

use crate::{
    config::{BUILTIN, FailureMode, HookMode},
    state::{AdminRefusals, ApiError, App, Covered, ErrorReason, GoogleError, Reload},
};

/// The routes of this door. Health and readiness need no token.
pub fn routes(app: &App) -> Router<App> {
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/hooks", get(hooks))
        .route("/coverage", get(coverage))
        .route("/sessions", get(sessions::sessions))
        .route("/sessions/{id}", get(sessions::session))
        .route("/reload", post(reload))
        .route_layer(middleware::from_fn_with_state(app.clone(), authenticate));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(guarded)
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "admin",
    responses((status = 200, description = "The process lives.", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
    })
}

/// Whether requests are taken.
#[utoipa::path(get, path = "/readyz", tag = "admin", responses(
    (status = 200, description = "Requests are taken.", body = Health),
    (status = 503, description = "The gateway is shutting down, or its decision log cannot be written.", body = Health)))]
pub async fn readyz(State(app): State<App>) -> Response {
    if app.shared.leaving.is_cancelled() {
        let status = Health {
            status: "shutting down".to_owned(),
        };
        return (http::StatusCode::SERVICE_UNAVAILABLE, Json(status)).into_response();
    }
    let snapshot = app.snapshot();
    let audit = snapshot.audit.clone();
    if audit.is_some_and(|it| it.check().is_err()) {
        let status = Health {
            status: "the decision log cannot be written".to_owned(),
        };
        return (http::StatusCode::SERVICE_UNAVAILABLE, Json(status)).into_response();
    }
    let mut status = "ok".to_owned();
    if app.refused_config().is_some() {
        status.push_str(", with the config from before: the last reload was refused");
    }
    let open_circuits: Vec<&str> = snapshot.upstreams.open_circuits().collect();
    if !open_circuits.is_empty() {
        let names = open_circuits.join(", ");
        status.push_str(", but left alone because they failed again and again: ");
        status.push_str(&names);
    }
    Json(Health { status }).into_response()
}

/// Reads the config anew; a bad one changes nothing.
#[utoipa::path(post, path = "/reload", tag = "admin", responses(
    (status = 200, description = "The new config is in force.", body = Health),
    (status = 400, description = "The old config stays; the message holds every problem of the new one.", body = GoogleError), AdminRefusals))]
pub async fn reload(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    let done = tokio::task::spawn_blocking(move || app.reload()).await;
    match done {
        Ok(Reload::Swapped) => Ok(Json(Health {
            status: "reloaded".to_owned(),
        })),
        Ok(Reload::Refused(why)) => Err(ApiError::new(ErrorReason::BadConfig, why)),
        Err(_) => {
            let message = "the reload did not end";
            Err(ApiError::new(ErrorReason::Internal, message))
        }
    }
}

/// Everything that is counted, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "admin",
    responses((status = 200, description = "Counters, gauges and histograms.", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"), AdminRefusals))]
pub async fn metrics(State(app): State<App>) -> Response {
    let sessions = app.snapshot().sessions.store().count();
    let metrics = &app.shared.metrics;
    metrics
        .sessions
        .set(i64::try_from(sessions).unwrap_or(i64::MAX));
    let text = metrics.to_text();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Every method of the model APIs, and what runs on it.
#[utoipa::path(get, path = "/coverage", tag = "admin",
    responses((status = 200, description = "The methods. What is not among them is refused.", body = Vec<Covered>), AdminRefusals))]
pub async fn coverage(State(app): State<App>) -> Json<Vec<Covered>> {
    Json(Covered::all(&app.snapshot().config))
}

/// Every policy and hook of the running config, in the order in which they run.
#[utoipa::path(get, path = "/hooks", tag = "admin",
    responses((status = 200, description = "The hooks.", body = Vec<HookInfo>), AdminRefusals))]
pub async fn hooks(State(app): State<App>) -> Json<Vec<HookInfo>> {
    let snapshot = app.snapshot();
    let policies = snapshot.engine.policies().map(|(event, it)| HookInfo {
        event: event.as_str(),
        name: it.name.clone(),
        r#type: BUILTIN.to_owned(),
        policy: Some(it.kind),
        carried: Carried::default(),
        mode: it.mode,
        when: it.when.as_ref().map(ToString::to_string),
    });
    let hooks = snapshot.engine.hooks().map(|(event, hook)| HookInfo {
        event: event.as_str(),
        name: hook.name.clone(),
        r#type: hook.kind.clone(),
        policy: None,
        carried: Carried {
            protocol: Some(hook.protocol.name()),
            timeout_ms: Some(u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX)),
            on_failure: Some(hook.on_failure),
        },
        mode: hook.mode,
        when: hook.when.as_ref().map(ToString::to_string),
    });
    Json(policies.chain(hooks).collect())
}

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or what is the matter.
    status: String,
}

/// One policy or hook of the running config.
#[derive(Debug, Serialize, ToSchema)]
pub struct HookInfo {
    event: &'static str,
    name: String,
    r#type: String,
    /// Which policy it is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    #[serde(flatten)]
    #[schema(inline)]
    carried: Carried,
    /// `enforce` or `observe`.
    #[schema(value_type = String)]
    mode: HookMode,
    /// When it runs, if not always.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
}

/// What only hooks that are reached outside have.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Carried {
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    /// `open` or `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    on_failure: Option<FailureMode>,
}

/// Asks for the token, if the config has one.
async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    let snapshot = app.snapshot();
    let Some(token) = &snapshot.config.admin.token else {
        return next.run(request).await;
    };
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|it| it.as_bytes().strip_prefix(b"Bearer "));
    let expected = token.expose_secret().as_bytes();
    if given.is_some_and(|it| it.ct_eq(expected).into()) {
        return next.run(request).await;
    }
    let message = "the admin token is missing or wrong";
    ApiError::new(ErrorReason::Unauthenticated, message).into_response()
}
