//! HTTP clients for everything but model calls: servers of keys, policies, log lines and
//! telemetry, and other gateways.

use std::time::Duration;

use http::StatusCode;
use reqwest::{ClientBuilder, redirect};
use serde_json::Value;
use thiserror::Error;

use crate::{
    error_chain::{error_chain, message},
    invisible_char::escape_invisible,
};

/// Maximum number of characters of another server's response in a message.
const MAX_QUOTED_CHARS: usize = 200;

/// Timeout of connecting, which the addresses of a name share. Without it, an address that does not
/// answer takes the whole time of the request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of a request without a successful response. Holds no URL, which may contain credentials.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No connection, or one that broke.
    #[error("connection failed")]
    Connection,
    /// No response in time.
    #[error("request timed out")]
    Timeout,
    /// A response that reports a failure.
    #[error("status {}", .0.as_u16())]
    Status(StatusCode),
}

/// A client could not be built.
#[derive(Debug, Error)]
#[error("failed to build an HTTP client: {0}")]
pub struct ClientError(String);

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            Self::Timeout
        } else {
            Self::Connection
        }
    }
}

impl From<reqwest::Error> for ClientError {
    fn from(error: reqwest::Error) -> Self {
        Self(error.without_url().to_string())
    }
}

/// Returns the builder of a client that follows neither redirects nor proxies of the
/// environment: either would pass credentials on, or let a third party answer.
pub fn client_builder() -> ClientBuilder {
    reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
}

/// Returns the cause of an error, such as that a certificate is not trusted. Holds no URL.
pub fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    // Those before the last one are of the library.
    let cause = error_chain(&error).last();
    cause.map(message).unwrap_or_default()
}

/// Returns the message of a gateway's error response, or the beginning of that of another server.
/// `hint` is the way to give a credential.
pub fn error_message(status: StatusCode, body: &[u8], hint: &str) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = answer.pointer("/error/message").and_then(Value::as_str);
    let message = message.map_or_else(|| unreadable_response(body), str::to_owned);
    let text = format!("the gateway responded with {status}: {message}");
    match status {
        StatusCode::UNAUTHORIZED => format!("{text}; {hint}"),
        _ => text,
    }
}

/// Reads the body of a response; `None` if it is larger than `max_bytes`.
///
/// # Errors
///
/// Returns an error if the body breaks off.
pub async fn read_body(
    mut response: reqwest::Response,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > max_bytes {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

fn unreadable_response(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let beginning: String = body.chars().take(MAX_QUOTED_CHARS).collect();
    format!("unreadable response `{}`", escape_invisible(&beginning))
}
