//! The Chat Completions API of the mock.

use serde_json::{Value, json};

use super::{events, mock, post, scripted, send, text};

const CHAT: &str = "/v1/chat/completions";

fn request(messages: &Value) -> Value {
    let parameters = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    json!({
        "model": "gpt-x",
        "messages": messages,
        "tools": [
            { "type": "function", "function": { "name": "read", "parameters": parameters } },
            { "type": "custom", "custom": { "name": "patch" } },
        ],
    })
}

fn prompt(text: &str) -> Value {
    request(&json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "context" }, { "type": "text", "text": text }] },
    ]))
}

#[tokio::test]
async fn a_prompt_is_echoed_as_a_completion() {
    let completion = post(&mock(), CHAT, &prompt("hello")).await;

    assert_eq!(completion["object"], "chat.completion");
    assert_eq!(completion["model"], "gpt-x");
    assert_eq!(
        completion["choices"][0]["message"]["content"],
        "You said: hello"
    );
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    let count = |name: &str| completion["usage"][name].as_u64().unwrap();
    assert_eq!(
        count("total_tokens"),
        count("prompt_tokens") + count("completion_tokens")
    );
}

#[tokio::test]
async fn a_stream_ends_with_its_usage_on_request() {
    let mut request = prompt("hello");
    request["stream"] = true.into();
    let plain = events(&mock(), CHAT, &request).await;
    request["stream_options"] = json!({ "include_usage": true });

    let counted = events(&mock(), CHAT, &request).await;

    assert_eq!(plain.len(), 5);
    assert!(plain.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(counted.len(), 6);
    let echoed: String = counted
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(echoed, "You said: hello");
    assert_eq!(counted[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(counted[0]["usage"], Value::Null);
    assert_eq!(counted[4]["choices"][0]["finish_reason"], "stop");
    assert_eq!(counted[5]["choices"], json!([]));
    assert!(counted[5]["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn functions_and_custom_tools_are_called_in_parallel() {
    let mut request = prompt(r#"read {"path":"a"} and patch {"input":"text"}"#);
    request["reasoning_effort"] = "low".into();
    let whole = post(&mock(), CHAT, &request).await;
    request["stream"] = true.into();

    let chunks = events(&mock(), CHAT, &request).await;

    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(
        message["tool_calls"][0]["function"]["arguments"],
        r#"{"path":"a"}"#
    );
    assert_eq!(message["tool_calls"][1]["custom"]["input"], "text");
    assert!(!message["reasoning_content"].as_str().unwrap().is_empty());
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let deltas = || chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    assert!(deltas().any(|delta| delta["reasoning_content"].is_string()));
    let joined = |index: u64, pointer: &str| -> String {
        let calls = deltas().map(|delta| &delta["tool_calls"][0]);
        let of_call = calls.filter(|call| call["index"] == index);
        of_call
            .filter_map(|call| call.pointer(pointer)?.as_str())
            .collect()
    };
    assert_eq!(joined(0, "/function/arguments"), r#"{"path":"a"}"#);
    assert_eq!(joined(1, "/custom/input"), "text");
}

#[tokio::test]
async fn deprecated_functions_are_called_in_their_own_format() {
    let mut request = prompt("find");
    request.as_object_mut().unwrap().remove("tools");
    request["functions"] = json!([{ "name": "find", "parameters": { "type": "object" } }]);
    let whole = post(&mock(), CHAT, &request).await;
    request["stream"] = true.into();

    let chunks = events(&mock(), CHAT, &request).await;

    assert_eq!(
        whole["choices"][0]["message"]["function_call"],
        json!({ "name": "find", "arguments": "{}" })
    );
    assert_eq!(whole["choices"][0]["finish_reason"], "function_call");
    assert_eq!(
        chunks[1]["choices"][0]["delta"]["function_call"]["name"],
        "find"
    );
}

#[tokio::test]
async fn tool_results_end_the_agent_loop() {
    let calls = json!([
        { "id": "a", "type": "function", "function": { "name": "read", "arguments": "{}" } },
        { "id": "b", "type": "function", "function": { "name": "read", "arguments": "{}" } },
    ]);
    let request = request(&json!([
        { "role": "user", "content": "read" },
        { "role": "assistant", "content": null, "tool_calls": calls },
        { "role": "tool", "tool_call_id": "b", "content": "x" },
        { "role": "tool", "tool_call_id": "a", "content": [{ "type": "text", "text": "y" }] },
    ]));

    let completion = post(&mock(), CHAT, &request).await;

    assert_eq!(
        completion["choices"][0]["message"]["content"],
        "The tool returned: {\"output\":\"x\"}\nThe tool returned: {\"output\":\"y\"}"
    );
}

#[tokio::test]
async fn the_tool_choice_decides_what_is_called() {
    let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [{ "type": "custom", "custom": { "name": "patch" } }] } });
    for (choice, called) in [
        (json!("none"), vec![]),
        (json!("auto"), vec!["read", "patch"]),
        (
            json!({ "type": "function", "function": { "name": "read" } }),
            vec!["read"],
        ),
        (allowed, vec!["patch"]),
    ] {
        let mut request = prompt("read and patch");
        request["tool_choice"] = choice;

        let completion = post(&mock(), CHAT, &request).await;

        let calls = completion["choices"][0]["message"]["tool_calls"].as_array();
        let names: Vec<_> = calls
            .into_iter()
            .flatten()
            .filter_map(|call| {
                let called = call.get("function").or_else(|| call.get("custom"))?;
                called["name"].as_str()
            })
            .collect();
        assert_eq!(names, called);
    }
}

#[tokio::test]
async fn structured_output_conforms_to_its_schema() {
    let mut request = prompt("hello");
    request["response_format"] = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": {
        "type": "object", "properties": { "ok": { "type": "boolean" } },
    } } });

    let completion = post(&mock(), CHAT, &request).await;

    assert_eq!(
        completion["choices"][0]["message"]["content"],
        r#"{"ok":true}"#
    );
}

