//! Outputs of hooks that fail closed, with decisions and edits that have no usable value.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Answer, TestGateway, Upstream, hook, prompt};

/// Returns the answer to a prompt, which calls `read_file`, under a hook on this event.
async fn answer_under(event: &str, hook: &Value, on_failure: &str) -> Answer {
    let call = json!({ "functionCall": { "name": "read_file", "args": {} } });
    let content = json!({ "role": "model", "parts": [{ "text": "well" }, call] });
    let upstream = Upstream::answering(&json!({ "candidates": [{ "content": content }] })).await;
    let mut hook = hook.clone();
    hook["on_failure"] = json!(on_failure);
    let gate = TestGateway::start(&upstream, &hook::config(&[(event, hook)])).await;
    let mut body = prompt("go");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "read_file" }] }]);

    let answer = gate.agent().generate(MODEL, &body).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Checks that the output of a hook on this event has no effect, and is a denial because of this
/// field if the hook fails closed.
async fn assert_denies_if_closed(event: &str, output: &Value, field: &str) {
    let hook = hook::printing("it", output);

    let open = answer_under(event, &hook, "open").await;
    let closed = answer_under(event, &hook, "closed").await;

    assert!(has_call(&open), "{event} {output}: {}", open.text());
    assert!(!has_call(&closed), "{event} {output}: {}", closed.text());
    let reason = format!("Hook it failed: unusable value of `{field}`");
    assert!(closed.text().contains(&reason), "{}", closed.text());
}

fn has_call(answer: &Answer) -> bool {
    answer.text().contains(r#""read_file""#)
}

fn arguments(tool_input: &Value) -> Value {
    json!({ "hookSpecificOutput": { "tool_input": tool_input } })
}

/// Returns an edit of an answer with this content.
fn content(content: &Value) -> Value {
    hook::response(&json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] }))
}

#[tokio::test]
async fn an_unusable_decision_or_edit_is_a_denial_if_the_hook_fails_closed() {
    let selecting = |selection: Value| hook::request(&json!({ "toolConfig": selection }));
    let names = json!({ "mode": "ANY", "allowedFunctionNames": "ls" });
    let messages = |messages: Value| hook::request(&json!({ "messages": messages }));
    let call = json!([{ "functionCall": 5 }]);
    for (event, output, field) in [
        ("BeforeTool", arguments(&json!("x")), "tool_input"),
        ("BeforeTool", arguments(&json!([1])), "tool_input"),
        ("BeforeTool", json!({ "continue": "false" }), "continue"),
        (
            "BeforeTool",
            json!({ "hookSpecificOutput": [] }),
            "hookSpecificOutput",
        ),
        ("BeforeModel", json!({ "continue": 0 }), "continue"),
        ("BeforeModel", hook::request(&json!(5)), "llm_request"),
        ("BeforeModel", messages(json!("x")), "messages"),
        ("BeforeModel", messages(json!([5])), "messages"),
        (
            "BeforeModel",
            selecting(json!({ "mode": "none" })),
            "toolConfig.mode",
        ),
        ("BeforeModel", selecting(json!(5)), "toolConfig"),
        (
            "BeforeModel",
            selecting(names),
            "toolConfig.allowedFunctionNames",
        ),
        (
            "BeforeModel",
            hook::request(&json!({ "contents": ["***"] })),
            "contents",
        ),
        ("BeforeModel", hook::response(&json!(5)), "llm_response"),
        ("AfterModel", hook::response(&json!(5)), "llm_response"),
        ("AfterModel", content(&json!("x")), "llm_response"),
        (
            "AfterModel",
            content(&json!({ "parts": call })),
            "llm_response",
        ),
    ] {
        assert_denies_if_closed(event, &output, field).await;
    }
}

