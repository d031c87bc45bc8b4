//! `hookgate forward`: a hook for agents with hooks of their own. Sends events from
//! stdin to the events endpoint of a gateway, and prints the response.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{failure::Failure, output::print, runtime::block_on};
use crate::{
    auth,
    upstream::{OutgoingRequest, Upstream, UpstreamError, UpstreamTimeouts},
};

pub(super) const EXAMPLES: &str = "Example, in a settings.json:
  { \"type\": \"command\", \"name\": \"hookgate\", \"command\": \"hookgate forward --url http://hookgate.example:8787\" }";

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The exit code with which a hook denies without output.
const EXIT_BLOCK: u8 = 2;

/// Command-line arguments of `forward`.
#[derive(Debug, Args)]
pub(super) struct ForwardArgs {
    /// URL of the gateway; the path `/s/{session}` selects a session
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    url: Url,
    /// Path of a file with the caller's key, if the gateway requires one
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// Timeout of the request, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    timeout: u64,
    /// Effect of a failure to reach the gateway
    #[arg(long, value_name = "MODE", default_value = "open")]
    on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// Continue with a warning: exit code 1
    Open,
    /// Deny the event: exit code 2
    Closed,
}

impl ForwardArgs {
    pub(super) fn run(self) -> ExitCode {
        let Err(failure) = self.forward() else {
            return ExitCode::SUCCESS;
        };
        let code = failure.report();
        match self.on_failure {
            OnFailure::Open => code,
            OnFailure::Closed => ExitCode::from(EXIT_BLOCK),
        }
    }

    fn forward(&self) -> Result<(), Failure> {
        let mut event = Vec::new();
        io::stdin().lock().read_to_end(&mut event)?;
        block_on(async {
            let (status, answer) = self.ask(event.into()).await?;
            let text = String::from_utf8_lossy(&answer);
            match status {
                StatusCode::OK => Ok(print(&text)?),
                // The hooks of this event run later, and their output is not used.
                StatusCode::ACCEPTED => Ok(()),
                other => Err(Failure::Failed(format!(
                    "the gateway responded with {other}: {text}"
                ))),
            }
        })
    }

    async fn ask(&self, event: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let timeout = Duration::from_millis(self.timeout);
        let timeouts = UpstreamTimeouts {
            connect: timeout,
            first_byte: timeout,
            idle: timeout,
        };
        let gateway = Upstream::new(&self.url, None, timeouts).map_err(|error| failure(&error))?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        if let Some(file) = &self.key_file {
            headers.insert(auth::KEY_HEADER, key(file)?);
        }
        let outgoing = OutgoingRequest {
            method: Method::POST,
            target: "/hookgate/v1/events".to_owned(),
            headers,
            body: event.into(),
        };
        let answer = gateway
            .send(outgoing, &|_| ())
            .await
            .map_err(|error| failure(&error))?;
        let status = answer.status;
        let body = answer
            .read_body(MAX_RESPONSE_BYTES)
            .await
            .map_err(|error| failure(&error))?;
        Ok((status, body))
    }
}

/// Reads the key from a file.
fn key(file: &Path) -> Result<HeaderValue, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| Failure::Failed(format!("the key cannot be read: {error}")))?;
    let mut key = HeaderValue::from_str(text.trim())
        .map_err(|_| Failure::Failed("the key file contains no valid key".to_owned()))?;
    key.set_sensitive(true);
    Ok(key)
}

/// Words the errors of the upstream client for a gateway.
fn failure(error: &UpstreamError) -> Failure {
    let why = match error {
        UpstreamError::Timeout => "did not respond in time",
        UpstreamError::Redirect => "responded with a redirect",
        UpstreamError::UnsupportedEncoding | UpstreamError::InvalidStatus => {
            "sent an unreadable response"
        }
        UpstreamError::TooLarge { .. } => "sent a response that is too large",
        UpstreamError::Interrupted(_) => "interrupted its response",
        UpstreamError::Tls(_)
        | UpstreamError::InvalidTarget
        | UpstreamError::Unreachable(_)
        | UpstreamError::CircuitOpen { .. }
        | UpstreamError::OutOfFileDescriptors => "cannot be reached",
    };
    Failure::Failed(format!("the gateway {why}"))
}