#[tokio::test]
async fn a_script_is_converted_to_the_format_of_the_api() {
    let mock = scripted(
        r#"{"method":"generateContent","response":{"candidates":[{"content":{"parts":[{"text":"no"}]},"finishReason":"SAFETY"}]}}"#,
    );

    let completion = post(&mock, CHAT, &prompt("hello")).await;

    assert_eq!(completion["choices"][0]["message"]["content"], "no");
    assert_eq!(completion["choices"][0]["finish_reason"], "content_filter");
}

#[tokio::test]
async fn invalid_requests_get_the_errors_of_the_api() {
    let user = json!({ "role": "user", "content": "hello" });
    let call = json!({ "role": "assistant", "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "read", "arguments": "{}" } }] });
    let result = json!({ "role": "tool", "tool_call_id": "a", "content": "x" });
    let mut limits = prompt("hello");
    limits["max_tokens"] = 1.into();
    limits["max_completion_tokens"] = 1.into();
    let alone = json!({ "model": "m", "messages": [user], "tool_choice": "auto" });
    let cases = [
        (json!({ "messages": [user] }), "provide a model"),
        (
            json!({ "model": "m" }),
            "Missing required parameter: 'messages'",
        ),
        (limits, "at the same time"),
        (alone, "only allowed when 'tools' are specified"),
        (
            request(&json!([user, call])),
            "did not have response messages: a",
        ),
        (
            request(&json!([user, call, user])),
            "did not have response messages: a",
        ),
        (
            request(&json!([user, result])),
            "must be a response to a preceeding message",
        ),
        (
            request(&json!([{ "role": "user", "content": null }])),
            "got null",
        ),
        (
            request(&json!([{ "role": "model", "content": "x" }])),
            "Invalid value: 'model'",
        ),
    ];
    for (request, message) in cases {
        let response = send(&mock(), "POST", CHAT, request.to_string()).await;

        assert_eq!(response.status().as_u16(), 400, "{message}");
        assert_eq!(response.headers()["x-request-id"], "req_mock");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(error["error"]["type"], "invalid_request_error");
        let seen = error["error"]["message"].as_str().unwrap();
        assert!(seen.contains(message), "{seen}");
    }
}

#[tokio::test]
async fn embeddings_and_models_are_served() {
    let mock = mock();

    let embedded = post(
        &mock,
        "/v1/embeddings",
        &json!({ "model": "m", "input": ["a", "b"] }),
    )
    .await;
    let mut lists = Vec::new();
    for path in ["/v1/models", "/models/gpt-x"] {
        let request = axum::http::Request::get(path)
            .header("authorization", "Bearer a-key")
            .body(axum::body::Body::empty());
        let response = tower::ServiceExt::oneshot(mock.clone(), request.unwrap())
            .await
            .unwrap();
        lists.push(text(response).await);
    }

    assert_eq!(embedded["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        embedded["data"][1]["embedding"].as_array().unwrap().len(),
        8
    );
    assert!(lists[0].contains(r#""id":"gpt-5.1""#));
    assert!(lists[1].contains(r#""id":"gpt-x""#));
}
