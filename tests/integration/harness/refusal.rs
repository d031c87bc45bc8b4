//! Assertions on errors of the gateway itself.

use serde_json::{Value, json};

use super::Answer;

/// Asserts that an answer is a complete error in the form of Google's APIs that reveals no internals.
#[track_caller]
pub fn assert_refused(answer: &Answer, status: u16, reason: &str) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(
        answer.header("content-type"),
        "application/json; charset=UTF-8"
    );
    let (id, error) = (answer.header("x-hookgate-request-id"), answer.json());
    assert!(!id.is_empty());
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert_ne!(message, "");
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "hookgate",
        "metadata": { "request_id": id },
    })];
    if status == 429 {
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert!(seconds > 0);
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        }));
    }
    let expected = json!({ "error": {
        "code": status,
        "message": message,
        "status": canonical(reason),
        "details": details,
    }});
    assert_eq!(error, expected);
    for secret in ["127.0.0.1", "/tmp", "bash", "TOP-SECRET"] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// The code of google.rpc that goes with a reason.
fn canonical(reason: &str) -> Value {
    json!(match reason {
        "UNKNOWN_PATH"
        | "POLICY_DENIED"
        | "FOREIGN_ORIGIN"
        | "FOREIGN_HOST"
        | "UPSTREAM_NOT_CONFIGURED"
        | "METHOD_REFUSED"
        | "UNKNOWN_CACHE" => "PERMISSION_DENIED",
        "METHOD_NOT_ALLOWED" | "HTTP_VERSION" => "UNIMPLEMENTED",
        "BODY_TIMEOUT" | "UPSTREAM_TIMEOUT" => "DEADLINE_EXCEEDED",
        "OVERLOADED"
        | "AUDIT_UNAVAILABLE"
        | "ISSUER_UNAVAILABLE"
        | "LIMITS_UNAVAILABLE"
        | "UPSTREAM_UNREACHABLE"
        | "UPSTREAM_REDIRECT"
        | "UPSTREAM_UNREADABLE" => "UNAVAILABLE",
        "INTERNAL" => "INTERNAL",
        "UNAUTHENTICATED" => "UNAUTHENTICATED",
        "TOO_MANY_ATTEMPTS"
        | "RATE_LIMIT_EXCEEDED"
        | "TOKEN_QUOTA_EXCEEDED"
        | "CONCURRENCY_LIMIT_EXCEEDED" => "RESOURCE_EXHAUSTED",
        _ => "INVALID_ARGUMENT",
    })
}
