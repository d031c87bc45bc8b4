//! Client of the admin API of a running gateway.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use url::Url;

use crate::{
    cli::{
        failure::Failure,
        runtime::block_on,
        service_arguments::{ServiceUrlParser, read_token},
    },
    error::ErrorReason,
    service_client::{client_builder, error_message, read_body, root_cause},
};

/// Time for a request. The admin API ends its own within a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Arguments of commands that use the admin API.
#[derive(Debug, Args)]
pub(in crate::cli) struct AdminArgs {
    /// URL of the admin API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8788", value_parser = ServiceUrlParser)]
    url: Url,
    /// Path of a file with an admin token, if the gateway requires one
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

impl AdminArgs {
    /// Returns the JSON of a path.
    pub(in crate::cli) fn get(&self, path: &str) -> Result<Value, Failure> {
        block_on(self.send(Method::GET, path, None))
    }

    /// Posts JSON to a path, and returns that of the response.
    pub(in crate::cli) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        block_on(self.send(Method::POST, path, Some(("application/json", body))))
    }

    /// Sends a request, whose body has a content type, and returns the JSON of the response.
    pub(in crate::cli) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, String)>,
    ) -> Result<Value, Failure> {
        let base = self.url.as_str().trim_end_matches('/');
        let client = client_builder().timeout(REQUEST_TIMEOUT).build();
        let client = client.map_err(|error| self.unreachable(error))?;
        let mut request = client.request(method, format!("{base}{path}"));
        if let Some(file) = &self.token_file {
            request = request.bearer_auth(read_token(file, "admin token")?);
        }
        if let Some((content_type, body)) = body {
            request = request.header("content-type", content_type).body(body);
        }
        self.receive(request).await
    }

    async fn receive(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let unreachable = |error| self.unreachable(error);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let too_large =
            || Failure::Failed("the gateway sent a response that is too large".to_owned());
        let body = read_body(response, MAX_RESPONSE_BYTES).await;
        let body = body.map_err(unreachable)?.ok_or_else(too_large)?;
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if status.is_success() => Ok(answer),
            answer => {
                let hint = "`--token-file` names a file with the token";
                let mut message = error_message(status, &body, hint);
                if status == StatusCode::FORBIDDEN
                    && answer.ok().is_none_or(|answer| is_unknown_path(&answer))
                {
                    message += "; `--url` must be the address of the admin API, without a path";
                }
                let may_pass = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                let failure = if may_pass {
                    Failure::Unavailable
                } else {
                    Failure::Failed
                };
                Err(failure(message))
            }
        }
    }

    /// Returns the failure of a request, with the gateway's address but no credentials of its URL.
    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let gateway = self.url.origin().ascii_serialization();
        let cause = root_cause(error);
        Failure::Unavailable(format!(
            "the gateway at {gateway} cannot be reached: {cause}"
        ))
    }
}

/// Returns whether an error response is that of a path which the port does not have.
fn is_unknown_path(answer: &Value) -> bool {
    let reason = answer.pointer("/error/details/0/reason");
    reason.and_then(Value::as_str) == Some(ErrorReason::UnknownPath.as_str())
}

/// Returns the text of a field; empty if the object has none.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    let value = object.get(field).and_then(Value::as_str);
    value.unwrap_or_default()
}
