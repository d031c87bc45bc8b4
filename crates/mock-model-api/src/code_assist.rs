//! Account methods of Code Assist that gemini-cli calls.

use axum::http::Method;
use serde_json::{Value, json};

/// Returns the response of an account method, if `verb` is one.
pub(super) fn answer(method: &Method, verb: &str) -> Option<Value> {
    let answer = match (method.as_str(), verb) {
        ("POST", "loadCodeAssist") => json!({
            "currentTier": { "id": "standard-tier", "name": "Mock" },
            "allowedTiers": [{ "id": "standard-tier", "name": "Mock", "isDefault": true }],
            "cloudaicompanionProject": "mock-project",
        }),
        ("POST", "onboardUser") => operation(),
        ("POST", "retrieveUserQuota") => json!({ "buckets": [] }),
        ("POST", "listExperiments") => json!({ "experimentIds": [], "flags": [] }),
        ("GET", "getCodeAssistGlobalUserSetting") | ("POST", "setCodeAssistGlobalUserSetting") => {
            json!({ "freeTierDataCollectionOptin": false })
        }
        ("POST", "fetchAdminControls" | "recordCodeAssistMetrics") => json!({}),
        _ => return None,
    };
    Some(answer)
}

/// Returns the completed operation of signing up a user.
pub(super) fn operation() -> Value {
    json!({
        "name": "operations/mock",
        "done": true,
        "response": { "cloudaicompanionProject": { "id": "mock-project", "name": "mock-project" } },
    })
}
