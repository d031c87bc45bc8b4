//! Trials: one action of an agent on a gateway of its own in this process, with the mock
//! model API as its upstream. Only hooks are called outside.

mod expectation;
mod json_diff;
mod report;
mod script;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
};
use futures_util::future::BoxFuture;
use http::header;
use mock_model_api::MockConfig;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use url::Url;

use self::{expectation::compare, script::script};
pub use self::{
    json_diff::{ExtraKeys, differences, display_value},
    report::{RecordedRequest, TrialReport, answer_chunks, error_message},
};
use crate::{
    auth,
    config::{Auth, Config, ConfigError, Grant, MissingSecrets, Overrides, TraceSettings},
    dialect::{self, Dialect},
    hook::{self, HookExecution, Tracer},
    observe::trace::TraceFilter,
    sha256::sha256,
    state::{App, AppResources, BuildError},
    test_case::{AgentAction, TestCase, UnreadableAnswer, request_line},
    upstream::{
        content_headers::{self, MediaType},
        sse::SseReader,
    },
};

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// Timeout of the request to the gateway, longer than any timeout of hooks.
const REQUEST_TIMEOUT: Duration = Duration::from_hours(1);

/// Handles one request of an agent: everything between a connection and the hooks. A
/// parameter, because that is on a higher layer.
pub type AgentHandler = fn(App, Request) -> BoxFuture<'static, Response>;

