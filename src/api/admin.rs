//! Admin API: health, metrics, hooks, coverage, sessions and reload. Served on a listener
//! of its own.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use secrecy::ExposeSecret;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    calls,
    openapi_errors::{AdminErrors, GoogleError},
    sessions,
};
use crate::{
    config::{BUILTIN, FailureMode, HookMode},
    error::{ApiError, ErrorReason},
    state::{App, MethodPolicy},
};

/// Content type of metrics in the `OpenMetrics` text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the routes. All but health and readiness require the admin token.
pub fn routes(app: &App) -> Router<App> {
    let protected = Router::new()
        .route("/metrics", get(metrics))
        .route("/hooks", get(hooks))
        .route("/coverage", get(coverage))
        .route("/sessions", get(sessions::list_sessions))
        .route("/sessions/{id}", get(sessions::get_session))
        .route("/reload", post(reload))
        .merge(calls::routes())
        .route_layer(middleware::from_fn_with_state(
            app.clone(),
            require_admin_token,
        ));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(protected)
}

/// Liveness of the process.
#[utoipa::path(get, path = "/healthz", tag = "admin",
    responses((status = 200, description = "The process is alive.", body = Health)))]
pub(super) async fn healthz() -> Json<Health> {
    Json(Health::new("ok"))
}

/// Readiness to accept requests.
#[utoipa::path(get, path = "/readyz", tag = "admin", responses(
    (status = 200, description = "Requests are served.", body = Health),
    (status = 503, description = "The gateway is shutting down, or its decision log cannot be written.", body = Health)))]
pub(super) async fn readyz(State(app): State<App>) -> Response {
    let unavailable =
        |status: &str| (StatusCode::SERVICE_UNAVAILABLE, Json(Health::new(status))).into_response();
    if app.resources.draining.is_cancelled() {
        return unavailable("shutting down");
    }
    let snapshot = app.snapshot();
    if let Some(audit) = &snapshot.audit
        && audit.ensure_writable().is_err()
    {
        return unavailable("the decision log cannot be written");
    }
    let mut status = "ok".to_owned();
    if app.last_reload_error().is_some() {
        status.push_str("; last config reload failed, previous config in use");
    }
    let open: Vec<&str> = snapshot.upstreams.open_circuits().collect();
    if !open.is_empty() {
        status.push_str("; circuit breaker open: ");
        status.push_str(&open.join(", "));
    }
    Json(Health { status }).into_response()
}

/// Reloads the config. An invalid config changes nothing.
#[utoipa::path(post, path = "/reload", tag = "admin", responses(
    (status = 200, description = "The new config is in use.", body = Health),
    (status = 400, description = "The previous config stays; the message lists every problem of the new one.", body = GoogleError), AdminErrors))]
pub(super) async fn reload(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    match tokio::task::spawn_blocking(move || app.reload()).await {
        Ok(Ok(())) => Ok(Json(Health::new("reloaded"))),
        Ok(Err(error)) => Err(ApiError::new(ErrorReason::BadConfig, error.to_string())),
        Err(_panicked) => Err(ApiError::new(ErrorReason::Internal, "reload aborted")),
    }
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "admin",
    responses((status = 200, description = "Counters, gauges and histograms.", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"), AdminErrors))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let sessions = app.snapshot().sessions.store().count();
    let metrics = &app.resources.metrics;
    let trace_bytes = app.resources.trace.status().bytes;
    metrics
        .trace_bytes
        .set(i64::try_from(trace_bytes).unwrap_or(i64::MAX));
    metrics
        .sessions
        .set(i64::try_from(sessions).unwrap_or(i64::MAX));
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.to_text()).into_response()
}

/// Methods of the model APIs, and which hooks inspect them.
#[utoipa::path(get, path = "/coverage", tag = "admin",
    responses((status = 200, description = "The methods. Any other method is refused.", body = Vec<MethodPolicy>), AdminErrors))]
pub(super) async fn coverage(State(app): State<App>) -> Json<Vec<MethodPolicy>> {
    Json(MethodPolicy::all(&app.snapshot().config))
}

/// Policies and hooks of the config, in the order in which they run.
#[utoipa::path(get, path = "/hooks", tag = "admin",
    responses((status = 200, description = "The hooks.", body = Vec<HookInfo>), AdminErrors))]
pub(super) async fn hooks(State(app): State<App>) -> Json<Vec<HookInfo>> {
    let snapshot = app.snapshot();
    let table = snapshot.engine.table();
    let policies = table.all_policies().map(|(event, policy)| HookInfo {
        event: event.as_str(),
        name: policy.name.clone(),
        r#type: BUILTIN.to_owned(),
        policy: Some(policy.kind),
        protocol: None,
        timeout_ms: None,
        on_failure: None,
        mode: policy.mode,
        when: policy.when.as_ref().map(ToString::to_string),
    });
    let hooks = table.hooks().map(|(event, hook)| HookInfo {
        event: event.as_str(),
        name: hook.name.clone(),
        r#type: hook.spec.kind.clone(),
        policy: None,
        protocol: Some(hook.protocol.name()),
        timeout_ms: Some(u64::try_from(hook.spec.timeout.as_millis()).unwrap_or(u64::MAX)),
        on_failure: Some(hook.spec.on_failure),
        mode: hook.spec.mode,
        when: hook.when.as_ref().map(ToString::to_string),
    });
    Json(policies.chain(hooks).collect())
}

/// Status of the process.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or the problem.
    status: String,
}

impl Health {
    fn new(status: &str) -> Self {
        Self {
            status: status.to_owned(),
        }
    }
}

/// One policy or hook of the config.
#[derive(Debug, Serialize, ToSchema)]
pub struct HookInfo {
    event: &'static str,
    name: String,
    r#type: String,
    /// Kind of the policy, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    /// Protocol of the hook, unless it is a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    /// Timeout of the hook, unless it is a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    /// Failure mode of the hook, unless it is a policy: `open` or `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    on_failure: Option<FailureMode>,
    /// Mode: `enforce` or `observe`.
    #[schema(value_type = String)]
    mode: HookMode,
    /// Condition under which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
}

/// Requires the admin token, if the config has one.
async fn require_admin_token(State(app): State<App>, request: Request, next: Next) -> Response {
    let snapshot = app.snapshot();
    let Some(token) = &snapshot.config.admin.token else {
        return next.run(request).await;
    };
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let expected = token.expose_secret().as_bytes();
    if given.is_some_and(|given| verify_slices_are_equal(given, expected).is_ok()) {
        return next.run(request).await;
    }
    let message = "missing or invalid admin token";
    ApiError::new(ErrorReason::Unauthenticated, message).into_response()
}
