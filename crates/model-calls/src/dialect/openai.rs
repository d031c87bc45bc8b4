//! Shared by the two APIs of OpenAI: error bodies and fields of requests.

pub mod arguments;
pub mod hosted_search;
pub mod media;
pub mod request_fields;
pub mod usage;

use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde_json::{Value, json};

use crate::model::ErrorInfo;

/// A comment, which both APIs allow between events.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Status of a denied call. Codex repeats a call after 403, but not after 400.
pub const DENIAL_STATUS: StatusCode = StatusCode::BAD_REQUEST;

/// Returns the time at which a synthetic response is created.
pub fn unix_seconds() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}

/// Returns an error in the format of OpenAI's APIs.
pub fn openai_error(error: &ErrorInfo) -> Value {
    let kind = match error.code {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    // Codex shows the message alone if there is a code.
    let code = match error.reason {
        "POLICY_DENIED" => "content_policy_violation",
        reason => reason,
    };
    json!({ "error": {
        "message": error.message,
        "type": kind,
        "param": null,
        "code": code,
    }})
}
