//! Errors of calls to a model API.

use std::time::Duration;

use thiserror::Error;

use crate::http_client::{HttpClientError, TlsVerifierError};

/// Reasons why upstream gave no response, or only a part of it. Messages hold no URL.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// The HTTP client could not be built.
    #[error("cannot build the client for the model API: {0}")]
    Tls(#[from] TlsVerifierError),
    /// Base and path do not form a valid URL.
    #[error("the URL of the model API is invalid for this path")]
    InvalidTarget,
    /// The head of the request is too large for a connection of HTTP/2, which other calls share.
    #[error(
        "headers or path too large for HTTP/2 with the model API: more than 8 KiB, or 16 KiB together"
    )]
    HeadersTooLarge,
    /// No connection, or it broke before the head of the response.
    #[error("the model API cannot be reached")]
    Unreachable(#[source] HttpClientError),
    /// The circuit breaker is open after repeated failures.
    #[error("circuit breaker open for the model API after repeated failures")]
    CircuitOpen {
        /// Time until the next attempt.
        retry_after: Duration,
    },
    /// The limit of open file descriptors is reached.
    #[error("no file descriptor left for a connection to the model API")]
    OutOfFileDescriptors,
    /// The head or the next piece of the response did not arrive in time.
    #[error("the model API did not answer in time")]
    Timeout,
    /// Redirects are not followed: they would carry the key to a third party.
    #[error("the model API answered with a redirect, which is not followed")]
    Redirect,
    /// The response ended early.
    #[error("the model API's answer broke off")]
    Interrupted(#[source] HttpClientError),
    /// The HTTP/2 stream of the response was closed without an error before its end.
    #[error("the model API closed the stream before the end of its answer")]
    StreamReset,
    /// The body is not valid gzip, or has an encoding other than gzip.
    #[error("the model API's answer has a content encoding that cannot be decoded")]
    UnsupportedEncoding,
    /// The status is outside of 200 to 599, or 304, which is for requests with conditions.
    #[error("the model API answered with an invalid status")]
    InvalidStatus,
    /// A replay has no recorded answer to the call, or only a part of it.
    #[error("no answer of the model API is recorded")]
    NotRecorded,
    /// The body is larger than what may be buffered.
    #[error("the model API's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl UpstreamError {
    /// Returns whether the request was not sent, so that another address may receive it: its target
    /// was invalid, there was no connection or no file descriptor for one, or the circuit breaker
    /// is open.
    pub(super) fn is_unsent(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.is_connect(),
            Self::InvalidTarget | Self::CircuitOpen { .. } | Self::OutOfFileDescriptors => true,
            _ => false,
        }
    }
}
