//! A Gemini-style model API without a model, for demos, tests and benchmarks.
//!
//! Responses are derived from the request or taken from a [`Script`]. The mock speaks
//! the Gemini API, Vertex AI and Code Assist, streams as server-sent events or as a
//! JSON array, and records requests: `GET /__requests` returns them, so that a test can
//! compare what a client sent with what the API received.
//!
//! ```
//! use mock_model_api::{MockConfig, router};
//! use tower::ServiceExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let request =
//! axum::http::Request::post("/v1beta/models/gemini-2.5-flash:generateContent")
//!     .body(axum::body::Body::from(r#"{"contents":[{"parts":[{"text":"hello"}]}]}"#))?;
//!
//! let response = router(MockConfig::default()).oneshot(request).await?;
//!
//! let body = axum::body::to_bytes(response.into_body(), 10_000).await?;
//! assert!(String::from_utf8_lossy(&body).contains("You said: hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod call;
mod code_assist;
mod reply;
mod request_log;
mod schema;
mod script;
#[cfg(test)]
mod tests;
mod tools;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{Method, StatusCode, Uri},
    response::Response,
    routing::get,
    serve::ListenerExt,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot};

pub use script::{MockError, Script};

use call::{Asked, Call};
use reply::Reply;
use request_log::RequestLog;

/// Maximum size of a request body in bytes.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Time for responses to complete after the end of [`serve`].
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Behaviour of the mock.
#[derive(Debug)]
pub struct MockConfig {
    /// Responses to give in order. Without it, responses are derived from requests.
    pub script: Option<Script>,
    /// Number of chunks of a streamed text; fewer if it has fewer characters.
    pub chunks: usize,
    /// Pause before each chunk.
    pub interval: Duration,
    /// If set, every chunk carries a filler text of this many bytes.
    pub chunk_bytes: Option<usize>,
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            script: None,
            chunks: 3,
            interval: Duration::ZERO,
            chunk_bytes: None,
        }
    }
}

/// Returns the mock as a router: the model API under any prefix, and `/__requests`,
/// which returns the recorded requests (`DELETE` clears them).
pub fn router(mut config: MockConfig) -> Router {
    let mock = Mock {
        script: config.script.take().map(Mutex::new),
        config,
        seen: RequestLog::default(),
        answered: AtomicU64::new(0),
    };
    Router::new()
        .route("/__requests", get(list_requests).delete(forget_requests))
        .fallback(answer)
        .with_state(Arc::new(mock))
}

/// Serves a [`router`] until `shutdown` completes. Responses that take longer than a second
/// from then on end with their client or the runtime.
pub async fn serve(listener: TcpListener, mock: Router, shutdown: impl Future<Output = ()>) {
    // Otherwise small chunks would be delayed.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let (stop, stopped) = oneshot::channel::<()>();
    let served = axum::serve(listener, mock).with_graceful_shutdown(async { drop(stopped.await) });
    tokio::select! {
        _ = served.into_future() => (),
        () = async {
            shutdown.await;
            drop(stop);
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        } => (),
    }
}

#[derive(Debug)]
struct Mock {
    script: Option<Mutex<Script>>,
    config: MockConfig,
    seen: RequestLog,
    answered: AtomicU64,
}

async fn list_requests(State(mock): State<Arc<Mock>>) -> Json<Value> {
    Json(mock.seen.to_json())
}

async fn forget_requests(State(mock): State<Arc<Mock>>) -> StatusCode {
    mock.seen.clear();
    StatusCode::NO_CONTENT
}

async fn answer(State(mock): State<Arc<Mock>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // If the body breaks off, the client is gone; only one that is too long gets this
    // response.
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return Reply::bad_request("Request payload size exceeds the limit.").into_response();
    };
    let finished = mock.seen.record(&head, body.clone());
    mock.reply(&head.method, &head.uri, &body)
        .unwrap_or_else(|error| error)
        .stream(mock.config.interval, finished)
}

impl Mock {
    fn reply(&self, method: &Method, uri: &Uri, body: &[u8]) -> Result<Reply, Reply> {
        let Some(call) = Call::recognise(method, uri) else {
            let message = format!("Nothing is served at {method} {}.", uri.path());
            return Err(Reply::not_found(&message));
        };
        let document = || {
            serde_json::from_slice::<Value>(body).map_err(|error| {
                Reply::bad_request(&format!("Invalid JSON payload received. {error}"))
            })
        };
        let answer = match call {
            Call::Generate(line) => {
                return Ok(self.generate(&Asked::new(line, &document()?, body.len())));
            }
            Call::CountTokens => {
                document()?;
                json!({ "totalTokens": answer::tokens(body.len()) })
            }
            Call::Embed => json!({ "embedding": answer::embedding(&document()?) }),
            Call::BatchEmbed => json!({ "embeddings": answer::embeddings(&document()?) }),
            Call::ListModels => call::models(),
            Call::GetModel(name) => call::model(name),
            Call::Helper(answer) => answer,
            Call::CreateCache(folder) => {
                let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
                let model = document()?.get("model").cloned();
                json!({ "name": format!("{folder}/mock-{number}"), "model": model })
            }
            Call::UseCache(name) => json!({ "name": name }),
        };
        Ok(Reply::object(&answer))
    }

    fn generate(&self, asked: &Asked<'_>) -> Reply {
        let chunks = if let Some(script) = &self.script {
            let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
            script.next(asked.line.framing)
        } else {
            let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
            answer::chunks(asked, number, &self.config)
        };
        match chunks {
            Ok(chunks) => Reply::chunks(&chunks, asked.line),
            Err(message) => Reply::bad_request(message),
        }
    }
}
