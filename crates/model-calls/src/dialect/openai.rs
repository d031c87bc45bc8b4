//! Shared by the two APIs of OpenAI: error bodies and fields of requests.

pub mod hosted_search;
pub mod request_fields;
pub mod usage;

use serde_json::{Value, json};

use crate::model::ErrorInfo;

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
