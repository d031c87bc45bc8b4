//! Lower bounds: the bare proxy with a minimal built-in hook of each class.

use std::{
    borrow::Cow,
    env,
    pin::Pin,
    process::Stdio,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use memchr::memmem;
use regex::Regex;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    process::{ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

use crate::{
    Error, Result,
    baseline_proxy::{self, Outgoing, Upstream},
    hook_event::event,
    request_bodies,
};

/// Typical secret patterns of operators, each matched on its own.
const PATTERNS: &[&str] = &[
    r"AKIA[0-9A-Z]{16}",
    r"gh[pousr]_[A-Za-z0-9]{36}",
    r"AIza[0-9A-Za-z_\-]{35}",
    r"xox[baprs]-[0-9A-Za-z\-]{10,72}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}",
    r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9.\-]+\.[A-Za-z]{2,}",
    r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b",
    r"\b(?:[0-9]{4}[ \-]?){3}[0-9]{4}\b",
    r"sk-[A-Za-z0-9]{20,}",
];

/// The built-in hook and its state.
pub(crate) enum LowerBound {
    Inspection(Inspection),
    Http { hooks: Upstream, address: String },
    Worker(Mutex<(ChildStdin, BufReader<ChildStdout>)>),
    Command(String),
}

impl LowerBound {
    pub(crate) fn parse(class: &str, rest: &[String]) -> Result<Self> {
        let mut rest = rest.iter();
        let mut setting = || rest.next().ok_or("a setting is missing");
        Ok(match class {
            "policies" => Self::Inspection(Inspection::new(&[])?),
            "redact" => Self::Inspection(Inspection::new(PATTERNS)?),
            "http" => {
                let address = setting()?.clone();
                Self::Http {
                    hooks: Upstream::new(&address),
                    address,
                }
            }
            "worker" => {
                let mut command = shell(setting()?);
                let mut child = command
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .kill_on_drop(false)
                    .spawn()?;
                let pipes = (child.stdin.take(), child.stdout.take());
                let (Some(stdin), Some(stdout)) = pipes else {
                    return Err("no pipes".into());
                };
                Self::Worker(Mutex::new((stdin, BufReader::new(stdout))))
            }
            "command" => Self::Command(setting()?.clone()),
            _ => return Err(format!("no lower bound `{class}`").into()),
        })
    }

    pub(crate) async fn run(self, listener: TcpListener, upstream: &str) -> Result<()> {
        let lower_bound = Arc::new(self);
        let upstream = Upstream::new(upstream);
        let handle = move |request| {
            let (lower_bound, upstream) = (Arc::clone(&lower_bound), upstream.clone());
            async move { lower_bound.exchange(request, &upstream).await }
        };
        baseline_proxy::serve(listener, handle).await
    }

    async fn exchange(
        self: Arc<Self>,
        request: Request<Incoming>,
        upstream: &Upstream,
    ) -> Result<Response<Either<Incoming, InspectedBody>>> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = self.run_hook(body).await?;
        head.headers.remove(header::CONTENT_LENGTH);
        let request = Request::from_parts(head, Either::Right(Full::new(body)));
        let mut response = upstream.send(request).await?;
        if !matches!(*self, Self::Inspection(_)) {
            return Ok(response.map(Either::Left));
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|value| value == "text/event-stream");
        response.headers_mut().remove(header::CONTENT_LENGTH);
        Ok(response.map(|inner| {
            Either::Right(InspectedBody {
                inner,
                lower_bound: self,
                is_stream,
                pending: Vec::new(),
            })
        }))
    }

    async fn run_hook(&self, body: Bytes) -> Result<Bytes> {
        let decision: Value = match self {
            Self::Inspection(inspection) => return inspection.inspect(&body),
            Self::Http { hooks, address } => {
                let request = Request::post(format!("http://{address}/hook"))
                    .header(header::CONTENT_TYPE, "application/json");
                let request: Request<Outgoing> =
                    request.body(Either::Right(Full::new(event(&body)?.into())))?;
                let response = hooks.send(request).await?;
                serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?
            }
            Self::Worker(pipes) => {
                let (stdin, stdout) = &mut *pipes.lock().await;
                stdin
                    .write_all(
                        &[
                            b"{\"id\":\"1\",\"input\":",
                            event(&body)?.as_slice(),
                            b"}\n",
                        ]
                        .concat(),
                    )
                    .await?;
                let mut line = Vec::new();
                stdout.read_until(b'\n', &mut line).await?;
                serde_json::from_slice::<Value>(&line)?
                    .get_mut("output")
                    .map(Value::take)
                    .unwrap_or_default()
            }
            Self::Command(command) => serde_json::from_slice(&run(command, &event(&body)?).await?)?,
        };
        match decision.get("decision") {
            None => Ok(body),
            Some(_) => Err("the hook denied the request".into()),
        }
    }
}

