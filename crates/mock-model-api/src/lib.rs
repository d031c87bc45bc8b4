//! A model API without a model, for demos, tests and benchmarks.
//!
//! The mock speaks the APIs of Google (Gemini API, Vertex AI, Code Assist), Anthropic
//! (Messages) and `OpenAI` (Chat Completions, Responses), whole and streamed. Responses
//! are derived from the request or taken from a [`Script`], which is one for all APIs.
//! Requests that the API would refuse for calls and results that do not match get its
//! error. The mock records requests: `GET /__requests` returns them, so that a test can
//! compare what a client sent with what the API received.
//!
//! A prompt that names a declared tool gets a call of it. A JSON object after the name
//! becomes its arguments. A result of a tool is repeated, and every other prompt too:
//!
//! ```
//! use mock_model_api::{MockConfig, router};
//! use tower::ServiceExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let mock = router(MockConfig::default());
//! for (path, body) in [
//!     (
//!         "/v1beta/models/gemini-2.5-flash:generateContent",
//!         r#"{"contents":[{"parts":[{"text":"hello"}]}]}"#,
//!     ),
//!     (
//!         "/v1/messages",
//!         r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}"#,
//!     ),
//!     (
//!         "/v1/chat/completions",
//!         r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#,
//!     ),
//!     ("/v1/responses", r#"{"model":"m","input":"hello","stream":true}"#),
//! ] {
//!     let request = axum::http::Request::post(path).body(axum::body::Body::from(body))?;
//!
//!     let response = mock.clone().oneshot(request).await?;
//!
//!     let body = axum::body::to_bytes(response.into_body(), 10_000).await?;
//!     assert!(String::from_utf8_lossy(&body).contains("You said: hello"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod anthropic;
mod blocks;
mod call;
mod chat;
mod code_assist;
mod config;
mod content;
mod family;
mod mock;
mod openai;
mod reply;
mod request_log;
mod responses;
mod schema;
mod script;
mod sse;
#[cfg(test)]
mod tests;
mod tools;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
    routing::get,
    serve::ListenerExt,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

pub use config::MockConfig;
pub use script::{MockError, ResponseForm, Script};

use family::Family;
use mock::Mock;
use reply::Reply;

/// Maximum size of a request body in bytes.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Time for responses to complete after the end of [`serve`].
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the mock as a router: the model APIs under any prefix, and `/__requests`,
/// which returns the recorded requests (`DELETE` clears them).
pub fn router(config: MockConfig) -> Router {
    Router::new()
        .route("/__requests", get(list_requests).delete(clear_requests))
        .fallback(answer)
        .with_state(Arc::new(Mock::new(config)))
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

async fn list_requests(State(mock): State<Arc<Mock>>) -> Json<Value> {
    Json(mock.seen.to_json())
}

async fn clear_requests(State(mock): State<Arc<Mock>>) -> StatusCode {
    mock.seen.clear();
    StatusCode::NO_CONTENT
}

async fn answer(State(mock): State<Arc<Mock>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // If the body breaks off, the client is gone; only one that is too long gets this
    // response.
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        let family = Family::of(&head.uri, &head.headers);
        let message = "Request payload size exceeds the limit.";
        return Reply::bad_request(family, message).into_response();
    };
    let finished = mock.seen.record(&head, body.clone());
    mock.reply(&head, &body)
        .stream(mock.config.interval, finished)
}
