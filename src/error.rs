//! Errors of requests, and the only place where an error becomes a response.

mod reason;

use std::{error::Error, io, sync::Arc, time::Duration};

use axum::{
    extract::rejection::{BytesRejection, FailedToBufferBody},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use thiserror::Error;

pub use self::reason::ErrorReason;
use crate::{
    auth::{AuthError, LimitRefusal, QuotaExceeded},
    dialect::{Dialect, DialectError, RequestLineError},
    error_chain::{error_chain, with_sources},
    event::Reason,
    model::ErrorInfo,
    observe::recorder::Unavailable,
    upstream::UpstreamError,
};

/// `Retry-After` of an overloaded gateway.
const OVERLOADED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Error of a request as its sender sees it. Contains no host, path, key or stderr.
#[derive(Debug, Clone)]
pub struct ApiError {
    reason: ErrorReason,
    message: String,
    /// Replaces the reason's own status: an error of the model API keeps its status.
    status: Option<StatusCode>,
    /// Cause for the log, not for the sender.
    cause: Option<Arc<str>>,
    retry_after: Option<Duration>,
    /// True if the same request may succeed if it is sent again.
    is_temporary: bool,
    /// HTTP methods of the path, for the header `Allow`.
    allowed_methods: Option<Arc<str>>,
}

/// The body is received more slowly than allowed. Used as the error of the body.
#[derive(Debug, Clone, Copy, Error)]
#[error("request body received too slowly")]
pub struct BodyTooSlow;

/// The body is complete, but too many requests are being processed. Used as the error of
/// the body.
#[derive(Debug, Clone, Copy, Error)]
#[error("too many requests in flight")]
pub struct TooManyInFlight;

impl ApiError {
    /// Creates an error with a message for people.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            status: None,
            cause: None,
            retry_after: (reason == ErrorReason::Overloaded).then_some(OVERLOADED_RETRY_AFTER),
            is_temporary: reason.is_temporary(),
            allowed_methods: None,
        }
    }

    /// Creates the error for a request that hooks denied.
    pub fn denied(reason: &Reason) -> Self {
        Self::new(ErrorReason::PolicyDenied, reason.as_str())
    }

    /// Creates the error for an error response of the model API that is not forwarded. It keeps
    /// the status, which the message names in front of `detail`.
    pub fn upstream_status(status: StatusCode, detail: &str) -> Self {
        let message = format!("model API responded with {} {detail}", status.as_u16());
        Self {
            status: Some(status),
            ..Self::new(ErrorReason::UpstreamUnreadable, message)
        }
    }

    /// Creates the error for a request body that ended with `error`.
    pub fn broken_body(error: &(dyn Error + 'static)) -> Self {
        let known = error_chain(error).find_map(|error| {
            if error.is::<BodyTooSlow>() {
                Some(Self::body_timeout())
            } else if error.is::<TooManyInFlight>() {
                Some(Self::too_many_in_flight())
            } else {
                is_malformed(error).then(|| {
                    let message = "malformed chunks in the request body";
                    Self::new(ErrorReason::BodyBroken, message)
                })
            }
        });
        known.unwrap_or_else(|| {
            let message = "connection closed before the end of the request body";
            Self::new(ErrorReason::BodyBroken, message)
        })
    }

    /// Creates the error for a request body that is not received in time.
    pub fn body_timeout() -> Self {
        Self::new(
            ErrorReason::BodyTimeout,
            "timed out reading the request body",
        )
    }

    /// Creates the error for a request beyond `limits.in_flight`.
    pub fn too_many_in_flight() -> Self {
        Self::new(ErrorReason::Overloaded, TooManyInFlight.to_string())
    }

    /// Sets the status that a denial has in the errors of a model API.
    #[must_use]
    pub fn in_dialect(self, dialect: &dyn Dialect) -> Self {
        let is_denied = self.reason == ErrorReason::PolicyDenied;
        let status = is_denied.then(|| dialect.denial_status());
        Self {
            status: status.or(self.status),
            ..self
        }
    }

    /// Adds the cause and its sources, which only the log contains.
    #[must_use]
    pub fn with_source(self, source: &(dyn Error + 'static)) -> Self {
        let cause = Some(with_sources(source).into());
        Self { cause, ..self }
    }

    /// Sets the delay for `Retry-After`.
    #[must_use]
    pub fn with_retry_after(self, delay: Duration) -> Self {
        let retry_after = Some(delay);
        Self {
            retry_after,
            ..self
        }
    }

    /// Returns the cause for the log.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Returns the message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the reason of the error.
    pub const fn reason(&self) -> ErrorReason {
        self.reason
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status.unwrap_or(self.reason.status())
    }

    /// Renders the response in the form of a model API.
    pub fn render(&self, request_id: &str, dialect: &dyn Dialect) -> Response {
        let seconds = self.retry_seconds();
        let status = self.clone().in_dialect(dialect).status();
        let info = ErrorInfo {
            code: status.as_u16(),
            status: self.reason.canonical_code(),
            reason: self.reason.as_str(),
            message: self.message.clone(),
            request_id: request_id.to_owned(),
            // gemini-cli ignores the header `Retry-After`.
            retry_after: seconds.filter(|_| self.status() == StatusCode::TOO_MANY_REQUESTS),
        };
        let body = dialect.error_body(&info).to_string();
        let content_type = [(header::CONTENT_TYPE, "application/json; charset=UTF-8")];
        let mut response = (status, content_type, body).into_response();
        self.insert_headers(response.headers_mut(), dialect);
        response
            .extensions_mut()
            .insert(BodyErrorReason(self.reason));
        response
    }

    /// Returns the seconds after which a client may retry, rounded up: a client that
    /// returns too early is refused again.
    pub fn retry_seconds(&self) -> Option<u64> {
        self.retry_after.map(|delay| {
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            seconds.max(1)
        })
    }

    /// Inserts the headers about retries, methods, authentication and the connection.
    fn insert_headers(&self, headers: &mut HeaderMap, dialect: &dyn Dialect) {
        if let Some(seconds) = self.retry_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if !dialect.api().is_google() && !self.is_temporary {
            // Clients of these APIs retry some statuses unless they read this.
            let never = HeaderValue::from_static("false");
            headers.insert(HeaderName::from_static("x-should-retry"), never);
        }
        // RFC 9110, section 15.5.6.
        let allowed = self.allowed_methods.as_deref();
        if let Some(Ok(allowed)) = allowed.map(HeaderValue::from_str) {
            headers.insert(header::ALLOW, allowed);
        }
        match self.reason {
            ErrorReason::Unauthenticated => {
                let scheme = HeaderValue::from_static("Bearer realm=\"hookgate\"");
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
            // RFC 9110, section 15.5.22.
            ErrorReason::WebsocketRefused => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            }
            // It is unknown where such a request ends and the next one begins.
            ErrorReason::InvalidHeaders | ErrorReason::HeadersTooLarge => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => (),
        }
    }
}

/// Returns whether the error of a body is about its chunks, which hyper reports as invalid.
fn is_malformed(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
        )
    })
}

