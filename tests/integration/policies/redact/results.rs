//! Masked results of tools, beside other policies and hooks on `AfterTool`.

use serde_json::{Value, json};

use super::{KEY, MODEL};
use crate::families::family::{Family, Part};
use crate::harness::{TestGateway, Upstream, hook};

const MASKED: &str = "mail [REDACTED:email] key [REDACTED:aws_key] end";

/// Reports a result with two secrets under this config, and returns the answer.
async fn report(config: &str) -> Value {
    report_content(config, &secrets().into()).await
}

/// Reports a result with this content, and returns the answer.
async fn report_content(config: &str, content: &Value) -> Value {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, config).await;
    let event = json!({
        "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {},
        "tool_response": { "llmContent": content, "returnDisplay": "" },
    });
    gateway.agent().report(&event, "").await.json()
}

/// Sends a result with two secrets under this config, and returns what upstream receives of it.
async fn send(config: &str) -> Value {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, config).await;
    let result = json!({ "name": "t", "response": { "output": secrets() } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "t", "args": {} } }] },
        { "role": "user", "parts": [{ "functionResponse": result }] },
    ] });
    let answer = gateway.agent().generate(MODEL, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sent = upstream.only_request().json();
    sent["contents"][2]["parts"][0]["functionResponse"]["response"].clone()
}

fn secrets() -> String {
    format!("mail jo@example.com key {KEY} end")
}

/// A policy on the event of results alone.
fn policy(name: &str, detector: &str) -> Value {
    json!({ "type": "builtin", "name": name, "policy": "redact", "detect": [detector] })
}

#[tokio::test]
async fn several_policies_mask_one_reported_result() {
    let policies = [
        json!({ "policy": "redact", "name": "org", "detect": ["email"] }),
        json!({ "policy": "redact", "name": "team", "detect": ["aws_key"] }),
    ];
    let answer = report(&format!("policies: {}\n", json!(policies))).await;

    assert_eq!(answer["decision"], "deny");
    assert_eq!(answer["reason"], MASKED);
}

#[tokio::test]
async fn several_policies_mask_one_result_of_a_model_call() {
    let email = policy("mail", "email");
    let hooks = hook::config(&[
        ("AfterTool", email),
        ("AfterTool", policy("key", "aws_key")),
    ]);

    assert_eq!(send(&hooks).await, json!({ "output": MASKED }));
}

/// Sends a conversation under a policy on results, and returns what upstream receives.
async fn masked_conversation(family: Family, body: &Value) -> Value {
    let upstream = family.upstream(vec![vec![Part::text(&["fine"])]]).await;
    let config = hook::config(&[("AfterTool", policy("mail", "email"))]);
    let gateway = family.gateway(&upstream, &config).await;
    family.post(&gateway, false, body.to_string()).await;
    upstream.only_request().json()
}

#[tokio::test]
async fn a_secret_over_adjacent_texts_of_a_result_is_masked() {
    let texts = ["mail jo@exa", "mple.com end"];
    let text_blocks = |kind: &str| texts.map(|text| json!({ "type": kind, "text": text }));
    let messages = json!({ "model": "m", "max_tokens": 9, "messages": [
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "t", "input": {} }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "c", "content": text_blocks("text") },
        ] },
    ] });
    let responses = json!({ "model": "m", "input": [
        { "role": "user", "content": "go" },
        { "type": "function_call", "call_id": "c", "name": "t", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": text_blocks("input_text") },
    ] });

    for (family, body) in [
        (Family::Anthropic, messages),
        (Family::Responses, responses),
    ] {
        let sent = masked_conversation(family, &body).await.to_string();
        assert!(sent.contains("mail [REDACTED:email]"), "{sent}");
        assert!(!sent.contains("mple.com"), "{sent}");
    }
}

#[tokio::test]
async fn a_secret_over_adjacent_texts_beside_an_image_is_masked() {
    let with_image = |kind: &str, image: Value| {
        let texts = ["mail jo@exa", "mple.com end"];
        let texts = texts.map(|text| json!({ "type": kind, "text": text }));
        texts.into_iter().chain([image]).collect::<Vec<Value>>()
    };
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "aW1hZ2U=" });
    let image = json!({ "type": "image", "source": source });
    let messages = json!({ "model": "m", "max_tokens": 9, "messages": [
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "t", "input": {} }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "c", "content": with_image("text", image) },
        ] },
    ] });
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,aW1hZ2U=" });
    let responses = json!({ "model": "m", "input": [
        { "role": "user", "content": "go" },
        { "type": "function_call", "call_id": "c", "name": "t", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": with_image("input_text", image) },
    ] });
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "aW1hZ2U=" } });
    let output = ["mail jo@exa", "mple.com end"];
    let result = json!({ "name": "t", "response": { "output": output }, "parts": [image] });
    let gemini = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "t", "args": {} } }] },
        { "role": "user", "parts": [{ "functionResponse": result }] },
    ] });

    for (family, body) in [
        (Family::Anthropic, messages),
        (Family::Responses, responses),
        (Family::Gemini, gemini),
    ] {
        let sent = masked_conversation(family, &body).await.to_string();
        assert!(sent.contains("mail [REDACTED:email]"), "{sent}");
        assert!(!sent.contains("mple.com"), "{sent}");
    }
}

