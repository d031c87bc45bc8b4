//! Reasons why a request is not authenticated.

use std::time::Duration;

use thiserror::Error;

/// Reason why a request is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AuthError {
    /// The request carries no credential.
    #[error(
        "missing credentials: send a key as `x-hookgate-key`, `x-goog-api-key`, `x-api-key` or `Authorization: Bearer`"
    )]
    Missing,
    /// The only credential is a client certificate without an allowed name.
    #[error("the client certificate has no name that `auth.mtls` allows, and no key was sent")]
    CertificateNotAllowed,
    /// The credential matches no configured key and no token issuer.
    #[error("unknown key or token")]
    Unknown,
    /// A token of the configured issuer that is malformed, expired or not signed by it.
    #[error("invalid token")]
    InvalidToken,
    /// The keys of the token issuer cannot be fetched, so that its tokens cannot be checked.
    #[error("the keys of the token issuer cannot be fetched")]
    IssuerUnavailable {
        /// Time until the keys may be fetched again.
        retry_after: Duration,
    },
    /// Two different credentials, either of which could identify the caller.
    #[error("ambiguous credentials: two different keys were sent")]
    Ambiguous,
    /// The system has no source of randomness for a new session.
    #[error("the system has no source of randomness")]
    NoRandomness,
    /// Too many failed attempts came from the client's address.
    #[error("too many failed authentication attempts from this address")]
    Throttled {
        /// Time until the next attempt is evaluated.
        retry_after: Duration,
    },
}

impl AuthError {
    /// Returns the value of the metric label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::CertificateNotAllowed => "certificate_not_allowed",
            Self::Unknown => "unknown",
            Self::InvalidToken => "invalid_token",
            Self::IssuerUnavailable { .. } => "issuer_unavailable",
            Self::Ambiguous => "ambiguous",
            Self::NoRandomness => "no_randomness",
            Self::Throttled { .. } => "throttled",
        }
    }
}
