//! What gemini-cli asks Code Assist beside models: who the user is and what they may do.

use axum::http::Method;
use serde_json::{Value, json};

/// The answer to a helper call, if `verb` is one. Pure.
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

/// What becomes of signing a user up: it is done. Pure.
pub(super) fn operation() -> Value {
    json!({
        "name": "operations/mock",
        "done": true,
        "response": { "cloudaicompanionProject": { "id": "mock-project", "name": "mock-project" } },
    })
}
