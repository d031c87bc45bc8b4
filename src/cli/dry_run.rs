//! One act of an agent, rehearsed: the real gateway in this process, on a free
//! port, and the mock model API behind it. Nobody outside is called but hooks.

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

use super::{Failure, test_case::AgentAction};
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

/// The most that is read of an answer, in bytes.
const MOST: usize = 256 * 1024 * 1024;

/// Hooks have timeouts of their own, and this is longer than any sensible one.
const WAIT: Duration = Duration::from_hours(1);

/// What came of an act.
#[derive(Debug, Serialize)]
pub(super) struct Rehearsal {
    /// `proceed`, `ask`, `respond`, `deny`, `stop` or `error`.
    pub(super) verdict: &'static str,
    /// Why, if that is no yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Everything that was fired, in order.
    pub(super) events: Vec<EventTrace>,
    /// What the model API was asked.
    pub(super) upstream: Vec<Asked>,
    /// The HTTP status that the agent saw.
    pub(super) status: u16,
    /// What it was told; of a stream, the list of its chunks.
    pub(super) answer: Value,
    /// All text in that.
    pub(super) text: String,
}

/// What the model API was asked.
#[derive(Debug, Serialize)]
pub(super) struct Asked {
    /// The path, which names the model.
    pub(super) path: String,
    /// The request.
    pub(super) body: Value,
}

/// What stands for the upstreams of a config: the mock takes their places.
pub(super) fn overrides() -> Overrides {
    Overrides {
        missing_upstreams: Url::parse("http://127.0.0.1:9").ok(),
        missing_secrets: MissingSecrets::Placeholder,
        ..Overrides::default()
    }
}

/// Reads a config of which no upstream and no secret is needed.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file, &overrides(), &hook::registry()).map_err(Failure::BadConfig)
}

/// The same, or a config of defaults.
pub(super) fn load_any(file: Option<&Path>) -> Result<Config, Failure> {
    match file {
        Some(file) => load(file),
        None => Config::without_file(&overrides(), &hook::registry()).map_err(Failure::BadConfig),
    }
}

/// Rehearses one act on a gateway of its own, so that nothing is remembered of
/// the one before.
pub(super) async fn rehearse(
    config: &Config,
    act: &AgentAction,
    calling: HookExecution,
) -> Result<Rehearsal, Failure> {
    let mock = mock_model_api::router(mock_config(act)?);
    let listener = TcpListener::bind(free_port()).await?;
    let config = on_free_ports(config, listener.local_addr()?);
    let witness = Arc::new(Tracer::new(calling));
    let shared = AppResources {
        tracer: Some(Arc::clone(&witness)),
        ..AppResources::default()
    };
    let server = Server::bind_with(config, shared)?;
    let gateway = format!("http://{}", server.agents_addr()?);
    let stop = CancellationToken::new();
    let (mock_stop, server_stop) = (stop.clone(), stop.clone());
    let ((), (), told) = tokio::join!(
        server::serve_mock(listener, mock.clone(), mock_stop.cancelled_owned()),
        server.run(server_stop.cancelled_owned()),
        async {
            let told = perform(&gateway, act).await;
            stop.cancel();
            told
        },
    );
    let told = told?;
    let events = witness.take_events();
    let (verdict, reason) = verdict(&events, &told);
    Ok(Rehearsal {
        verdict,
        reason,
        events,
        upstream: asked(mock).await,
        status: told.status,
        text: text(&told.answer),
        answer: told.answer,
    })
}

fn free_port() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// The same config, where it disturbs nobody and starts nothing beforehand.
fn on_free_ports(config: &Config, mock: SocketAddr) -> Config {
    let mut config = config.clone();
    rehearse_callers(&mut config.auth);
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
    for hook in groups.flat_map(|it| &mut it.hooks) {
        hook.settings.0.shift_remove("prewarm");
    }
    config
}

/// The same callers, known by their names as keys, so that a case can say who calls
/// and nobody has to. No issuer is asked, and nothing is used up.
fn rehearse_callers(auth: &mut Auth) {
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

/// The mock with the answers that are wanted of it, if any are.
fn mock_config(act: &AgentAction) -> Result<MockConfig, Failure> {
    let answers: Vec<&Value> = match act {
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
        script: Some(script.map_err(|it| Failure::Failed(format!("`answer`: {it}")))?),
        ..MockConfig::default()
    })
}