#[tokio::test]
async fn a_secret_over_adjacent_texts_below_a_reported_result_is_masked() {
    let hooks = hook::config(&[("AfterTool", policy("mail", "email"))]);
    let blocks = ["mail jo@exa", "mple.com"].map(|text| json!({ "type": "text", "text": text }));
    let masked = json!([
        { "type": "text", "text": "mail [REDACTED:email]" }, { "type": "text", "text": "" },
    ]);

    for (content, expected) in [
        (json!({ "content": blocks }), json!({ "content": masked })),
        (
            json!({ "a": { "b": blocks } }),
            json!({ "a": { "b": masked } }),
        ),
        (
            json!([{ "type": "search_result", "content": blocks }]),
            json!({ "type": "search_result", "content": masked }),
        ),
    ] {
        let answer = report_content(&hooks, &content).await;
        assert_eq!(answer["reason"], expected.to_string());
    }
}

#[tokio::test]
async fn a_masked_result_has_no_media() {
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "aW1hZ2U=" } });
    let output = "mail jo@example.com";
    let result = json!({ "name": "t", "response": { "output": output }, "parts": [image] });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "t", "args": {} } }] },
        { "role": "user", "parts": [{ "functionResponse": result }] },
    ] });

    let sent = masked_conversation(Family::Gemini, &body).await;

    let response = &sent["contents"][2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(*response, json!({ "output": "mail [REDACTED:email]" }));
}

#[tokio::test]
async fn a_masked_list_of_a_reported_result_has_no_media() {
    let data = "QUFBQQ==";
    let content = json!([
        { "type": "text", "text": "mail jo@exa" },
        { "type": "text", "text": "mple.com" },
        { "type": "document", "source": { "type": "base64", "data": data } },
        { "type": "resource", "resource": { "uri": "a", "blob": data } },
        { "type": "file", "file": { "file_data": data } },
        { "type": "text", "text": "end" },
    ]);
    let hooks = hook::config(&[("AfterTool", policy("mail", "email"))]);

    let answer = report_content(&hooks, &content).await;

    assert_eq!(answer["reason"], "mail [REDACTED:email]\nend");
}

#[tokio::test]
async fn a_denied_result_stays_hidden_if_a_policy_masks_it() {
    let hooks = [
        ("AfterTool", policy("mail", "email")),
        ("AfterTool", hook::denying("guard", "hidden")),
    ];
    let hooks = hook::config(&hooks);

    assert_eq!(send(&hooks).await, json!({ "error": "hidden" }));
    let denied = json!({ "decision": "deny", "reason": "hidden" });
    assert_eq!(report(&hooks).await, denied);
}

#[tokio::test]
async fn context_of_hooks_is_appended_to_a_masked_result() {
    let context = json!({ "hookSpecificOutput": { "additionalContext": "careful" } });
    let hooks = [
        ("AfterTool", policy("mail", "email")),
        ("AfterTool", policy("key", "aws_key")),
        ("AfterTool", hook::printing("context", &context)),
    ];
    let hooks = hook::config(&hooks);

    let expected = format!("{MASKED}\n\n<hook_context>careful</hook_context>");
    assert_eq!(send(&hooks).await, json!({ "output": expected }));
    assert_eq!(report(&hooks).await["reason"], expected);
}

#[tokio::test]
async fn a_masked_result_is_a_denial_for_agents_only() {
    let upstream = Upstream::mock().await;
    let event = json!({
        "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {},
        "tool_response": { "llmContent": "mail jo@example.com" },
    });
    let case = json!({ "event": event });
    let policy = json!({ "policy": "redact", "detect": ["email"], "must_allow": [case], "must_mask": [case] });
    let gateway = TestGateway::start(&upstream, &format!("policies: [{policy}]\n")).await;

    let answer = gateway.agent().report(&event, "explain=1").await.json();

    assert_eq!(answer["hookgate"]["verdict"], "proceed");
    assert_eq!(answer["decision"], "deny");
    assert_eq!(answer["reason"], "mail [REDACTED:email]");
}

#[tokio::test]
async fn a_partial_edit_of_a_reported_response_keeps_its_mask() {
    let upstream = Upstream::mock().await;
    let policy = json!({ "policy": "redact", "detect": ["email"] });
    let edit = json!({ "llm_response": { "candidates": [{ "finishReason": "STOP" }] } });
    let edit = json!({ "hookSpecificOutput": edit });
    let hooks = hook::config(&[("AfterModel", hook::printing("edit", &edit))]);
    let config = format!("policies: [{policy}]\n{hooks}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let text = "mail jo@example.com";
    let content = json!({ "role": "model", "parts": [text] });
    let event = json!({
        "hook_event_name": "AfterModel",
        "llm_request": { "model": MODEL, "messages": [{ "role": "user", "content": "hi" }] },
        "llm_response": { "text": text, "candidates": [{ "content": content }] },
    });

    let answer = gateway.agent().report(&event, "").await.json();

    let response = &answer["hookSpecificOutput"]["llm_response"];
    assert!(
        response.to_string().contains("[REDACTED:email]"),
        "{answer}"
    );
}
