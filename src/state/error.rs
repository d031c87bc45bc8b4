//! The one place where an error becomes a response.

use std::{sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::{
    audit_log::Unavailable,
    auth::{AuthError, QuotaExceeded},
    dialect::{self, DialectError},
    event::Reason,
    model::ErrorInfo,
    upstream::UpstreamError,
};

/// Why a request failed, as one word; `docs/errors.md` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorReason {
    /// The body is no JSON.
    BadJson,
    /// A field is missing or has the wrong type.
    BadDocument,
    /// One thing is said twice.
    Ambiguous,
    /// A query parameter that is not passed on.
    BadQuery,
    /// A head that could be read in two ways.
    BadHead,
    /// A head that is too large.
    HeadTooLarge,
    /// A model call that by its own word is no JSON.
    BadContentType,
    /// A session name that is none.
    BadSession,
    /// An event that is none.
    BadEvent,
    /// A config that cannot be in force.
    BadConfig,
    /// A path that is not served here.
    UnknownPath,
    /// No session is remembered by that id.
    UnknownSession,
    /// Another HTTP method is wanted.
    MethodNotAllowed,
    /// The body is too large.
    BodyTooLarge,
    /// The body did not come in time.
    BodyTimeout,
    /// The body broke off.
    BodyBroken,
    /// The body is encoded, or of a kind, that cannot be read.
    UnsupportedMediaType,
    /// Hooks refused.
    PolicyDenied,
    /// A web page calls that may not.
    ForeignOrigin,
    /// This gateway is called by a name that is not its own.
    ForeignHost,
    /// A key or token is missing or wrong.
    Unauthenticated,
    /// A method whose content hookgate does not see.
    MethodRefused,
    /// Content kept by the model API that is not the caller's.
    UnknownCache,
    /// The model API that a call is for is not in the config.
    UpstreamNotConfigured,
    /// Too many wrong keys came from there.
    TooManyAttempts,
    /// The caller asks too often.
    RateExceeded,
    /// The caller's tokens of this day are spent.
    TokensSpent,
    /// Too many of the caller's requests are under way.
    CallerBusy,
    /// Another version of HTTP is wanted.
    HttpVersion,
    /// Too much is under way.
    Overloaded,
    /// The decision log cannot be written.
    AuditUnavailable,
    /// The model API cannot be reached.
    UpstreamUnreachable,
    /// The model API did not answer in time.
    UpstreamTimeout,
    /// The model API answered with a redirect.
    UpstreamRedirect,
    /// The model API's answer cannot be read.
    UpstreamUnreadable,
    /// Something here is broken.
    Internal,
}

impl ErrorReason {
    /// Every reason.
    pub const ALL: &[Self] = &[
        Self::BadJson,
        Self::BadDocument,
        Self::Ambiguous,
        Self::BadQuery,
        Self::BadHead,
        Self::HeadTooLarge,
        Self::BadContentType,
        Self::BadSession,
        Self::BadEvent,
        Self::BadConfig,
        Self::UnknownPath,
        Self::UnknownSession,
        Self::MethodNotAllowed,
        Self::BodyTooLarge,
        Self::BodyTimeout,
        Self::BodyBroken,
        Self::UnsupportedMediaType,
        Self::PolicyDenied,
        Self::ForeignOrigin,
        Self::ForeignHost,
        Self::Unauthenticated,
        Self::MethodRefused,
        Self::UnknownCache,
        Self::UpstreamNotConfigured,
        Self::TooManyAttempts,
        Self::RateExceeded,
        Self::TokensSpent,
        Self::CallerBusy,
        Self::HttpVersion,
        Self::Overloaded,
        Self::AuditUnavailable,
        Self::UpstreamUnreachable,
        Self::UpstreamTimeout,
        Self::UpstreamRedirect,
        Self::UpstreamUnreadable,
        Self::Internal,
    ];