#[tokio::test]
async fn an_edited_answer_in_a_wrong_place_is_a_denial_if_the_hook_fails_closed() {
    let counts = json!({ "totalTokenCount": 1 });
    let with_counts = |key: &str, value: Value| json!({ key: value, "usageMetadata": counts });
    let misplaced = json!({ "role": "model", "text": "***" });
    let shown = json!({ "content": { "role": "model", "parts": ["well"] } });
    for (response, field) in [
        (
            with_counts("candidates", json!({ "content": shown })),
            "llm_response",
        ),
        (with_counts("candidates", json!(["***"])), "llm_response"),
        (with_counts("text", json!(["***"])), "llm_response"),
        (
            json!({ "candidates": [{ "content": misplaced, "finishReason": "STOP" }] }),
            "llm_response",
        ),
        (
            json!({ "candidates": [{ "text": "***", "index": 0 }] }),
            "llm_response",
        ),
        (
            json!({ "text": "***", "candidates": [shown] }),
            "llm_response.text",
        ),
    ] {
        assert_denies_if_closed("AfterModel", &hook::response(&response), field).await;
    }
}

#[tokio::test]
async fn an_unreadable_message_or_selection_is_a_denial_if_the_hook_fails_closed() {
    let beside_system = |message: Value| {
        let system = json!({ "role": "system", "content": "be nice" });
        (json!({ "messages": [system, message] }), "messages")
    };
    let misspelled = json!({ "mode": "AUTO", "allowedFunctionName": ["ls"] });
    for (request, field) in [
        beside_system(json!({ "role": "User", "content": "***" })),
        beside_system(json!({ "role": "user", "content": { "value": "***" } })),
        beside_system(json!({ "role": "system", "content": null })),
        (
            json!({ "toolConfig": misspelled }),
            "toolConfig.allowedFunctionName",
        ),
    ] {
        assert_denies_if_closed("BeforeModel", &hook::request(&request), field).await;
    }
}

#[tokio::test]
async fn unusable_contents_of_other_families_are_a_denial_if_the_hook_fails_closed() {
    let upstream = Upstream::mock().await;
    let system = json!({ "role": "system", "content": "be nice" });
    let unreadable = json!({ "role": "User", "content": "***" });
    for (protocol, contents, on_failure, is_denied) in [
        ("llxprt", json!("x"), "open", false),
        ("llxprt", json!("x"), "closed", true),
        ("llxprt", json!([5]), "closed", true),
        ("llxprt", json!([]), "closed", false),
        ("llxprt", json!([{ "parts": ["went"] }]), "closed", false),
        ("terminai", json!([system, unreadable]), "closed", true),
    ] {
        let files = format!("hook_files: [{{ path: hooks.json, protocol: {protocol} }}]\n");
        let key = if protocol == "llxprt" {
            "contents"
        } else {
            "messages"
        };
        let output = hook::request(&json!({ key: contents }));
        let mut hook = hook::printing("it", &output);
        hook["on_failure"] = json!(on_failure);
        let hooks = json!({ "hooks": { "BeforeModel": [{ "hooks": [hook] }] } }).to_string();
        let gate = TestGateway::with_files(&upstream, &files, &[("hooks.json", &hooks)]).await;

        let answer = gate.agent().generate(MODEL, &prompt("go")).await;

        let reason = "Hook it failed: unusable value of `messages`";
        let text = answer.text();
        assert_eq!(
            text.contains(reason),
            is_denied,
            "{output} {on_failure}: {text}"
        );
    }
}

#[tokio::test]
async fn an_empty_or_returned_edit_is_no_failure() {
    let empty = json!({ "messages": [], "config": null, "toolConfig": null });
    for (event, hook) in [
        ("BeforeTool", hook::printing("it", &arguments(&json!(null)))),
        ("BeforeTool", hook::printing("it", &arguments(&json!([])))),
        ("BeforeModel", hook::printing("it", &hook::request(&empty))),
        (
            "BeforeModel",
            hook::printing("it", &hook::response(&json!({}))),
        ),
        ("BeforeModel", hook::returning("it", "llm_request")),
        (
            "AfterModel",
            hook::printing("it", &hook::response(&json!({ "candidates": [] }))),
        ),
        ("AfterModel", hook::returning("it", "llm_response")),
    ] {
        let answer = answer_under(event, &hook, "closed").await;

        assert!(has_call(&answer), "{event} {hook}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_denial_with_an_unusable_field_keeps_its_reason() {
    let output = json!({ "decision": "deny", "reason": "not today", "continue": "false" });

    let answer = answer_under("BeforeModel", &hook::printing("it", &output), "closed").await;

    assert!(answer.text().contains("not today"), "{}", answer.text());
}
