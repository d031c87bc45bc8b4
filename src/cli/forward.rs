//! `hookgate forward`: a hook for agents that have hooks of their own. What the
//! agent tells it goes to the events endpoint; what comes back is its output.

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

use super::{Failure, block_on, complain, print};
use crate::{
    auth,
    upstream::{OutgoingRequest, Upstream, UpstreamError, UpstreamTimeouts},
};

pub(super) const EXAMPLES: &str = "Example, in a settings.json:
  { \"type\": \"command\", \"name\": \"hookgate\", \"command\": \"hookgate forward --url http://hookgate.example:8787\" }";

/// The most that is read of an answer.
const MOST: usize = 16 * 1024 * 1024;

/// The exit code by which a hook says no without writing JSON.
const EXIT_BLOCK: u8 = 2;

/// What `forward` is told.
#[derive(Debug, Args)]
pub(super) struct Forward {
    /// The gateway; a session may be named by the path `/s/{session}`.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    url: Url,
    /// The file that holds this caller's key, if the gateway asks who calls.
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// How long to wait for the answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    timeout: u64,
    /// What it means that the gateway cannot be asked.
    #[arg(long, value_name = "MODE", default_value = "open")]
    on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// The event goes on, with a warning: exit code 1.
    Open,
    /// The event is refused: exit code 2.
    Closed,
}

impl Forward {
    pub(super) fn run(self) -> ExitCode {
        match self.forward() {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::Failed(message)) => {
                complain(&format!("hookgate: {message}"));
                match self.on_failure {
                    OnFailure::Open => ExitCode::FAILURE,
                    OnFailure::Closed => ExitCode::from(EXIT_BLOCK),
                }
            }
            Err(Failure::BadConfig(error)) => {
                complain(&error.to_string());
                ExitCode::FAILURE
            }
        }
    }

    fn forward(&self) -> Result<(), Failure> {
        let mut event = Vec::new();
        io::stdin().lock().read_to_end(&mut event)?;
        block_on(async {
            let (status, answer) = self.ask(event.into()).await?;
            let text = String::from_utf8_lossy(&answer);
            match status {
                StatusCode::OK => print(&text),
                // Nobody waits for what hooks say of this event.
                StatusCode::ACCEPTED => Ok(()),
                other => Err(Failure::Failed(format!(
                    "the gateway answered {other}: {text}"
                ))),
            }
        })
    }

    async fn ask(&self, event: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let wait = Duration::from_millis(self.timeout);
        let patience = UpstreamTimeouts {
            connect: wait,
            first_byte: wait,
            idle: wait,
        };
        let gateway = Upstream::new(&self.url, None, patience).map_err(|it| failed(&it))?;
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
            .map_err(|it| failed(&it))?;
        let status = answer.status;
        let body = answer.read_body(MOST).await.map_err(|it| failed(&it))?;
        Ok((status, body))
    }
}

/// The key in a file.
fn key(file: &Path) -> Result<HeaderValue, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|it| Failure::Failed(format!("the key cannot be read: {it}")))?;
    let mut key = HeaderValue::from_str(text.trim())
        .map_err(|_| Failure::Failed("what the key file holds is no key".to_owned()))?;
    key.set_sensitive(true);
    Ok(key)
}

/// The client speaks of a model API, where here is a gateway.
fn failed(error: &UpstreamError) -> Failure {
    let why = match error {
        UpstreamError::Timeout => "did not answer in time",
        UpstreamError::Redirect => "answered with a redirect",
        UpstreamError::UnsupportedEncoding | UpstreamError::InvalidStatus => {
            "answered what cannot be read"
        }
        UpstreamError::TooLarge { .. } => "answered too much",
        UpstreamError::Interrupted(_) => "broke off its answer",
        UpstreamError::Tls(_)
        | UpstreamError::InvalidTarget
        | UpstreamError::Unreachable(_)
        | UpstreamError::CircuitOpen { .. }
        | UpstreamError::OutOfFileDescriptors => "cannot be reached",
    };
    Failure::Failed(format!("the gateway {why}"))
}
