//! Dry runs: one action of an agent on a real gateway in this process, on a free port,
//! with the mock model API as its upstream. Only hooks are called outside.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use url::Url;

use super::{failure::Failure, test_case::AgentAction};
use crate::{
    auth,
    config::{Auth, Config, Grant, MissingSecrets, Overrides, StoreSettings},
    event::Action,
    hook::{self, EventTrace, HookExecution, Tracer},
    server::{self, Server},
    state::AppResources,
    upstream::{
        OutgoingRequest, Upstream, UpstreamError, UpstreamResponse, UpstreamTimeouts,
        sse::SseReader,
    },
};
use mock_model_api::{self, MockConfig, Script};

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// Timeout of the request to the gateway, longer than any timeout of hooks.
const REQUEST_TIMEOUT: Duration = Duration::from_hours(1);

/// The result of a dry run.
#[derive(Debug, Serialize)]
pub(super) struct DryRunReport {
    /// `proceed`, `ask`, `respond`, `deny`, `stop` or `error`.
    pub(super) verdict: &'static str,
    /// The reason, unless the verdict is `proceed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// All events that were fired, in order.
    pub(super) events: Vec<EventTrace>,
    /// The requests to the model API.
    pub(super) upstream: Vec<RecordedRequest>,
    /// The HTTP status of the response.
    pub(super) status: u16,
    /// The body of the response; of a stream, the list of its chunks.
    pub(super) answer: Value,
    /// All text of the response.
    pub(super) text: String,
}

/// A request to the model API.
#[derive(Debug, Serialize)]
pub(super) struct RecordedRequest {
    /// The path, with the name of the model.
    pub(super) path: String,
    /// The body of the request.
    pub(super) body: Value,
}

/// Returns overrides for configs whose upstreams and secrets are not used.
pub(super) fn overrides() -> Overrides {
    Overrides {
        missing_upstreams: Url::parse("http://127.0.0.1:9").ok(),
        missing_secrets: MissingSecrets::Placeholder,
        ..Overrides::default()
    }
}

/// Loads a config without requiring its upstreams and secrets.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file, &overrides(), &hook::registry()).map_err(Failure::from)
}

/// Loads a config, or the default config without a file.
pub(super) fn load_or_default(file: Option<&Path>) -> Result<Config, Failure> {
    match file {
        Some(file) => load(file),
        None => Config::without_file(&overrides(), &hook::registry()).map_err(Failure::from),
    }
}

/// Performs an action on a new gateway, which has no sessions of earlier ones.
pub(super) async fn dry_run(
    config: &Config,
    action: &AgentAction,
    execution: HookExecution,
) -> Result<DryRunReport, Failure> {
    let mock = mock_model_api::router(mock_config(action)?);
    let listener = TcpListener::bind(free_port()).await?;
    let config = on_free_ports(config, listener.local_addr()?);
    let tracer = Arc::new(Tracer::new(execution));
    let resources = AppResources {
        tracer: Some(Arc::clone(&tracer)),
        ..AppResources::default()
    };
    let server = Server::bind_with(config, resources)?;
    let gateway = format!("http://{}", server.agents_addr()?);
    let stop = CancellationToken::new();
    let (mock_stop, server_stop) = (stop.clone(), stop.clone());
    let ((), (), response) = tokio::join!(
        server::serve_mock(listener, mock.clone(), mock_stop.cancelled_owned()),
        server.run(server_stop.cancelled_owned()),
        async {
            let response = perform(&gateway, action).await;
            stop.cancel();
            response
        },
    );
    let response = response?;
    let events = tracer.take_events();
    let (verdict, reason) = verdict(&events, &response.answer);
    Ok(DryRunReport {
        verdict,
        reason,
        events,
        upstream: recorded_requests(mock).await,
        status: response.status,
        text: text(&response.answer),
        answer: response.answer,
    })
}

fn free_port() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// Returns the config with free ports, and without files, exporters, shared stores and
/// prewarmed processes.
fn on_free_ports(config: &Config, mock: SocketAddr) -> Config {
    let mut config = config.clone();
    authenticate_by_name(&mut config.auth);
    config.listen = free_port();
    config.admin.listen = free_port();
    config.sessions.transcripts = None;
    config.audit = None;
    config.otlp = None;
    config.sessions.store = StoreSettings::Memory;
    if let Ok(url) = Url::parse(&format!("http://{mock}")) {
        for upstream in config.upstreams.iter_mut() {
            upstream.url = url.clone();
            upstream.fallback = None;
        }
    }
    let groups = config.hooks.values_mut().flatten();
    for hook in groups.flat_map(|group| &mut group.hooks) {
        hook.settings.0.shift_remove("prewarm");
    }
    config
}

/// Lets callers authenticate by their names as keys, or not at all. Issuers are not
/// contacted, and quotas do not apply.
fn authenticate_by_name(auth: &mut Auth) {
    for key in &mut auth.keys {
        key.sha256 = auth::digest(&key.name);
        key.grant = Grant {
            in_flight: usize::MAX,
            models: key.grant.models.take(),
            tools: key.grant.tools.take(),
            ..Grant::default()
        };
    }
    (auth.jwt, auth.mtls, auth.anonymous) = (None, None, true);
}

