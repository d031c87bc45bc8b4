//! Ways to carry an event to a hook and its answer back.
//!
//! To add a transport: one file here and one line in [`ALL`].

mod backoff;
mod command;
mod http;
mod process;
mod process_slots;
mod shell;
mod worker;

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, io,
    path::{self, PathBuf},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

pub use self::process_slots::ProcessSlots;
use crate::{
    event::{Answer, Context, DiagnosticCode, EventName},
    http_client::{HttpClient, HttpClientError, TlsVerifierError},
    protocol::{Ended, Exit, Protocol},
};

/// Every transport.
pub const ALL: &[TransportKind] = &[command::KIND, http::KIND, worker::KIND];

/// A boxed future, so that transports can live behind `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One event on its way to one hook.
#[derive(Debug, Clone)]
pub struct HookCall<'a> {
    /// Where and when it happened.
    pub context: &'a Context,
    /// Which event it is.
    pub event: EventName,
    /// The event as the hook reads it.
    pub document: Bytes,
    /// How to read the answer.
    pub protocol: &'static dyn Protocol,
    /// When the hook's time is over: for a process that has answered, and goes on.
    pub deadline: Instant,
}

impl HookCall<'_> {
    /// What a hook without an exit code said: as one that printed `said` and
    /// exited with 0, except that it must say it by a JSON object.
    fn read_object(&self, said: Vec<u8>) -> Result<Answer, TransportError> {
        // Nothing at all is an answer only where an exit code says that it is.
        if !said.contains(&b'{') {
            return Err(TransportError::NoObject);
        }
        let ended = Ended {
            exit: Exit::Code(0),
            stdout: said,
            stderr: Vec::new(),
        };
        let answer = self.protocol.read(&ended, self.event);
        let is_other = |code| {
            matches!(
                code,
                DiagnosticCode::PlainText | DiagnosticCode::NonObjectJson
            )
        };
        if answer.diagnostics.iter().any(|it| is_other(it.code)) {
            return Err(TransportError::NoObject);
        }
        Ok(answer)
    }
}

/// A way to reach one hook.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Carries one event to the hook and waits for its answer, however long
    /// that takes: the caller sets the deadline.
    ///
    /// Dropping the future cancels the call and leaves nothing running. What goes
    /// on after an answer ends with the call's deadline, or with the transport.
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>>;

    /// Starts what should be there before the first call. Called whenever a
    /// config with the hook is in force from now on.
    fn begin(&self) {}

    /// How many processes it keeps for itself, out of all that may run.
    fn instances(&self) -> u32 {
        0
    }
}

/// How a transport is named and built.
#[derive(Debug)]
pub struct TransportKind {
    /// Its name in config: the hook's `type`.
    pub name: &'static str,
    /// Parses a hook's settings. Starts nothing.
    pub build: Build,
}

/// Parses a hook's settings.
pub type Build = fn(Setup<'_>) -> Result<Arc<dyn Transport>, TransportError>;

/// A hook to be built. Its settings may hold keys.
pub struct Setup<'a> {
    /// What to call it in logs.
    pub label: &'a str,
    /// What only its transport understands.
    pub settings: Map<String, Value>,
    /// What it works with.
    pub toolbox: &'a TransportDeps,
}

impl Setup<'_> {
    fn parse<T: DeserializeOwned>(self) -> Result<T, TransportError> {
        serde_json::from_value(Value::Object(self.settings))
            .map_err(|it| TransportError::Settings(it.to_string()))
    }
}

/// What transports work with.
#[derive(Debug, Clone)]
pub struct TransportDeps {
    /// Where they spawn what must end before the gateway does.
    pub tasks: TaskTracker,
    /// How many processes may run at once, besides those that transports keep
    /// for themselves.
    pub places: Arc<ProcessSlots>,
    /// Counts the processes that run.
    pub alive: Gauge,
    /// A pool of connections to hooks.
    pub client: HttpClient,
    /// How many bytes a hook may answer; a process that ends may write as many
    /// to standard output, and to standard error.
    pub output_limit: usize,
    /// Where processes are started; absolute.
    pub directory: PathBuf,
    /// What runs commands: looked for once, because a process whose program has to
    /// be looked for is forked, and that copies the tables of all memory.
    pub bash: PathBuf,
    /// What processes inherit from the gateway's own environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl TransportDeps {
    /// A toolbox with the environment of this process, as far as hooks may see
    /// it, and with a pool of its own.
    pub fn new(
        tasks: TaskTracker,
        places: Arc<ProcessSlots>,
        alive: Gauge,
        output_limit: usize,
        directory: PathBuf,
    ) -> Result<Self, TransportError> {
        Ok(Self {
            client: http::client()?,
            tasks,
            places,
            alive,
            output_limit,
            directory: path::absolute(&directory).unwrap_or(directory),
            bash: shell::bash(&env::var_os("PATH").unwrap_or_default()),
            environment: env::vars_os().filter(|(name, _)| is_shown(name)).collect(),
        })
    }
}

/// The variables of the gateway that hooks may see: those that processes need,
/// and no other, because the rest may hold keys.
const SHOWN: &[&str] = &["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL"];

fn is_shown(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    SHOWN.contains(&name.as_ref()) || name.starts_with("LC_")
}

/// Why a hook could not be built, reached or understood. Shown to agents as
/// the cause of a denial, so no text names a path or a value.
#[derive(Debug, Error)]
pub enum TransportError {
    /// No transport has this name.
    #[error("no transport is named `{0}`")]
    Unknown(String),
    /// The hook's settings are wrong.
    #[error("settings: {0}")]
    Settings(String),
    /// The client for hooks over HTTP could not be built.
    #[error("the client for hooks cannot be built")]
    HttpClient(#[from] TlsVerifierError),
    /// The hook's process could not be started.
    #[error("could not be started")]
    Start(#[source] io::Error),
    /// The hook's process was lost.
    #[error("its process was lost")]
    Process(#[source] io::Error),
    /// The hook wrote more than it may.
    #[error("too much output")]
    TooMuchOutput,
    /// The hook's server could not be reached, or broke off.
    #[error("it could not be reached")]
    Unreachable(#[from] HttpClientError),
    /// The hook's server answered with another status than 200.
    #[error("it answered with status {0}")]
    Status(u16),
    /// The hook's server answered with another media type.
    #[error("its answer is not of type `application/json`")]
    MediaType,
    /// The hook answered with something else than a JSON object.
    #[error("its answer is no JSON object")]
    NoObject,
    /// A worker wrote a line that answers no call.
    #[error("it wrote a line that answers no call")]
    Unasked,
    /// So many calls wait for a worker that this one would wait too long.
    #[error("too many calls wait for it")]
    Busy,
    /// The gateway is about to end.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// Builds the transport named `kind`.
pub fn build(kind: &str, setup: Setup<'_>) -> Result<Arc<dyn Transport>, TransportError> {
    let found = ALL.iter().find(|it| it.name == kind);
    let kind = found.ok_or_else(|| TransportError::Unknown(kind.to_owned()))?;
    (kind.build)(setup)
}

/// The names of all transports.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|it| it.name).collect()
}

#[cfg(test)]
mod tests;
