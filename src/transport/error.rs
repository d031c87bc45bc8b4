//! Errors of transports, as agents see them in the reason of a denial.

use std::io;

use thiserror::Error;

use crate::http_client::{HttpClientError, TlsVerifierError};

/// Failure to build, reach or understand a hook. Agents see it as the cause of a
/// denial, so no message contains a path or a value. The reason around it names the
/// hook: a hook without a name by its command.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The name of the transport is unknown.
    #[error("unknown transport `{0}`")]
    UnknownKind(String),
    /// The hook's settings are invalid.
    #[error("settings: {0}")]
    Settings(String),
    /// The HTTP client for hooks could not be built.
    #[error("failed to build the HTTP client for hooks")]
    HttpClient(#[from] TlsVerifierError),
    /// The hook's process could not be started.
    #[error("failed to start the process")]
    Start(#[source] io::Error),
    /// The hook's process exited, or a pipe to it failed.
    #[error("process exited unexpectedly")]
    ProcessLost(#[source] io::Error),
    /// The hook's process exited with code 0, but a child of it may still write its output.
    #[error("a child process holds stdout open")]
    OutputIncomplete,
    /// The output is longer than `limits.hook_output`.
    #[error("output limit exceeded")]
    OutputLimit,
    /// The hook's server is unreachable, or closed the connection early.
    #[error("connection failed")]
    Connection(#[from] HttpClientError),
    /// The hook's server responded with a status other than 200.
    #[error("unexpected status {0}")]
    Status(u16),
    /// The hook's server responded with another media type.
    #[error("content type is not `application/json`")]
    ContentType,
    /// The hook's server closed the connection after a head that announces no empty body.
    #[error("no response body")]
    MissingBody,
    /// The output is not a JSON object.
    #[error("output is not a JSON object")]
    NotAnObject,
    /// A worker wrote a line that does not answer the call.
    #[error("unexpected output line")]
    UnexpectedLine,
    /// The queue of a worker is full.
    #[error("worker queue is full")]
    QueueFull,
    /// The gateway is shutting down.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}
