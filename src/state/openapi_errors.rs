//! How requests are refused, for the `OpenAPI` document.

use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

/// An error as Google's APIs write it.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct GoogleError {
    error: GoogleErrorBody,
}

#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct GoogleErrorBody {
    /// The HTTP status.
    code: u16,
    /// For people.
    message: String,
    /// The canonical code, such as `INVALID_ARGUMENT`.
    status: String,
    /// One `ErrorInfo` with `reason`, `domain` and `metadata.request_id`; with status
    /// 429 a `RetryInfo`, too. An error of the model API may have none, or others.
    #[schema(value_type = Vec<Object>, required = false)]
    details: Vec<Value>,
}

/// How a request on the agents' port is refused; `docs/errors.md` lists the
/// reasons.
#[derive(Debug, IntoResponses)]
pub enum Refusals {
    /// It cannot be understood, or in two ways.
    #[response(status = 400)]
    Unclear(GoogleError),
    /// Nobody is known by its credential.
    #[response(status = 401)]
    Unknown(GoogleError),
    /// Hooks or the config do not allow it, or the path is not served.
    #[response(status = 403)]
    Denied(GoogleError),
    /// Another HTTP method is wanted.
    #[response(status = 405)]
    OtherMethod(GoogleError),
    /// Its body did not come in time.
    #[response(status = 408)]
    Late(GoogleError),
    /// Its body is too large.
    #[response(status = 413)]
    TooLarge(GoogleError),
    /// Its body is of another kind than can be read.
    #[response(status = 415)]
    OtherKind(GoogleError),
    /// The caller has asked for more than its share.
    #[response(status = 429)]
    TooMany(GoogleError),
    /// Its head is too large.
    #[response(status = 431)]
    LargeHead(GoogleError),
    /// Too much is under way here, or the model API is away.
    #[response(status = 503)]
    Busy(GoogleError),
    /// HTTP/1.1 is wanted.
    #[response(status = 505)]
    OtherVersion(GoogleError),
}

/// How a request on the admin port is refused.
#[derive(Debug, IntoResponses)]
pub enum AdminRefusals {
    /// It has no token, or a wrong one.
    #[response(status = 401)]
    NoToken(GoogleError),
    /// It comes from a page in a browser, or for another host.
    #[response(status = 403)]
    Foreign(GoogleError),
    /// Another HTTP method is wanted.
    #[response(status = 405)]
    OtherMethod(GoogleError),
}