/// Reason why a trial has no result.
#[derive(Debug, Error)]
pub enum TrialError {
    /// Something that the config asks for cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The action has a response of the model API that cannot be read.
    #[error(transparent)]
    Answer(#[from] UnreadableAnswer),
    /// The mock cannot be started.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The action is not a valid request.
    #[error("invalid request: {0}")]
    Request(#[from] http::Error),
    /// The gateway did not respond in time.
    #[error("the gateway of the trial does not respond")]
    Timeout,
}

/// Returns overrides for configs whose upstreams and secrets are not used.
pub fn overrides() -> Overrides {
    Overrides {
        missing_upstreams: Url::parse("http://127.0.0.1:9").ok(),
        missing_secrets: MissingSecrets::Placeholder,
        ..Overrides::default()
    }
}

/// Loads a config, or the default config without a file, and requires neither its upstreams
/// nor its secrets.
///
/// # Errors
///
/// Returns every problem of the config.
pub fn load_config(file: Option<&Path>) -> Result<Config, ConfigError> {
    match file {
        Some(file) => Config::load(file, &overrides(), &hook::registry()),
        None => Config::without_file(&overrides(), &hook::registry()),
    }
}

/// Performs an action on a new gateway, which has no sessions of earlier ones.
///
/// # Errors
///
/// Returns an error if the gateway cannot be built or does not respond.
pub async fn run_trial(
    config: &Config,
    action: &AgentAction,
    execution: HookExecution,
    handler: AgentHandler,
    tasks: TaskTracker,
) -> Result<TrialReport, TrialError> {
    let mock = mock_model_api::router(MockConfig {
        script: script(action)?,
        ..MockConfig::default()
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let tracer = Arc::new(Tracer::new(execution));
    let resources = AppResources {
        tracer: Some(Arc::clone(&tracer)),
        tasks,
        ..AppResources::default()
    };
    // Ends the background tasks also if this future is dropped.
    let _shutdown = resources.shutdown.clone().drop_guard();
    let trace = Arc::clone(&resources.trace);
    let isolated = isolated(config, action, listener.local_addr()?);
    let app = App::new(isolated, resources).await?;
    let snapshot = app.snapshot();
    let positions = snapshot.trace.rules().map(|(id, rule)| (id, rule.rule.at));
    let positions = positions.collect();
    drop(snapshot);
    let request = request(action)?;
    let stop = CancellationToken::new();
    let ((), response) = tokio::join!(
        mock_model_api::serve(listener, mock.clone(), stop.cancelled()),
        async {
            let _stop = stop.clone().drop_guard();
            let response = perform(&app, handler, request);
            let response = tokio::time::timeout(REQUEST_TIMEOUT, response).await;
            app.end().await;
            response
        },
    );
    let (status, answer) = response.map_err(|_elapsed| TrialError::Timeout)?;
    let events = tracer.take_events();
    let (verdict, reason) = report::verdict(&events, &answer);
    // Policies and hooks that are listed only have not run.
    let is_known = execution == HookExecution::Executed || verdict == report::ERROR;
    let records = trace.list(&TraceFilter::default(), None, 1);
    Ok(TrialReport {
        verdict: is_known.then_some(verdict),
        reason,
        events,
        positions,
        record: records.calls.into_iter().next(),
        upstream: recorded_requests(mock).await,
        status,
        text: report::shown_text(&answer, dialect_of(action)),
        answer,
    })
}

/// Runs a test case. Returns the differences from its expected outcome.
///
/// # Errors
///
/// Returns an error if the gateway cannot be built or does not respond.
pub async fn run_case(
    config: &Config,
    case: &TestCase,
    handler: AgentHandler,
) -> Result<Vec<String>, TrialError> {
    let run = run_trial(
        config,
        &case.action,
        HookExecution::Executed,
        handler,
        TaskTracker::new(),
    );
    Ok(compare(&case.expected, &Box::pin(run).await?))
}

/// Returns the config without effects outside, and with the mock as its upstreams.
fn isolated(config: &Config, action: &AgentAction, mock: SocketAddr) -> Config {
    let mut config = config.clone();
    config.isolate();
    auth::add_named_caller(&mut config.auth, action.headers(), action.query());
    authenticate_by_name(&mut config.auth);
    config.listen = (Ipv4Addr::LOCALHOST, 0).into();
    config.trace = TraceSettings::default();
    config.trace.content.reasons = true;
    if let Ok(url) = Url::parse(&format!("http://{mock}")) {
        for upstream in config.upstreams.iter_mut() {
            upstream.url = url.clone();
            upstream.fallback = None;
        }
    }
    config
}

/// Lets callers authenticate by their names as keys, or not at all. Issuers are not
/// contacted, and quotas do not apply.
fn authenticate_by_name(auth: &mut Auth) {
    for key in &mut auth.keys {
        key.sha256 = sha256(&key.name);
        key.grant = Grant {
            in_flight: usize::MAX,
            models: key.grant.models.take(),
            tools: key.grant.tools.take(),
            ..Grant::default()
        };
    }
    (auth.jwt, auth.mtls, auth.anonymous) = (None, None, true);
    auth.limits.store = None;
}

/// Returns the dialect in which the agent of an action is answered.
fn dialect_of(action: &AgentAction) -> &'static dyn Dialect {
    let path = match action {
        AgentAction::Call(call) => call.path.as_str(),
        AgentAction::Report(_) => "",
    };
    dialect::dialect_of(request_line(path))
}

/// Returns the request that an agent sends.
fn request(action: &AgentAction) -> Result<Request, http::Error> {
    let (target, body) = match action {
        AgentAction::Report(report) => ("/hookgate/v1/events?wait=1", &report.event),
        AgentAction::Call(call) => (call.path.as_str(), &call.body),
    };
    let mut request = Request::post(target)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!(body).to_string()))?;
    request.headers_mut().extend(action.headers().clone());
    Ok(request)
}

/// Returns status and body of the response.
async fn perform(app: &App, handler: AgentHandler, request: Request) -> (u16, Value) {
    app.start();
    let (head, body) = handler(app.clone(), request).await.into_parts();
    let answer = match to_bytes(body, MAX_RESPONSE_BYTES).await {
        Ok(body) if content_headers::media_type(&head.headers) == MediaType::EventStream => {
            chunks(&body)
        }
        Ok(body) => parse(&body),
        // The gateway interrupts a response that must not look complete.
        Err(_) => json!({ "error": { "message": "the response was interrupted" } }),
    };
    (head.status.as_u16(), answer)
}

fn parse(body: &[u8]) -> Value {
    let text = || Value::from(String::from_utf8_lossy(body));
    serde_json::from_slice(body).unwrap_or_else(|_| text())
}

fn chunks(body: &[u8]) -> Value {
    let mut reader = SseReader::new(MAX_RESPONSE_BYTES);
    // An event is never larger than the response, so there is no error.
    let mut data = reader.push(body).unwrap_or_default();
    data.extend(reader.finish().unwrap_or_default());
    data.iter().map(|event| parse(event)).collect()
}

/// Returns the requests that the mock received.
async fn recorded_requests(mock: Router) -> Vec<RecordedRequest> {
    let request = Request::get("/__requests").body(Body::empty());
    let Ok(request) = request else {
        return Vec::new();
    };
    let response = match mock.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let body = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await;
    let list = body.map(|body| parse(&body)).unwrap_or_default();
    let list = list.as_array().cloned().unwrap_or_default();
    let request = |mut entry: Value| {
        let path = entry.get("path").and_then(Value::as_str);
        RecordedRequest {
            path: path.unwrap_or_default().to_owned(),
            body: entry.get_mut("body").map(Value::take).unwrap_or_default(),
        }
    };
    list.into_iter().map(request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Secret, StoreSettings};
    use crate::test_case::DEFAULT_MODEL;

    #[test]
    fn a_trial_uses_no_shared_store() {
        let redis = || StoreSettings::Redis {
            url: Secret::from("redis://127.0.0.1:9"),
        };
        let mut config = load_config(None).unwrap();
        config.sessions.store = redis();
        config.auth.limits.store = Some(redis());

        let report = AgentAction::from_json(r#"{"hook_event_name":"SessionEnd"}"#, DEFAULT_MODEL);
        let isolated = isolated(&config, &report.unwrap(), (Ipv4Addr::LOCALHOST, 9).into());

        assert_eq!(isolated.sessions.store, StoreSettings::Memory);
        assert!(isolated.limits_redis().is_none());
    }
}