/// Returns a mock with the responses of the action, if it has any.
fn mock_config(action: &AgentAction) -> Result<MockConfig, Failure> {
    let answers: Vec<&Value> = match action {
        AgentAction::Call(call) => call.answer.iter().chain(&call.then).collect(),
        AgentAction::Report(_) => Vec::new(),
    };
    if answers.is_empty() {
        return Ok(MockConfig::default());
    }
    let mut lines = Vec::new();
    for answer in answers {
        let chunks = match answer {
            Value::Array(chunks) => json!(chunks),
            one => {
                lines.push(json!({ "method": "generateContent", "response": one }).to_string());
                json!([one])
            }
        };
        let stream = json!({ "method": "generateContentStream", "response": chunks });
        lines.push(stream.to_string());
    }
    let script = Script::parse(&lines.join("\n"));
    Ok(MockConfig {
        script: Some(script.map_err(|error| Failure::Failed(format!("`answer`: {error}")))?),
        ..MockConfig::default()
    })
}

/// The response to the agent.
struct AgentResponse {
    status: u16,
    answer: Value,
}

async fn perform(gateway: &str, action: &AgentAction) -> Result<AgentResponse, Failure> {
    let (target, headers, body) = match action {
        AgentAction::Report(event) => {
            let target = "/hookgate/v1/events?wait=1".to_owned();
            (target, HeaderMap::new(), json!(event))
        }
        AgentAction::Call(call) => (call.path.clone(), call.headers.clone(), json!(call.body)),
    };
    let mut all = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )]);
    all.extend(headers);
    let timeouts = UpstreamTimeouts {
        connect: REQUEST_TIMEOUT,
        first_byte: REQUEST_TIMEOUT,
        idle: REQUEST_TIMEOUT,
    };
    let base = Url::parse(gateway).map_err(|error| Failure::Failed(error.to_string()))?;
    let client = Upstream::new(&base, None, timeouts).map_err(|error| failure(&error))?;
    let outgoing = OutgoingRequest {
        method: Method::POST,
        target,
        headers: all,
        body: body.to_string().into(),
    };
    let answer = client.send(outgoing, &|_| ());
    let answer = answer.await.map_err(|error| failure(&error))?;
    read(answer).await
}

async fn read(answer: UpstreamResponse) -> Result<AgentResponse, Failure> {
    let status = answer.status.as_u16();
    let streamed = answer.media_type() == "text/event-stream";
    let body = match answer.read_body(MAX_RESPONSE_BYTES).await {
        Ok(body) => body,
        // The gateway interrupts a response that must not look complete.
        Err(UpstreamError::Interrupted(_)) => {
            let answer = json!({ "error": { "message": "the response was interrupted" } });
            return Ok(AgentResponse { status, answer });
        }
        Err(error) => return Err(failure(&error)),
    };
    let answer = if streamed {
        chunks(&body)
    } else {
        parse(&body)
    };
    Ok(AgentResponse { status, answer })
}

fn parse(body: &[u8]) -> Value {
    let text = || Value::from(String::from_utf8_lossy(body));
    serde_json::from_slice(body).unwrap_or_else(|_| text())
}

fn chunks(body: &Bytes) -> Value {
    let mut reader = SseReader::new(MAX_RESPONSE_BYTES);
    // An event is never larger than the response, so there is no error.
    let mut data = reader.push(body).unwrap_or_default();
    data.extend(reader.finish().unwrap_or_default());
    data.iter().map(|event| parse(event)).collect()
}

fn failure(error: &UpstreamError) -> Failure {
    Failure::Failed(format!(
        "the gateway of the dry run does not respond: {error}"
    ))
}

/// Returns the strictest verdict of all events, or an error outside of hooks.
fn verdict(events: &[EventTrace], answer: &Value) -> (&'static str, Option<String>) {
    let strictest = events.iter().map(|event| event.verdict).max();
    let strictest = strictest.unwrap_or(Action::Proceed);
    let error = answer.pointer("/error/message").and_then(Value::as_str);
    match error {
        Some(message) if strictest < Action::Respond => ("error", Some(message.to_owned())),
        _ => {
            let first = events.iter().find(|event| event.verdict == strictest);
            (
                strictest.as_str(),
                first.and_then(|event| event.reason.clone()),
            )
        }
    }
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

/// Returns all text of a response that an agent displays, without thoughts; of an
/// error, its message.
fn text(answer: &Value) -> String {
    let chunks = match answer {
        Value::Array(chunks) => chunks.iter().collect(),
        one => vec![one],
    };
    let text = |chunk: &Value| {
        let chunk = chunk.get("response").unwrap_or(chunk);
        let parts = chunk.pointer("/candidates/0/content/parts");
        let parts = parts.and_then(Value::as_array).into_iter().flatten();
        let shown = parts.filter(|part| part.get("thought") != Some(&Value::Bool(true)));
        let texts = shown.filter_map(|part| part.get("text")?.as_str());
        let error = chunk.pointer("/error/message").and_then(Value::as_str);
        texts.chain(error).collect::<String>()
    };
    chunks.into_iter().map(text).collect()
}
