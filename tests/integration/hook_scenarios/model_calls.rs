//! Hooks on model calls: `BeforeModel`, `BeforeToolSelection`, `AfterModel`.

use serde_json::json;

use super::{Scenario, counted, printing, settings};

#[tokio::test]
async fn a_model_request_is_replaced() {
    let message =
        "Please respond with exactly: The security hook modified this request successfully.";
    let hook = printing(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeModel",
        "llm_request": { "messages": [{ "role": "user", "content": message }] },
    }}));
    let scenario = Scenario::start("before-model", &settings("BeforeModel", "", &[&hook])).await;

    let answer = scenario.coder().ask("Tell me a story").await;

    assert!(
        answer.to_lowercase().contains("security hook modified"),
        "{answer}"
    );
    let contents = scenario.last_contents(1);
    assert!(contents[0].to_string().contains(message), "{contents:?}");
    assert!(
        !scenario
            .upstream
            .only_request()
            .body
            .contains("Tell me a story")
    );
}

#[tokio::test]
async fn a_model_call_is_denied_and_never_made() {
    for decision in ["deny", "block"] {
        let reason = "Model execution blocked by security policy";
        let hook = printing(&json!({ "decision": decision, "reason": reason }));
        let scenario =
            Scenario::start("before-model", &settings("BeforeModel", "", &[&hook])).await;

        let answer = scenario.coder().ask("Hello").await;

        assert_eq!(answer, reason);
        assert_eq!(scenario.calls(), 0);
    }
}

#[tokio::test]
async fn a_model_answer_is_replaced() {
    let text = "[FILTERED] Response has been filtered for security compliance.";
    let hook = printing(
        &json!({ "hookSpecificOutput": { "hookEventName": "AfterModel", "llm_response": {
            "candidates": [{
                "content": { "role": "model", "parts": [text] }, "finishReason": "STOP",
            }],
        }}}),
    );
    let scenario = Scenario::start("after-model", &settings("AfterModel", "", &[&hook])).await;

    let answer = scenario.coder().ask("What is 2 + 2?").await;

    assert!(answer.contains(text), "{answer}");
    assert!(!answer.contains('4'), "{answer}");
}

#[tokio::test]
async fn tools_are_selected() {
    let names = json!(["read_file", "run_shell_command"]);
    let hook = printing(&json!({ "hookSpecificOutput": {
        "hookEventName": "BeforeToolSelection",
        "toolConfig": { "mode": "ANY", "allowedFunctionNames": names },
    }}));
    let hooks = settings("BeforeToolSelection", "", &[&counted(&hook)]);
    let scenario = Scenario::start("before-tool-selection", &hooks).await;
    let mut coder = scenario.coder();
    let text = "test data".to_owned();
    coder.files.insert("new_file_data.txt".to_owned(), text);

    coder.ask("Check the content of new_file_data.txt").await;

    assert_eq!(coder.ran[0]["name"], "read_file");
    assert_eq!(scenario.runs(), scenario.calls());
    for request in scenario.upstream.requests() {
        let config = &request.json()["toolConfig"]["functionCallingConfig"];
        assert_eq!(
            config,
            &json!({ "mode": "ANY", "allowedFunctionNames": names })
        );
    }
}
