//! Bodies of errors in the format of Google's APIs.

use serde_json::{Value, json};

use crate::{dialect::document::insert, model::ErrorInfo};

/// Returns an error in the format of Google's APIs (`google.rpc.Status`).
pub fn google_error(error: &ErrorInfo) -> Value {
    let mut info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.reason,
        "domain": "hookgate",
    });
    if !error.request_id.is_empty() {
        let metadata = json!({ "request_id": error.request_id });
        insert(&mut info, "metadata", metadata);
    }
    let retry = error.retry_after.map(|seconds| {
        json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        })
    });
    let details: Vec<Value> = std::iter::once(info).chain(retry).collect();
    json!({ "error": {
        "code": error.code,
        "message": error.message,
        "status": error.status,
        "details": details,
    }})
}
