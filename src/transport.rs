//! Ways to carry an event to a hook and its answer back.
//!
//! To add a transport: one file here and one line in [`ALL`].

mod command;
mod process;

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
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::{
    event::{Answer, Context, EventName},
    protocol::Protocol,
};

/// Every transport.
pub const ALL: &[TransportKind] = &[command::KIND];

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
}

/// A way to reach one hook.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Carries one event to the hook and waits for its answer, however long
    /// that takes: the caller sets the deadline.
    ///
    /// Dropping the future cancels the call and leaves nothing running.
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>>;
}

/// How a transport is named and built.
#[derive(Debug)]
pub struct TransportKind {
    /// Its name in config: the hook's `type`.
    pub name: &'static str,
    /// Parses a hook's settings.
    pub build: Build,
}

/// Parses a hook's settings.
pub type Build = fn(Map<String, Value>, &Toolbox) -> Result<Arc<dyn Transport>, TransportError>;

/// What transports work with.
#[derive(Debug, Clone)]
pub struct Toolbox {
    /// Where they spawn what must end before the gateway does.
    pub tasks: TaskTracker,
    /// How many processes may run at once; a call waits for its permit.
    pub processes: Arc<Semaphore>,
    /// Counts the processes that run.
    pub alive: Gauge,
    /// How many bytes a hook may write to standard output, and to standard
    /// error.
    pub output_limit: usize,
    /// Where processes are started; absolute.
    pub directory: PathBuf,
    /// What processes inherit from the gateway's own environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Toolbox {
    /// A toolbox with the environment of this process, as far as hooks may see
    /// it.
    pub fn new(
        tasks: TaskTracker,
        processes: Arc<Semaphore>,
        alive: Gauge,
        output_limit: usize,
        directory: PathBuf,
    ) -> Self {
        Self {
            tasks,
            processes,
            alive,
            output_limit,
            directory: path::absolute(&directory).unwrap_or(directory),
            environment: env::vars_os().filter(|(name, _)| is_shown(name)).collect(),
        }
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
    /// The hook's process could not be started.
    #[error("could not be started")]
    Start(#[source] io::Error),
    /// The hook's process was lost.
    #[error("its process was lost")]
    Process(#[source] io::Error),
    /// The hook wrote more than it may.
    #[error("too much output")]
    TooMuchOutput,
    /// The gateway is about to end.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// Builds the transport named `kind`.
pub fn build(
    kind: &str,
    settings: Map<String, Value>,
    toolbox: &Toolbox,
) -> Result<Arc<dyn Transport>, TransportError> {
    let found = ALL.iter().find(|it| it.name == kind);
    let kind = found.ok_or_else(|| TransportError::Unknown(kind.to_owned()))?;
    (kind.build)(settings, toolbox)
}

/// The names of all transports.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|it| it.name).collect()
}

#[cfg(test)]
mod tests;
