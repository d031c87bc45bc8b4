//! Admin API: health, metrics, hooks, coverage, sessions and reload. Served on a listener
//! of its own.

use axum::{
    Json, Router,
    extract::State,
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    calls, config, fleet,
    openapi_errors::{AdminErrors, GoogleError, HealthErrors},
    sessions, shadow, trial,
};
use crate::{
    audit_log::AuditLog,
    auth::{AdminPrincipal, LimitsMode, LossMode, SharedLimits},
    config::{BUILTIN, FailureMode, HookMode},
    error::ApiError,
    middleware::{identify_admin_user, limit_time, require_admin_user, require_operator},
    proof::GuardStatus,
    state::{App, ReloadCause, UnknownPath},
    timestamp::whole_milliseconds,
    view::{self, config_change::on_blocking_thread, coverage::MethodCoverage},
};

/// Content type of metrics in the `OpenMetrics` text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the routes. All but health and readiness require a credential, if the config
/// has one.
pub fn routes(app: &App) -> Router<App> {
    let protected = Router::new()
        .route("/metrics", get(metrics))
        .route("/hooks", get(hooks))
        .route("/coverage", get(coverage))
        .route("/coverage/unknown", get(unknown_paths))
        .route("/overview", get(config::get_overview))
        .route("/config", get(config::get_config))
        .route("/config/diff", get(config::get_config_diff))
        .route("/config/history", get(config::get_config_history))
        .route("/config/promote", post(config::promote))
        .route("/config/rollback", post(config::roll_back))
        .route("/fleet", get(fleet::get_fleet))
        .route("/sessions", get(sessions::list_sessions))
        .route("/sessions/{id}", get(sessions::get_session))
        .route("/reload", post(reload))
        .route(
            "/shadow",
            get(shadow::get_shadow)
                .post(shadow::start_shadow)
                .delete(shadow::end_shadow),
        )
        .merge(calls::routes())
        .route("/try", post(trial::try_action))
        .route_layer(from_fn(require_admin_user))
        .route_layer(from_fn_with_state(app.clone(), identify_admin_user))
        .route_layer(from_fn(limit_time));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(protected)
}

/// Liveness of the process.
#[utoipa::path(get, path = "/healthz", tag = "admin",
    responses((status = 200, description = "The process runs.", body = Health), HealthErrors))]
pub(super) async fn healthz() -> Json<Health> {
    Json(Health::new("ok"))
}

/// Readiness to accept requests.
#[utoipa::path(get, path = "/readyz", tag = "admin", responses(
    (status = 200, description = "Requests are served.", body = Health),
    (status = 503, description = "The gateway is shutting down, or its decision log cannot be written.", body = Health),
    HealthErrors))]
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
    let mut notes = vec!["ok".to_owned()];
    if app.refused_reload().is_some() {
        notes.push("last config reload failed, previous config in use".to_owned());
    }
    let listed = |label: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{label}: {}", names.join(", ")))
    };
    let outdated = app.resources.bundles.outdated();
    notes.extend(listed("bundles may be out of date", &outdated));
    notes.extend(listed("guards not proven", &snapshot.unproven_guards()));
    let limits = snapshot.shared.limits.as_ref();
    notes.extend(limits.map(|limits| limits_status(limits)));
    let open: Vec<String> = snapshot
        .open_circuits()
        .into_iter()
        .map(str::to_owned)
        .collect();
    notes.extend(listed("circuit breaker open", &open));
    Json(Health::new(&notes.join("; "))).into_response()
}

/// Describes limits that replicas share.
fn limits_status(limits: &SharedLimits) -> String {
    match limits.mode() {
        LimitsMode::Shared => "caller limits shared".to_owned(),
        LimitsMode::Lost(mode) => {
            let applied = match mode {
                LossMode::Divided(1) => "each replica applies all of each".to_owned(),
                LossMode::Divided(replicas) => format!("each replica applies 1/{replicas} of each"),
                LossMode::Unlimited => "none is applied".to_owned(),
                LossMode::Refused => "limited callers are refused".to_owned(),
            };
            let cause = limits.loss_cause();
            format!("caller limits not shared, {cause}: {applied}")
        }
    }
}

/// Reloads the config. An invalid config changes nothing.
#[utoipa::path(post, path = "/reload", tag = "admin", responses(
    (status = 200, description = "The new config is in use.", body = Health),
    (status = 400, description = "The previous config stays; the message lists every problem of the new one.", body = GoogleError),
    (status = 503, description = "It takes longer than 60 s, and goes on.", body = GoogleError), AdminErrors))]
pub(super) async fn reload(
    State(app): State<App>,
    principal: AdminPrincipal,
) -> Result<Json<Health>, ApiError> {
    require_operator(&principal)?;
    let cause = ReloadCause::User(principal.name);
    on_blocking_thread(move || app.reload(cause)).await??;
    Ok(Json(Health::new("reloaded")))
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "admin",
    responses((status = 200, description = "Counters, gauges and histograms.", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"), AdminErrors))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let snapshot = app.snapshot();
    let guards = snapshot.guard_statuses();
    let guards = guards.map(|status| (status.name, status.proven));
    let circuits = snapshot.circuits().into_iter();
    let sessions = snapshot.sessions.store().count();
    let metrics = &app.resources.metrics;
    let trace_bytes = app.resources.trace.status().bytes;
    metrics
        .trace_bytes
        .set(i64::try_from(trace_bytes).unwrap_or(i64::MAX));
    metrics
        .sessions
        .set(i64::try_from(sessions).unwrap_or(i64::MAX));
    let audit = snapshot.audit.as_deref();
    let is_failing = audit.is_some_and(AuditLog::is_failing);
    metrics.audit_failing.set(is_failing.into());
    (
        [(header::CONTENT_TYPE, OPEN_METRICS)],
        metrics.to_text_with_config(&snapshot.config.version, guards, circuits),
    )
        .into_response()
}

/// Methods of the model APIs, and which hooks inspect them.
#[utoipa::path(get, path = "/coverage", tag = "admin",
    responses((status = 200, description = "The methods. Any other method is refused.", body = Vec<MethodCoverage>), AdminErrors))]
pub(super) async fn coverage(State(app): State<App>) -> Json<Vec<MethodCoverage>> {
    Json(view::coverage::methods(&app))
}

/// Requests that were refused because no method has their path, the most recent first.
#[utoipa::path(get, path = "/coverage/unknown", tag = "admin",
    responses((status = 200, description = "Callers and paths.", body = Vec<UnknownPath>), AdminErrors))]
pub(super) async fn unknown_paths(State(app): State<App>) -> Json<Vec<UnknownPath>> {
    Json(app.resources.traffic.unknown_paths())
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
        when: policy.condition(),
        proof: snapshot.guard_status(policy.rule),
    });
    let hooks = table.hooks().map(|hook| HookInfo {
        event: hook.event.as_str(),
        name: hook.name.clone(),
        r#type: hook.spec.kind.clone(),
        policy: None,
        protocol: Some(hook.protocol.name()),
        timeout_ms: Some(whole_milliseconds(hook.spec.timeout)),
        on_failure: Some(hook.spec.on_failure),
        mode: hook.spec.mode,
        when: hook.when.as_ref().map(ToString::to_string),
        proof: snapshot.guard_status(hook.rule),
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
    /// Last proof, if the config has cases for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<GuardStatus>,
}
