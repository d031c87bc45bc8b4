//! Shared by the two APIs of OpenAI: error bodies, fields of requests, and lookups.

pub mod other_models;
pub mod request_fields;
pub mod storage;
pub mod usage;

use serde_json::{Value, json};

use crate::{
    dialect::{document::Document, error::DialectError},
    model::ErrorInfo,
};

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

/// Returns whether a field is present and not `null`.
pub fn is_set(document: &Document, field: &[&str]) -> Result<bool, DialectError> {
    let value = document.bytes_of(field)?;
    Ok(value.is_some_and(|value| *value != *b"null"))
}
