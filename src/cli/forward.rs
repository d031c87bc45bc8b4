//! `hookgate forward`: a hook for agents with hooks of their own. Sends events from
//! stdin to the events endpoint of a gateway, and prints the response.

use std::{
    ffi::OsString,
    io::{self, Read},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    failure::Failure,
    output::print,
    runtime::block_on,
    service_arguments::{ServiceUrlParser, read_token},
};
use crate::{
    auth,
    middleware::RequestId,
    protocol::{AgentReport, ReportingAgent},
    service_client::{client_builder, error_message, read_body, root_cause},
};

pub(super) const EXAMPLES: &str = "Examples:
  In a settings.json of gemini-cli:
  { \"type\": \"command\", \"name\": \"hookgate\", \"command\": \"hookgate forward --url http://hookgate.example:8787\", \"timeout\": 75000 }
  In a settings.json of Claude Code:
  { \"type\": \"command\", \"command\": \"hookgate forward --protocol claude --url http://hookgate.example:8787\" }";

/// Request target of the events endpoint. Only the explanation has all arguments of an edited
/// call.
const EVENTS_TARGET: &str = "/hookgate/v1/events?explain=1";

/// Maximum size of a response. It may have the arguments of a call twice: in the output of hooks and
/// in the explanation.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The exit code with which a hook denies without output.
const EXIT_BLOCK: u8 = 2;

/// Names of the event at the end of a turn, in all agents.
const TURN_END_NAMES: [&str; 3] = ["AfterAgent", "Stop", "SubagentStop"];

/// Reason of a failure: another server responds in the place of the gateway.
const FOREIGN_RESPONSE: &str = "sent a response that is not that of hookgate";

/// Command-line arguments of `forward`.
#[derive(Debug, Args)]
pub(super) struct ForwardArgs {
    /// URL of the gateway; the path `/s/{session}` selects a session
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787", value_parser = ServiceUrlParser)]
    url: Url,
    /// Form of the agent's hook inputs and outputs
    #[arg(long, value_name = "PROTOCOL", default_value = "gemini")]
    protocol: ReportForm,
    /// Path of a file with the caller's key, if the gateway requires one
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// Timeout of input and request, in milliseconds: longer than the gateway's hooks may take in
    /// all, and shorter than that of the agent
    #[arg(long, value_name = "MS", default_value_t = 65_000)]
    timeout: u64,
    /// Effect of a failure to reach the gateway
    #[arg(long, value_name = "MODE", default_value = "open")]
    on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportForm {
    /// The form of gemini-cli
    Gemini,
    /// The form of LLxprt Code: as `gemini`, with `deny` for `ask`
    Llxprt,
    /// The form of Tabnine CLI: as `gemini`, with `deny` for `ask`
    Tabnine,
    /// The form of `TerminaI`: as `gemini`, with `deny` for `ask`
    Terminai,
    /// The form of Claude Code
    Claude,
    /// The form of Codex
    Codex,
}

impl ReportForm {
    /// The agent whose form is translated; `None` for the form of the endpoint.
    const fn agent(self) -> Option<ReportingAgent> {
        match self {
            Self::Gemini | Self::Llxprt | Self::Tabnine | Self::Terminai => None,
            Self::Claude => Some(ReportingAgent::Claude),
            Self::Codex => Some(ReportingAgent::Codex),
        }
    }

    /// Returns whether its agents continue a turn that an output ends.
    const fn continues_ended_turns(self) -> bool {
        matches!(self, Self::Llxprt | Self::Terminai)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// Continue with a warning: exit code 1
    Open,
    /// Deny the event: exit code 2, or 1 at the end of a turn
    Closed,
}

/// Returns the exit code of `forward` with refused arguments: that of a denial, unless
/// `--on-failure` is absent or `open`.
pub(super) fn refused_exit_code(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let modes = arguments
        .iter()
        .enumerate()
        .filter_map(|(index, argument)| {
            let argument = argument.as_encoded_bytes();
            match argument.strip_prefix(b"--on-failure")? {
                [] => Some(arguments.get(index + 1).map(|mode| mode.as_encoded_bytes())),
                [b'=', mode @ ..] => Some(Some(mode)),
                _ => None,
            }
        });
    if modes.into_iter().all(|mode| mode == Some(b"open")) {
        ExitCode::FAILURE
    } else {
        ExitCode::from(EXIT_BLOCK)
    }
}

impl ForwardArgs {
    pub(super) fn run(self) -> ExitCode {
        let timeout = Duration::from_millis(self.timeout);
        let started = Instant::now();
        let input = match read_input(timeout) {
            Ok(input) => input,
            Err(failure) => return self.fail(&failure, &[]),
        };
        match self.forward(&input, timeout.saturating_sub(started.elapsed())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => self.fail(&failure, &input),
        }
    }

    /// Prints a failure and returns its exit code.
    fn fail(&self, failure: &Failure, input: &[u8]) -> ExitCode {
        let code = failure.report();
        match self.on_failure {
            // At the end of a turn a denial asks for another answer, which repairs nothing.
            OnFailure::Closed if !ends_turn(input) => ExitCode::from(EXIT_BLOCK),
            OnFailure::Closed | OnFailure::Open => code,
        }
    }

    fn forward(&self, input: &[u8], timeout: Duration) -> Result<(), Failure> {
        let agent = self.protocol.agent();
        let report = agent.map(|agent| AgentReport::read(agent, input));
        let report = report.transpose().map_err(Failure::of)?;
        let event = match &report {
            Some(report) => report.event().to_string().into_bytes(),
            None => input.to_vec(),
        };
        let (status, answer) = block_on(self.ask(event, timeout))?;
        match status {
            StatusCode::OK => {
                let output = self.output(&answer, report.as_ref(), input)?;
                Ok(print(&output.to_string())?)
            }
            // The hooks of this event run later, and their output is not used.
            StatusCode::ACCEPTED => Ok(()),
            other => {
                let hint = "`--key-file` names a file with the caller's key";
                Err(Failure::Failed(error_message(other, &answer, hint)))
            }
        }
    }

    /// Returns the hook output for the agent. `answer` is that of the events endpoint with its
    /// explanation.
    fn output(
        &self,
        answer: &[u8],
        report: Option<&AgentReport>,
        input: &[u8],
    ) -> Result<Value, Failure> {
        let mut answer: Map<String, Value> = serde_json::from_slice(answer).unwrap_or_default();
        let Some(Value::Object(explanation)) = answer.shift_remove("hookgate") else {
            return Err(self.failed(FOREIGN_RESPONSE));
        };
        let arguments = explanation.get("arguments");
        if let Some(report) = report {
            return Ok(report.output(answer, arguments));
        }
        if self.protocol.continues_ended_turns() && ends_turn(input) {
            remove_stop(&mut answer);
        }
        Ok(gemini_output(answer, arguments, self.protocol))
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        if let Some(file) = &self.key_file {
            let key = read_token(file, "key file")?;
            let mut key = HeaderValue::try_from(key).map_err(Failure::of)?;
            key.set_sensitive(true);
            headers.insert(auth::KEY_HEADER, key);
        }
        Ok(headers)
    }

    async fn ask(
        &self,
        event: Vec<u8>,
        timeout: Duration,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let mut client = client_builder().timeout(timeout);
        if self.url.scheme() != "https" {
            // The certificates of the system would be read for nothing.
            client = client.tls_certs_only([]);
        }
        let base = self.url.as_str().trim_end_matches('/');
        let failure = |error| self.failure(error);
        let request = client
            .build()
            .map_err(failure)?
            .post(format!("{base}{EVENTS_TARGET}"));
        let request = request.headers(self.headers()?).body(event);
        let response = request.send().await.map_err(failure)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.failed("responded with a redirect"));
        }
        if status == StatusCode::ACCEPTED && !response.headers().contains_key(RequestId::HEADER) {
            return Err(self.failed(FOREIGN_RESPONSE));
        }
        let body = read_body(response, MAX_RESPONSE_BYTES).await;
        let body = body.map_err(failure)?;
        let body = body.ok_or_else(|| self.failed("sent a response that is too large"))?;
        Ok((status, body))
    }

    fn failure(&self, error: reqwest::Error) -> Failure {
        if error.is_timeout() {
            self.failed("did not respond in time")
        } else if error.is_body() || error.is_decode() {
            self.failed("interrupted its response")
        } else {
            self.failed(&format!("cannot be reached: {}", root_cause(error)))
        }
    }

    /// Failure with the gateway's address, but no credentials of its URL.
    fn failed(&self, why: &str) -> Failure {
        let gateway = self.url.origin().ascii_serialization();
        Failure::Failed(format!("the gateway at {gateway} {why}"))
    }
}

/// Reads the hook input from stdin up to its end.
fn read_input(timeout: Duration) -> Result<Vec<u8>, Failure> {
    let (sender, receiver) = mpsc::channel();
    // A read that blocks cannot be cancelled: the process ends without it.
    thread::spawn(move || {
        let mut input = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut input);
        let _ignored = sender.send(read.map(|_length| input));
    });
    let late = |_| Failure::Failed("timed out reading the input from stdin".to_owned());
    Ok(receiver.recv_timeout(timeout).map_err(late)??)
}

/// Returns whether an input is that of the event at the end of a turn.
fn ends_turn(input: &[u8]) -> bool {
    let input: Value = serde_json::from_slice(input).unwrap_or_default();
    let name = input.get("hook_event_name").and_then(Value::as_str);
    name.is_some_and(|name| TURN_END_NAMES.contains(&name))
}

/// Removes the end of the loop from an output.
fn remove_stop(output: &mut Map<String, Value>) {
    if output.get("continue") == Some(&json!(false)) {
        output.shift_remove("continue");
        output.shift_remove("decision");
    }
}

/// Returns the hook output for gemini-cli or one of its forks. `arguments` are those of an edited
/// call.
fn gemini_output(
    mut answer: Map<String, Value>,
    arguments: Option<&Value>,
    form: ReportForm,
) -> Value {
    // Some of these agents merge `tool_input` into the arguments, and others replace them by it.
    let specific = answer.get_mut("hookSpecificOutput");
    let edited = specific.and_then(|specific| specific.get_mut("tool_input"));
    if let (Some(edited), Some(arguments)) = (edited, arguments) {
        edited.clone_from(arguments);
    }
    // The forks run a call about which gemini-cli asks.
    if form != ReportForm::Gemini
        && let Some(decision) = answer.get_mut("decision")
        && decision == "ask"
    {
        *decision = json!("deny");
    }
    Value::Object(answer)
}
