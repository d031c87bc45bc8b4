//! The Anthropic Messages API of the mock.

use serde_json::{Value, json};

use super::{events, mock, post, scripted, send, text};

const MESSAGES: &str = "/v1/messages?beta=true";

fn request(messages: &Value) -> Value {
    json!({
        "model": "claude-x",
        "max_tokens": 100,
        "messages": messages,
        "tools": [
            { "name": "Read", "input_schema": { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] } },
            { "name": "Glob", "input_schema": { "type": "object" } },
            { "type": "web_search_20250305", "name": "web_search" },
        ],
    })
}

fn prompt(text: &str) -> Value {
    request(&json!([
        { "role": "user", "content": [{ "type": "text", "text": "context" }, { "type": "text", "text": text }] },
        { "role": "system", "content": "Be brief." },
    ]))
}

#[tokio::test]
async fn a_prompt_is_echoed_as_a_message() {
    let message = post(&mock(), MESSAGES, &prompt("hello")).await;

    assert_eq!(
        message["content"],
        json!([{ "type": "text", "text": "You said: hello" }])
    );
    assert_eq!(message["type"], "message");
    assert_eq!(message["role"], "assistant");
    assert_eq!(message["model"], "claude-x");
    assert_eq!(message["stop_reason"], "end_turn");
    assert!(message["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert!(message["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_stream_has_the_events_of_the_api() {
    let mut request = prompt("hello");
    request["stream"] = true.into();

    let events = events(&mock(), MESSAGES, &request).await;

    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let echoed: String = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(echoed, "You said: hello");
    assert_eq!(events[0]["message"]["content"], json!([]));
    assert_eq!(events[7]["delta"]["stop_reason"], "end_turn");
    assert!(events[7]["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn thinking_precedes_parallel_tool_calls() {
    let mut request = prompt(r#"Read {"path":"a"} and Glob"#);
    request["thinking"] = json!({ "type": "adaptive" });
    request["stream"] = true.into();

    let events = events(&mock(), MESSAGES, &request).await;

    let blocks: Vec<_> = events
        .iter()
        .filter_map(|event| event["content_block"]["type"].as_str())
        .collect();
    assert_eq!(blocks, ["thinking", "tool_use", "tool_use"]);
    let delta = |index: u64, field: &str| -> String {
        let of_block = events.iter().filter(|event| event["index"] == index);
        of_block
            .filter_map(|event| event["delta"][field].as_str())
            .collect()
    };
    assert!(!delta(0, "thinking").is_empty());
    assert!(!delta(0, "signature").is_empty());
    assert_eq!(delta(1, "partial_json"), r#"{"path":"a"}"#);
    assert_eq!(delta(2, "partial_json"), "{}");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn omitted_thinking_keeps_its_signature() {
    let mut request = prompt("hello");
    request["thinking"] = json!({ "type": "adaptive", "display": "omitted" });

    let message = post(&mock(), MESSAGES, &request).await;

    assert_eq!(message["content"][0]["thinking"], "");
    assert_ne!(message["content"][0]["signature"], "");
    assert_eq!(message["content"][1]["text"], "You said: hello");
}

#[tokio::test]
async fn tool_results_and_errors_end_the_agent_loop() {
    let request = request(&json!([
        { "role": "user", "content": "Read and Glob" },
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "a", "name": "Read", "input": {} },
            { "type": "tool_use", "id": "b", "name": "Glob", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "x" }] },
            { "type": "tool_result", "tool_use_id": "b", "content": "y", "is_error": true },
            { "type": "text", "text": "a reminder" },
        ] },
    ]));

    let message = post(&mock(), MESSAGES, &request).await;

    assert_eq!(
        message["content"][0]["text"],
        "The tool returned: {\"output\":\"x\"}\nThe tool returned: {\"error\":\"y\"}"
    );
}

#[tokio::test]
async fn the_tool_choice_and_added_tools_decide_what_is_called() {
    let mut none = prompt("Read");
    none["tool_choice"] = json!({ "type": "none" });
    let mut one = prompt("Read Glob");
    one["tool_choice"] = json!({ "type": "tool", "name": "Glob" });
    let mut added = prompt("Grep");
    added["messages"][1]["content"] = json!([{
        "type": "tool_addition",
        "tool": { "type": "tool_definition", "definition": { "name": "Grep", "input_schema": {} } },
    }]);

    let none = post(&mock(), MESSAGES, &none).await;
    let one = post(&mock(), MESSAGES, &one).await;
    let added = post(&mock(), MESSAGES, &added).await;

    assert_eq!(none["content"][0]["text"], "You said: Read");
    assert_eq!(one["content"].as_array().unwrap().len(), 1);
    assert_eq!(one["content"][0]["name"], "Glob");
    assert_eq!(added["content"][0]["name"], "Grep");
}

#[tokio::test]
async fn structured_output_conforms_to_its_schema() {
    let mut request = prompt("hello");
    request["output_config"] = json!({ "format": { "type": "json_schema", "schema": {
        "type": "object", "properties": { "title": { "type": "string" } }, "required": ["title"],
    } } });

    let message = post(&mock(), MESSAGES, &request).await;

    assert_eq!(message["content"][0]["text"], r#"{"title":"example"}"#);
}

#[tokio::test]
async fn a_script_is_converted_to_the_format_of_the_api() {
    let mock = scripted(concat!(
        r#"{"method":"generateContent","response":{"candidates":[{"content":{"parts":[{"text":"cut"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}}"#,
        "\n",
        r#"{"method":"generateContentStream","response":[{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"Read","args":{}}}]}}]},{"candidates":[{"finishReason":"STOP"}]}]}"#,
    ));
    let mut streamed = prompt("hello");
    streamed["stream"] = true.into();

    let message = post(&mock, MESSAGES, &prompt("hello")).await;
    let events = events(&mock, MESSAGES, &streamed).await;
    let exhausted = send(&mock, "POST", MESSAGES, prompt("hello").to_string()).await;

    assert_eq!(
        message["content"],
        json!([{ "type": "text", "text": "cut" }])
    );
    assert_eq!(message["stop_reason"], "max_tokens");
    assert_eq!(message["usage"]["input_tokens"], 3);
    assert_eq!(message["usage"]["output_tokens"], 2);
    assert_eq!(events[5]["content_block"]["name"], "Read");
    assert_eq!(exhausted.status().as_u16(), 400);
    assert!(text(exhausted).await.contains("no response left"));
}

#[tokio::test]
async fn invalid_requests_get_the_errors_of_the_api() {
    let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "Read", "input": {} }] });
    let result = json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": "x" }] });
    let user = json!({ "role": "user", "content": "hello" });
    let mut forced = prompt("hello");
    forced["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
    forced["tool_choice"] = json!({ "type": "any" });
    let mut alone = prompt("hello");
    alone["tools"] = json!([]);
    alone["tool_choice"] = json!({ "type": "auto" });
    let cases = [
        (
            json!({ "max_tokens": 1, "messages": [user] }),
            "model: Field required",
        ),
        (
            json!({ "model": "m", "messages": [user] }),
            "max_tokens: Field required",
        ),
        (request(&json!([])), "at least one message"),
        (
            request(&json!([{ "role": "tool", "content": "x" }])),
            "Input should be",
        ),
        (
            request(&json!([{ "role": "user", "content": "" }])),
            "must be non-empty",
        ),
        (
            request(&json!([user, call])),
            "without `tool_result` blocks",
        ),
        (
            request(&json!([user, call, user])),
            "without `tool_result` blocks",
        ),
        (
            request(&json!([user, call, call])),
            "without `tool_result` blocks",
        ),
        (request(&json!([user, result])), "unexpected `tool_use_id`"),
        (forced, "Thinking may not be enabled"),
        (alone, "only be specified while providing tools"),
    ];
    for (request, message) in cases {
        let response = send(&mock(), "POST", MESSAGES, request.to_string()).await;

        assert_eq!(response.status().as_u16(), 400, "{message}");
        assert_eq!(response.headers()["request-id"], "req_mock");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(error["type"], "error");
        assert_eq!(error["error"]["type"], "invalid_request_error");
        let seen = error["error"]["message"].as_str().unwrap();
        assert!(seen.contains(message), "{seen}");
    }
    let unknown = send(&mock(), "PUT", "/v1/messages", String::new()).await;
    assert_eq!(unknown.status().as_u16(), 404);
    assert!(text(unknown).await.contains("not_found_error"));
}

#[tokio::test]
async fn token_counts_and_models_are_served() {
    let mock = mock();

    let count = post(&mock, "/v1/messages/count_tokens", &prompt("hello")).await;
    let hello = send(&mock, "HEAD", "/api/hello", String::new()).await;
    let mut lists = Vec::new();
    for path in ["/v1/models?limit=5", "/v1/models/claude-x"] {
        let request = axum::http::Request::get(path)
            .header("anthropic-version", "2023-06-01")
            .body(axum::body::Body::empty());
        let response = tower::ServiceExt::oneshot(mock.clone(), request.unwrap())
            .await
            .unwrap();
        lists.push(text(response).await);
    }

    assert!(count["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(hello.status().as_u16(), 200);
    assert!(lists[0].contains(r#""id":"claude-sonnet-4-5""#));
    assert!(lists[1].contains(r#""id":"claude-x""#));
}