    /// HTTP status, canonical code and the word itself.
    pub const fn parts(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as Http;
        let invalid = "INVALID_ARGUMENT";
        let unavailable = "UNAVAILABLE";
        let (forbidden, exhausted) = ("PERMISSION_DENIED", "RESOURCE_EXHAUSTED");
        let (other, late) = ("UNIMPLEMENTED", "DEADLINE_EXCEEDED");
        match self {
            Self::BadJson => (Http::BAD_REQUEST, invalid, "BAD_JSON"),
            Self::BadDocument => (Http::BAD_REQUEST, invalid, "BAD_DOCUMENT"),
            Self::Ambiguous => (Http::BAD_REQUEST, invalid, "AMBIGUOUS"),
            Self::BadQuery => (Http::BAD_REQUEST, invalid, "BAD_QUERY"),
            Self::BadHead => (Http::BAD_REQUEST, invalid, "BAD_HEAD"),
            Self::HeadTooLarge => (
                Http::REQUEST_HEADER_FIELDS_TOO_LARGE,
                invalid,
                "HEAD_TOO_LARGE",
            ),
            Self::BadContentType => (Http::BAD_REQUEST, invalid, "BAD_CONTENT_TYPE"),
            Self::BadSession => (Http::BAD_REQUEST, invalid, "BAD_SESSION"),
            Self::BadEvent => (Http::BAD_REQUEST, invalid, "BAD_EVENT"),
            Self::BadConfig => (Http::BAD_REQUEST, "FAILED_PRECONDITION", "BAD_CONFIG"),
            Self::UnknownPath => (Http::FORBIDDEN, "PERMISSION_DENIED", "UNKNOWN_PATH"),
            Self::UnknownSession => (Http::NOT_FOUND, "NOT_FOUND", "UNKNOWN_SESSION"),
            Self::MethodNotAllowed => (Http::METHOD_NOT_ALLOWED, other, "METHOD_NOT_ALLOWED"),
            Self::BodyTooLarge => (Http::PAYLOAD_TOO_LARGE, invalid, "BODY_TOO_LARGE"),
            Self::BodyTimeout => (Http::REQUEST_TIMEOUT, "DEADLINE_EXCEEDED", "BODY_TIMEOUT"),
            Self::BodyBroken => (Http::BAD_REQUEST, invalid, "BODY_BROKEN"),
            Self::UnsupportedMediaType => (
                Http::UNSUPPORTED_MEDIA_TYPE,
                invalid,
                "UNSUPPORTED_MEDIA_TYPE",
            ),
            Self::PolicyDenied => (Http::FORBIDDEN, "PERMISSION_DENIED", "POLICY_DENIED"),
            Self::Unauthenticated => (Http::UNAUTHORIZED, "UNAUTHENTICATED", "UNAUTHENTICATED"),
            Self::MethodRefused => (Http::FORBIDDEN, "PERMISSION_DENIED", "METHOD_REFUSED"),
            Self::UnknownCache => (Http::FORBIDDEN, "PERMISSION_DENIED", "UNKNOWN_CACHE"),
            Self::UpstreamNotConfigured => (Http::FORBIDDEN, forbidden, "UPSTREAM_NOT_CONFIGURED"),
            Self::ForeignOrigin => (Http::FORBIDDEN, forbidden, "FOREIGN_ORIGIN"),
            Self::ForeignHost => (Http::FORBIDDEN, forbidden, "FOREIGN_HOST"),
            Self::TooManyAttempts => (Http::TOO_MANY_REQUESTS, exhausted, "TOO_MANY_ATTEMPTS"),
            Self::RateExceeded => (Http::TOO_MANY_REQUESTS, exhausted, "RATE_EXCEEDED"),
            Self::TokensSpent => (Http::TOO_MANY_REQUESTS, exhausted, "TOKENS_SPENT"),
            Self::CallerBusy => (Http::TOO_MANY_REQUESTS, exhausted, "CALLER_BUSY"),
            Self::AuditUnavailable => (Http::SERVICE_UNAVAILABLE, unavailable, "AUDIT_UNAVAILABLE"),
            Self::HttpVersion => (
                Http::HTTP_VERSION_NOT_SUPPORTED,
                "UNIMPLEMENTED",
                "HTTP_VERSION",
            ),
            Self::Overloaded => (Http::SERVICE_UNAVAILABLE, unavailable, "OVERLOADED"),
            Self::UpstreamUnreachable => (
                Http::SERVICE_UNAVAILABLE,
                unavailable,
                "UPSTREAM_UNREACHABLE",
            ),
            Self::UpstreamTimeout => (Http::GATEWAY_TIMEOUT, late, "UPSTREAM_TIMEOUT"),
            Self::UpstreamRedirect => (Http::BAD_GATEWAY, unavailable, "UPSTREAM_REDIRECT"),
            Self::UpstreamUnreadable => (Http::BAD_GATEWAY, unavailable, "UPSTREAM_UNREADABLE"),
            Self::Internal => (Http::INTERNAL_SERVER_ERROR, "INTERNAL", "INTERNAL"),
        }
    }
}

/// When to try again what there was no room for.
const SOON: Duration = Duration::from_secs(1);

/// What the agent is told when a request fails. No host, path, key or stderr.
#[derive(Debug, Clone)]
pub struct ApiError {
    reason: ErrorReason,
    message: String,
    /// Instead of the reason's own, for errors that upstream made.
    status: Option<StatusCode>,
    /// What the log is told, and the agent is not.
    cause: Option<Arc<str>>,
    /// When to ask again.
    wait: Option<Duration>,
}

