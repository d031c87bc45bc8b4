//! Error responses in the `OpenAPI` document.

#![expect(dead_code, reason = "only the schemas are used")]

use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

/// Error in the format of Google's APIs.
#[derive(Debug, ToSchema)]
pub struct GoogleError {
    error: GoogleErrorBody,
}

#[derive(Debug, ToSchema)]
pub struct GoogleErrorBody {
    /// HTTP status of the response.
    code: u16,
    /// Human-readable message of the error.
    message: String,
    /// Canonical code, such as `INVALID_ARGUMENT`.
    status: String,
    /// One `ErrorInfo` with `reason`, `domain` and `metadata.request_id`; with status 429
    /// also a `RetryInfo`. Errors of the model API may have none, or others.
    #[schema(value_type = Vec<Object>, required = false)]
    details: Vec<Value>,
}

/// Errors on the agents' port; `docs/errors.md` lists the reasons.
#[derive(Debug, IntoResponses)]
pub enum AgentErrors {
    /// The request is invalid or ambiguous.
    #[response(status = 400)]
    Invalid(GoogleError),
    /// The credential is missing or invalid.
    #[response(status = 401)]
    Unauthenticated(GoogleError),
    /// Denied by hooks or the config, or the path is not served.
    #[response(status = 403)]
    Forbidden(GoogleError),
    /// The path does not support the HTTP method.
    #[response(status = 405)]
    MethodNotAllowed(GoogleError),
    /// The body was not received in time.
    #[response(status = 408)]
    BodyTimeout(GoogleError),
    /// The body is too large.
    #[response(status = 413)]
    BodyTooLarge(GoogleError),
    /// Unsupported media type or content encoding.
    #[response(status = 415)]
    UnsupportedMediaType(GoogleError),
    /// A limit of the caller is exceeded.
    #[response(status = 429)]
    LimitExceeded(GoogleError),
    /// Request line and headers are too large.
    #[response(status = 431)]
    HeadersTooLarge(GoogleError),
    /// The gateway is overloaded, or the model API is not reachable.
    #[response(status = 503)]
    Unavailable(GoogleError),
    /// Unsupported HTTP version; supported are HTTP/1.1 and HTTP/2.
    #[response(status = 505)]
    HttpVersion(GoogleError),
}

/// Errors on the admin port.
#[derive(Debug, IntoResponses)]
pub enum AdminErrors {
    /// The admin token is missing or invalid.
    #[response(status = 401)]
    Unauthenticated(GoogleError),
    /// The user lacks the role, the request of a browser session lacks its token, or the origin or
    /// host is not allowed.
    #[response(status = 403)]
    Forbidden(GoogleError),
    /// The path does not support the HTTP method.
    #[response(status = 405)]
    MethodNotAllowed(GoogleError),
    /// There were too many invalid tokens from the address.
    #[response(status = 429)]
    TooManyAttempts(GoogleError),
}

/// Errors on the admin port of operations that need no credential.
#[derive(Debug, IntoResponses)]
pub enum HealthErrors {
    /// The origin or host is not allowed.
    #[response(status = 403)]
    Forbidden(GoogleError),
    /// The path does not support the HTTP method.
    #[response(status = 405)]
    MethodNotAllowed(GoogleError),
    /// The body is larger than 2 MiB.
    #[response(status = 413)]
    BodyTooLarge(GoogleError),
}
