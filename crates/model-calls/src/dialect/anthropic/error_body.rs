//! Bodies of errors in the format of the Messages API.

use serde_json::{Value, json};

use crate::{dialect::document::insert, model::ErrorInfo};

/// Returns an error in the format of the API, with the reason beside the message.
pub fn messages_error(error: &ErrorInfo) -> Value {
    let mut body = json!({
        "type": "error",
        "error": {
            "type": error_type(error.code),
            "message": error.message,
            "reason": error.reason,
        },
    });
    if !error.request_id.is_empty() {
        insert(&mut body, "request_id", error.request_id.as_str());
    }
    body
}

/// Returns the error type of an HTTP status.
const fn error_type(code: u16) -> &'static str {
    match code {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        408 | 504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_form_of_the_api() {
        let error = ErrorInfo {
            code: 403,
            status: "PERMISSION_DENIED",
            reason: "POLICY_DENIED",
            message: "not today".to_owned(),
            request_id: "r-1".to_owned(),
            retry_after: None,
        };
        let expected = json!({
            "type": "error",
            "error": {
                "type": "permission_error",
                "message": "not today",
                "reason": "POLICY_DENIED",
            },
            "request_id": "r-1",
        });
        assert_eq!(messages_error(&error), expected);
    }
}
