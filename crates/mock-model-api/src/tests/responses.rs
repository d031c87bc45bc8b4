//! The Responses API of the mock.

use serde_json::{Value, json};

use super::{events, mock, post, scripted, send, text};

const RESPONSES: &str = "/v1/responses";

fn request(input: &Value) -> Value {
    let parameters = json!({ "type": "object", "properties": { "cmd": { "type": "string" } }, "required": ["cmd"] });
    json!({
        "model": "gpt-x",
        "input": input,
        "instructions": "Be brief.",
        "tools": [
            { "type": "function", "name": "exec", "parameters": parameters },
            { "type": "custom", "name": "patch" },
            { "type": "namespace", "name": "agents", "tools": [{ "type": "function", "name": "spawn", "parameters": parameters }] },
            { "type": "web_search" },
        ],
    })
}

fn prompt(text: &str) -> Value {
    request(&json!([
        { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "exec" }] },
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "context" }] },
        { "role": "user", "content": text },
    ]))
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_prompt_is_echoed_whether_it_is_text_or_items() {
    for request in [
        prompt("hello"),
        json!({ "model": "gpt-x", "input": "hello" }),
    ] {
        let response = post(&mock(), RESPONSES, &request).await;

        assert_eq!(response["status"], "completed");
        assert_eq!(
            response["output"][0]["content"][0]["text"],
            "You said: hello"
        );
        let count = |name: &str| response["usage"][name].as_u64().unwrap();
        assert_eq!(
            count("total_tokens"),
            count("input_tokens") + count("output_tokens")
        );
    }
}

#[tokio::test]
async fn a_stream_repeats_its_text_in_every_final_event() {
    let mut request = prompt("hello");
    request["stream"] = true.into();

    let events = events(&mock(), RESPONSES, &request).await;

    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers: Vec<_> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>());
    let deltas: String = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    let copies = [
        &events[7]["text"],
        &events[8]["part"]["text"],
        &events[9]["item"]["content"][0]["text"],
        &events[10]["response"]["output"][0]["content"][0]["text"],
    ];
    assert_eq!(deltas, "You said: hello");
    assert!(copies.iter().all(|copy| **copy == deltas));
    assert_eq!(events[0]["response"]["instructions"], "Be brief.");
    assert_eq!(events[0]["response"]["output"], json!([]));
}