/// What the agent was told.
struct Told {
    status: u16,
    answer: Value,
}

async fn perform(gateway: &str, act: &AgentAction) -> Result<Told, Failure> {
    let (target, headers, body) = match act {
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
    let patience = UpstreamTimeouts {
        connect: WAIT,
        first_byte: WAIT,
        idle: WAIT,
    };
    let base = Url::parse(gateway).map_err(|it| Failure::Failed(it.to_string()))?;
    let client = Upstream::new(&base, None, patience).map_err(|it| failed(&it))?;
    let outgoing = OutgoingRequest {
        method: Method::POST,
        target,
        headers: all,
        body: body.to_string().into(),
    };
    let answer = client.send(outgoing, &|_| ());
    let answer = answer.await.map_err(|it| failed(&it))?;
    read(answer).await
}

async fn read(answer: UpstreamResponse) -> Result<Told, Failure> {
    let status = answer.status.as_u16();
    let streamed = answer.media_type() == "text/event-stream";
    let body = match answer.read_body(MOST).await {
        Ok(body) => body,
        // The gateway breaks off what it must not end.
        Err(UpstreamError::Interrupted(_)) => {
            let answer = json!({ "error": { "message": "the answer breaks off" } });
            return Ok(Told { status, answer });
        }
        Err(error) => return Err(failed(&error)),
    };
    let answer = if streamed {
        chunks(&body)
    } else {
        parse(&body)
    };
    Ok(Told { status, answer })
}

fn parse(body: &[u8]) -> Value {
    let text = || Value::from(String::from_utf8_lossy(body));
    serde_json::from_slice(body).unwrap_or_else(|_| text())
}

fn chunks(body: &Bytes) -> Value {
    let mut reader = SseReader::new(MOST);
    // What the gateway writes is shorter than what was read of it.
    let mut data = reader.push(body).unwrap_or_default();
    data.extend(reader.finish().unwrap_or_default());
    data.iter().map(|it| parse(it)).collect()
}

fn failed(error: &UpstreamError) -> Failure {
    Failure::Failed(format!("the rehearsed gateway does not answer: {error}"))
}

/// The strictest of what was fired, or an error that no hook made.
fn verdict(events: &[EventTrace], told: &Told) -> (&'static str, Option<String>) {
    let strictest = events.iter().map(|it| it.verdict).max();
    let strictest = strictest.unwrap_or(Action::Proceed);
    let error = told
        .answer
        .pointer("/error/message")
        .and_then(Value::as_str);
    match error {
        Some(message) if strictest < Action::Respond => ("error", Some(message.to_owned())),
        _ => {
            let first = events.iter().find(|it| it.verdict == strictest);
            (strictest.as_str(), first.and_then(|it| it.reason.clone()))
        }
    }
}

/// What the mock was asked.
async fn asked(mock: Router) -> Vec<Asked> {
    let request = Request::get("/__requests").body(Body::empty());
    let Ok(request) = request else {
        return Vec::new();
    };
    let response = match mock.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let body = to_bytes(response.into_body(), MOST).await;
    let list = body.map(|it| parse(&it)).unwrap_or_default();
    let list = list.as_array().cloned().unwrap_or_default();
    let asked = |mut it: Value| {
        let path = it.get("path").and_then(Value::as_str).unwrap_or_default();
        Asked {
            path: path.to_owned(),
            body: it.get_mut("body").map(Value::take).unwrap_or_default(),
        }
    };
    list.into_iter().map(asked).collect()
}

/// All text of an answer that an agent shows: no thoughts; of an error, its
/// message.
fn text(answer: &Value) -> String {
    let chunks = match answer {
        Value::Array(chunks) => chunks.iter().collect(),
        one => vec![one],
    };
    let text = |chunk: &Value| {
        let chunk = chunk.get("response").unwrap_or(chunk);
        let parts = chunk.pointer("/candidates/0/content/parts");
        let parts = parts.and_then(Value::as_array).into_iter().flatten();
        let shown = parts.filter(|it| it.get("thought") != Some(&Value::Bool(true)));
        let texts = shown.filter_map(|it| it.get("text")?.as_str());
        let error = chunk.pointer("/error/message").and_then(Value::as_str);
        texts.chain(error).collect::<String>()
    };
    chunks.into_iter().map(text).collect()
}