/// Reason of the error in the body of a response, which has it in its extensions.
#[derive(Debug, Clone, Copy)]
pub struct BodyErrorReason(pub ErrorReason);

/// Stores the error in the response's extensions. The middleware renders it, because
/// only there the request id is known.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> Self {
        Self::new(ErrorReason::AuditUnavailable, error.to_string())
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::Missing
            | AuthError::CertificateNotAllowed
            | AuthError::Unknown
            | AuthError::InvalidToken => Self::new(ErrorReason::Unauthenticated, message),
            AuthError::IssuerUnavailable { retry_after } => {
                Self::new(ErrorReason::IssuerUnavailable, message).with_retry_after(retry_after)
            }
            AuthError::Ambiguous => Self::new(ErrorReason::Ambiguous, message),
            AuthError::NoRandomness => Self::new(ErrorReason::Internal, message),
            AuthError::Throttled { retry_after } => {
                Self::new(ErrorReason::TooManyAttempts, message).with_retry_after(retry_after)
            }
        }
    }
}

/// Bodies on the admin port, which axum limits to 2 MiB.
impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        match rejection {
            BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
                Self::new(ErrorReason::BodyTooLarge, "body larger than 2 MiB")
            }
            other => Self::broken_body(&other),
        }
    }
}

impl From<QuotaExceeded> for ApiError {
    fn from(exceeded: QuotaExceeded) -> Self {
        let reason = match exceeded.refusal {
            LimitRefusal::Rate(_) => ErrorReason::RateLimitExceeded,
            LimitRefusal::TokensSpent(_) | LimitRefusal::TokensReserved => {
                ErrorReason::TokenQuotaExceeded
            }
            LimitRefusal::Calls => ErrorReason::ConcurrencyLimitExceeded,
            LimitRefusal::Unavailable => ErrorReason::LimitsUnavailable,
        };
        let error = Self::new(reason, exceeded.to_string());
        // Reserved tokens are released when their calls end, and spent ones the next day.
        let is_reserved = exceeded.refusal == LimitRefusal::TokensReserved;
        Self {
            is_temporary: error.is_temporary || is_reserved,
            ..error.with_retry_after(exceeded.retry_after())
        }
    }
}

impl From<DialectError> for ApiError {
    fn from(error: DialectError) -> Self {
        let reason = match &error {
            DialectError::Json(_) => ErrorReason::BadJson,
            DialectError::Ambiguous(_) | DialectError::Twice(_) | DialectError::Mismatch { .. } => {
                ErrorReason::Ambiguous
            }
            DialectError::Field { .. } | DialectError::Spelling(_) => ErrorReason::BadDocument,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<RequestLineError> for ApiError {
    fn from(error: RequestLineError) -> Self {
        let message = error.to_string();
        match error {
            RequestLineError::Method { allowed } => Self {
                allowed_methods: Some(allowed.into()),
                ..Self::new(ErrorReason::MethodNotAllowed, message)
            },
            RequestLineError::Query(_) => Self::new(ErrorReason::BadQuery, message),
            RequestLineError::Twice(_) => Self::new(ErrorReason::Ambiguous, message),
        }
    }
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> Self {
        let reason = match &error {
            UpstreamError::Tls(_) | UpstreamError::InvalidTarget => ErrorReason::Internal,
            UpstreamError::HeadersTooLarge => ErrorReason::HeadersTooLarge,
            UpstreamError::Unreachable(_)
            | UpstreamError::Interrupted(_)
            | UpstreamError::StreamReset
            | UpstreamError::CircuitOpen { .. }
            | UpstreamError::NotRecorded => ErrorReason::UpstreamUnreachable,
            UpstreamError::OutOfFileDescriptors => ErrorReason::Overloaded,
            UpstreamError::Timeout => ErrorReason::UpstreamTimeout,
            UpstreamError::Redirect => ErrorReason::UpstreamRedirect,
            UpstreamError::TooLarge { .. }
            | UpstreamError::UnsupportedEncoding
            | UpstreamError::InvalidStatus => ErrorReason::UpstreamUnreadable,
        };
        let api_error = Self::new(reason, error.to_string());
        match &error {
            // The agent's request is refused: there is no cause to log.
            UpstreamError::HeadersTooLarge => api_error,
            UpstreamError::CircuitOpen { retry_after } => {
                api_error.with_source(&error).with_retry_after(*retry_after)
            }
            _ => api_error.with_source(&error),
        }
    }
}