impl ApiError {
    /// An error with a message for people.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            status: None,
            cause: None,
            wait: (reason == ErrorReason::Overloaded).then_some(SOON),
        }
    }

    /// The same error, which has this cause; only the log is told.
    #[must_use]
    pub fn because(self, cause: &dyn std::error::Error) -> Self {
        let chain = std::iter::successors(Some(cause), |it| it.source());
        let chain: Vec<String> = chain.map(ToString::to_string).collect();
        let cause = Some(chain.join(": ").into());
        Self { cause, ..self }
    }

    /// What the log is told of it, and the agent is not.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The same error, which says when to ask again.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        let wait = Some(wait);
        Self { wait, ..self }
    }

    /// Hooks refused.
    pub fn denied(reason: &Reason) -> Self {
        Self::new(ErrorReason::PolicyDenied, reason.as_str())
    }

    /// Upstream answered with an error that is no JSON; its status stays.
    pub fn upstream_status(status: StatusCode) -> Self {
        Self {
            status: Some(status),
            ..Self::new(
                ErrorReason::UpstreamUnreadable,
                format!("the model API answered {} without JSON", status.as_u16()),
            )
        }
    }

    /// Why, as one word.
    pub const fn reason(&self) -> ErrorReason {
        self.reason
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status.unwrap_or(self.reason.parts().0)
    }

    /// The whole answer, in Google's shape.
    pub fn render(&self, request_id: &str) -> Response {
        let (_, status, reason) = self.reason.parts();
        let seconds = self.wait.map(|it| {
            let seconds = it.as_secs() + u64::from(it.subsec_nanos() > 0);
            seconds.max(1)
        });
        let problem = ErrorInfo {
            code: self.status().as_u16(),
            status,
            reason,
            message: self.message.clone(),
            request_id: request_id.to_owned(),
            // gemini-cli does not look at `Retry-After`, and asks again at once.
            retry_after: seconds.filter(|_| self.status() == StatusCode::TOO_MANY_REQUESTS),
        };
        let body = dialect::google_error(&problem).to_string();
        let json = [(header::CONTENT_TYPE, "application/json; charset=UTF-8")];
        let mut response = (self.status(), json, body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match self.reason {
            ErrorReason::Unauthenticated => {
                let scheme = HeaderValue::from_static("Bearer realm=\"hookgate\"");
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
            // Nobody knows where such a request ends, and the next one begins.
            ErrorReason::BadHead | ErrorReason::HeadTooLarge => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => (),
        }
        response
    }
}

/// Leaves the error in the response's extensions: the outermost layer knows the
/// request's id and renders it.
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
    fn from(stranger: AuthError) -> Self {
        let message = stranger.to_string();
        match stranger {
            AuthError::Silent | AuthError::Unknown | AuthError::BadToken => {
                Self::new(ErrorReason::Unauthenticated, message)
            }
            AuthError::Ambiguous => Self::new(ErrorReason::Ambiguous, message),
            AuthError::TooMany { wait } => {
                Self::new(ErrorReason::TooManyAttempts, message).after(wait)
            }
        }
    }
}

impl From<QuotaExceeded> for ApiError {
    fn from(exceeded: QuotaExceeded) -> Self {
        let reason = match exceeded {
            QuotaExceeded::Rate { .. } => ErrorReason::RateExceeded,
            QuotaExceeded::Tokens { .. } => ErrorReason::TokensSpent,
            QuotaExceeded::InFlight { .. } => ErrorReason::CallerBusy,
        };
        Self::new(reason, exceeded.to_string()).after(exceeded.wait())
    }
}

impl From<DialectError> for ApiError {
    fn from(error: DialectError) -> Self {
        let reason = match &error {
            DialectError::Method { .. } => ErrorReason::MethodNotAllowed,
            DialectError::Query(_) => ErrorReason::BadQuery,
            DialectError::Json(_) => ErrorReason::BadJson,
            DialectError::Ambiguous(_) | DialectError::Twice(_) | DialectError::OtherModel => {
                ErrorReason::Ambiguous
            }
            DialectError::Field { .. } | DialectError::Spelling(_) => ErrorReason::BadDocument,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> Self {
        let reason = match &error {
            UpstreamError::Tls(_) | UpstreamError::InvalidTarget => ErrorReason::Internal,
            UpstreamError::Unreachable(_)
            | UpstreamError::Interrupted(_)
            | UpstreamError::CircuitOpen { .. } => ErrorReason::UpstreamUnreachable,
            UpstreamError::OutOfFileDescriptors => ErrorReason::Overloaded,
            UpstreamError::Timeout => ErrorReason::UpstreamTimeout,
            UpstreamError::Redirect => ErrorReason::UpstreamRedirect,
            UpstreamError::TooLarge { .. }
            | UpstreamError::UnsupportedEncoding
            | UpstreamError::InvalidStatus => ErrorReason::UpstreamUnreadable,
        };
        let told = Self::new(reason, error.to_string()).because(&error);
        match error {
            UpstreamError::CircuitOpen { retry_after } => told.after(retry_after),
            _ => told,
        }
    }
}