#[tokio::test]
async fn reasoning_precedes_tool_calls_of_every_kind() {
    let mut request = prompt(r#"exec {"cmd":"a"}, patch {"input":"text"} and spawn {"cmd":"b"}"#);
    request["reasoning"] = json!({ "summary": "auto" });
    request["include"] = json!(["reasoning.encrypted_content"]);
    let whole = post(&mock(), RESPONSES, &request).await;
    request["stream"] = true.into();

    let events = events(&mock(), RESPONSES, &request).await;

    let output = whole["output"].as_array().unwrap();
    assert_eq!(output[0]["type"], "reasoning");
    assert!(output[0]["encrypted_content"].is_string());
    assert!(!output[0]["summary"][0]["text"].as_str().unwrap().is_empty());
    assert_eq!(output[1]["arguments"], r#"{"cmd":"a"}"#);
    assert_eq!(output[1].get("namespace"), None);
    assert_eq!(output[2]["type"], "custom_tool_call");
    assert_eq!(output[2]["input"], "text");
    assert_eq!(output[3]["name"], "spawn");
    assert_eq!(output[3]["namespace"], "agents");
    let done: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .collect();
    assert_eq!(done.len(), 4);
    assert_eq!(done[1]["item"]["name"], "exec");
    let arguments: String = events
        .iter()
        .filter(|event| {
            event["type"] == "response.function_call_arguments.delta" && event["output_index"] == 1
        })
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(arguments, r#"{"cmd":"a"}"#);
    assert!(kinds(&events).contains(&"response.reasoning_summary_text.delta"));
    assert!(kinds(&events).contains(&"response.custom_tool_call_input.done"));
}

#[tokio::test]
async fn reasoning_without_a_summary_is_an_empty_item() {
    let mut request = prompt("hello");
    request["reasoning"] = json!({ "effort": "low" });
    let response = post(&mock(), RESPONSES, &request).await;
    request["reasoning"] = json!({ "effort": "none" });

    let without = post(&mock(), RESPONSES, &request).await;

    assert_eq!(response["output"][0]["summary"], json!([]));
    assert_eq!(response["output"][0].get("encrypted_content"), None);
    assert_eq!(without["output"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn scripted_reasoning_always_has_a_summary() {
    let parts = json!([{ "text": "Hm.", "thought": true }, { "text": "Hi." }]);
    let answer = json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
    let line = |method: &str, response: &Value| json!({ "method": method, "response": response });
    let script = format!(
        "{}\n{}",
        line("generateContent", &answer),
        line("generateContentStream", &json!([answer]))
    );
    let mock = scripted(&script);
    let mut request = prompt("hello");
    let whole = post(&mock, RESPONSES, &request).await;
    request["stream"] = true.into();

    let events = events(&mock, RESPONSES, &request).await;

    assert_eq!(whole["output"][0]["summary"][0]["text"], "Hm.");
    assert!(kinds(&events).contains(&"response.reasoning_summary_text.delta"));
}

#[tokio::test]
async fn tool_results_end_the_agent_loop() {
    let request = request(&json!([
        { "role": "user", "content": "exec" },
        { "type": "reasoning", "id": "rs_1", "summary": [] },
        { "type": "function_call", "call_id": "a", "name": "exec", "arguments": "{}" },
        { "type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "" },
        { "type": "function_call_output", "call_id": "a", "output": "x" },
        { "type": "custom_tool_call_output", "call_id": "b", "output": [{ "type": "input_text", "text": "y" }] },
    ]));

    let response = post(&mock(), RESPONSES, &request).await;

    assert_eq!(
        response["output"][0]["content"][0]["text"],
        "The tool returned: {\"output\":\"x\"}\nThe tool returned: {\"output\":\"y\"}"
    );
}

#[tokio::test]
async fn the_tool_choice_and_additional_tools_decide_what_is_called() {
    let allowed = json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "custom", "name": "patch" }] });
    let mut requests: Vec<Value> = [
        json!("none"),
        json!({ "type": "function", "name": "exec" }),
        allowed,
    ]
    .into_iter()
    .map(|choice| {
        let mut request = prompt("exec and patch");
        request["tool_choice"] = choice;
        request
    })
    .collect();
    let mut added = prompt("later");
    added["input"].as_array_mut().unwrap().insert(0, json!({
        "type": "additional_tools", "role": "developer", "tools": [{ "type": "function", "name": "later" }],
    }));
    requests.push(added);
    let mut called = Vec::new();
    for request in requests {
        let response = post(&mock(), RESPONSES, &request).await;
        called.push(
            response["output"][0]["name"]
                .as_str()
                .unwrap_or("none")
                .to_owned(),
        );
    }

    assert_eq!(called, ["none", "exec", "patch", "later"]);
}

#[tokio::test]
async fn a_script_is_converted_to_the_format_of_the_api() {
    let mock = scripted(
        r#"{"method":"generateContentStream","response":[{"candidates":[{"content":{"parts":[{"text":"cut"}]},"finishReason":"MAX_TOKENS"}]}]}"#,
    );
    let mut request = prompt("hello");
    request["stream"] = true.into();

    let events = events(&mock, RESPONSES, &request).await;

    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(
        last["response"]["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "cut");
}

#[tokio::test]
async fn invalid_requests_get_the_errors_of_the_api() {
    let user = json!({ "role": "user", "content": "hello" });
    let call =
        json!({ "type": "function_call", "call_id": "a", "name": "exec", "arguments": "{}" });
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "x" });
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let mut stored = prompt("hello");
    stored["previous_response_id"] = "resp_1".into();
    let forced = json!({ "model": "m", "input": "hello", "tool_choice": "required" });
    let cases = [
        (
            json!({ "input": "hello" }),
            "Missing required parameter: 'model'",
        ),
        (
            json!({ "model": "m", "input": [] }),
            "Missing required parameter: 'input'",
        ),
        (stored, "Previous response with id 'resp_1' not found"),
        (forced, "must be specified with 'tools'"),
        (
            request(&json!([user, call])),
            "No tool output found for function call a",
        ),
        (
            request(&json!([user, output])),
            "No tool call found for function call output",
        ),
        (
            request(&json!([user, reasoning])),
            "without its required following item",
        ),
        (
            request(&json!([user, reasoning, user])),
            "without its required following item",
        ),
    ];
    for (request, message) in cases {
        let response = send(&mock(), "POST", RESPONSES, request.to_string()).await;

        assert_eq!(response.status().as_u16(), 400, "{message}");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        let seen = error["error"]["message"].as_str().unwrap();
        assert!(seen.contains(message), "{seen}");
    }
    let unknown = send(&mock(), "GET", "/v1/responses/resp_1", String::new()).await;
    assert_eq!(unknown.status().as_u16(), 404);
}

#[tokio::test]
async fn token_counts_and_compaction_are_served() {
    let count = post(&mock(), "/v1/responses/input_tokens", &prompt("hello")).await;
    let compacted = post(&mock(), "/v1/responses/compact", &prompt("hello")).await;

    assert!(count["input_tokens"].as_u64().unwrap() > 0);
    let output = compacted["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    assert_eq!(output[2]["type"], "compaction");
    assert!(output[2]["encrypted_content"].is_string());
}