/// Environment variables of a hook; more of them can slow an interpreter down.
const VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL"];

/// A shell command with only features of `posix_spawn`, which avoids a fork: a new process
/// group, and a program with an absolute path.
fn shell(command: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut paths = env::split_paths(&path).map(|folder| folder.join("bash"));
    let bash = paths
        .find(|program| program.exists())
        .unwrap_or_else(|| "/bin/bash".into());
    let variables = VARIABLES
        .iter()
        .filter_map(|name| Some((name, env::var_os(name)?)));
    let mut shell = Command::new(bash);
    shell
        .args(["-c", command])
        .process_group(0)
        .env_clear()
        .envs(variables);
    shell
}

async fn run(command: &str, event: &[u8]) -> Result<Vec<u8>> {
    let mut shell = shell(command);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err("no pipes".into());
    };
    stdin.write_all(event).await?;
    drop(stdin);
    let mut output = Vec::new();
    stdout.read_to_end(&mut output).await?;
    if child.wait().await?.success() {
        Ok(output)
    } else {
        Err("the hook failed".into())
    }
}

/// Parses a document, checks it, and serialises it again.
pub(crate) struct Inspection {
    patterns: Vec<Regex>,
    functions: Vec<String>,
}

impl Inspection {
    fn new(patterns: &[&str]) -> Result<Self> {
        let patterns: std::result::Result<_, _> =
            patterns.iter().map(|pattern| Regex::new(pattern)).collect();
        Ok(Self {
            patterns: patterns?,
            functions: request_bodies::function_names(),
        })
    }

    fn inspect(&self, document: &[u8]) -> Result<Bytes> {
        let mut document: Value = serde_json::from_slice(document)?;
        let model = document.get("modelVersion").and_then(Value::as_str);
        if model.is_some_and(|name| !name.starts_with("bench")) {
            return Err("unexpected model".into());
        }
        let tools = document
            .get("tools")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let declared = tools
            .filter_map(|tool| tool.get("functionDeclarations")?.as_array())
            .flatten();
        let parts = document
            .pointer("/candidates/0/content/parts")
            .and_then(Value::as_array);
        let called = parts
            .into_iter()
            .flatten()
            .filter_map(|part| part.get("functionCall"));
        for function in declared.chain(called) {
            let name = function
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !self.functions.iter().any(|known| known == name) {
                return Err("unexpected function".into());
            }
        }
        if !self.patterns.is_empty() {
            self.mask(&mut document);
        }
        Ok(serde_json::to_vec(&document)?.into())
    }

    fn mask_text(&self, text: &mut String) {
        for pattern in &self.patterns {
            // A text without a match is not copied.
            if let Cow::Owned(masked) = pattern.replace_all(text, "[masked]") {
                *text = masked;
            }
        }
    }

    fn mask(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.mask(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }
}

/// A response body that is checked event by event, or as a whole.
pub(crate) struct InspectedBody {
    inner: Incoming,
    lower_bound: Arc<LowerBound>,
    is_stream: bool,
    pending: Vec<u8>,
}

impl InspectedBody {
    /// Inspects the buffered events, or at the end the buffered document. Returns the bytes to send.
    fn inspect_pending(&mut self, is_end: bool) -> Result<Vec<u8>> {
        let LowerBound::Inspection(inspection) = &*self.lower_bound else {
            return Ok(std::mem::take(&mut self.pending));
        };
        let mut out = Vec::new();
        if !self.is_stream {
            if is_end && !self.pending.is_empty() {
                out.extend_from_slice(&inspection.inspect(&std::mem::take(&mut self.pending))?);
            }
            return Ok(out);
        }
        let mut done = 0;
        loop {
            let rest = self.pending.get(done..).unwrap_or_default();
            let Some(end) = memmem::find(rest, b"\r\n\r\n") else {
                break;
            };
            let event = rest.get(..end).unwrap_or_default();
            let data = event.strip_prefix(b"data: ").ok_or("no data")?;
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(&inspection.inspect(data)?);
            out.extend_from_slice(b"\r\n\r\n");
            done += end + 4;
        }
        self.pending.drain(..done);
        Ok(out)
    }
}

impl Body for InspectedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
            let is_end = frame.is_none();
            if let Some(frame) = frame {
                let data = frame?.into_data().unwrap_or_default();
                self.pending.extend_from_slice(&data);
            }
            let out = self.inspect_pending(is_end)?;
            match (out.is_empty(), is_end) {
                (false, _) => return Poll::Ready(Some(Ok(Frame::data(out.into())))),
                (true, true) => return Poll::Ready(None),
                (true, false) => (),
            }
        }
    }
}
