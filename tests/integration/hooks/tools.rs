//! `BeforeToolSelection` hooks: the tools that a model may call.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Answer, TestGateway, Upstream, hook};

/// A request that declares two functions.
fn with_tools() -> Value {
    json!({
        "contents": [{ "role": "user", "parts": [{ "text": "go" }] }],
        "tools": [
            { "functionDeclarations": [{ "name": "read_file" }, { "name": "delete_file" }] },
            { "googleSearch": {} },
            { "functionDeclarations": [{ "name": "delete_all" }] },
        ],
    })
}

/// Upstream script, as a whole and in chunks: the first answer calls `read_file` and
/// `delete_file`, the next one only `read_file`.
fn script() -> String {
    let part = |name| json!({ "functionCall": { "name": name, "args": {} } });
    let chunk = |parts: Value| -> Value {
        json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "index": 0 }] })
    };
    let whole = chunk(json!([{ "text": "well" }, part("read_file"), part("delete_file")]));
    let chunks = [
        chunk(json!([{ "text": "well" }])),
        chunk(json!([part("read_file")])),
        chunk(json!([part("delete_file")])),
    ];
    let line = |method, response| json!({ "method": method, "response": response }).to_string();
    let streamed = line("generateContentStream", json!(chunks));
    let retry = chunk(json!([part("read_file")]));
    let streamed = [streamed, line("generateContentStream", json!([retry]))].join("\n");
    [
        line("generateContent", whole),
        line("generateContent", retry),
        streamed.clone(),
        streamed,
    ]
    .join("\n")
}

/// Returns the request that upstream receives after a hook with this selection.
async fn request_after_selection(selection: &Value) -> Value {
    let hook = hook::printing("hook", &hook::tools(selection));
    request_after("BeforeToolSelection", hook, &with_tools()).await
}

/// Returns the request that upstream receives after a hook on this event.
async fn request_after(event: &str, hook: Value, body: &Value) -> Value {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[(event, hook)])).await;

    let answer = gate.agent().generate(MODEL, body).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    upstream.only_request().json()
}

/// A request whose calls of one function are validated and streamed.
fn with_validated_calls() -> Value {
    let mut body = with_tools();
    body["toolConfig"] = json!({ "functionCallingConfig": {
        "mode": "VALIDATED",
        "allowedFunctionNames": ["read_file"],
        "streamFunctionCallArguments": true,
    } });
    body
}

#[tokio::test]
async fn a_request_that_a_hook_returns_as_shown_keeps_its_tool_config() {
    let body = with_validated_calls();
    let echo = hook::returning("echo", "llm_request");

    assert_eq!(request_after("BeforeModel", echo, &body).await, body);
}

#[tokio::test]
async fn a_selection_keeps_other_settings_of_calls() {
    let hook = hook::printing("hook", &hook::tools(&json!({ "mode": "ANY" })));

    let sent = request_after("BeforeToolSelection", hook, &with_validated_calls()).await;

    let config = json!({ "mode": "ANY", "streamFunctionCallArguments": true });
    assert_eq!(sent["toolConfig"]["functionCallingConfig"], config);
}

#[tokio::test]
async fn a_list_without_a_mode_removes_the_other_declarations() {
    let sent =
        request_after_selection(&json!({ "allowedFunctionNames": ["read_file", "ghost"] })).await;

    assert_eq!(
        sent["tools"],
        json!([{ "functionDeclarations": [{ "name": "read_file" }] }, { "googleSearch": {} }])
    );
    assert_eq!(
        sent["toolConfig"],
        json!({ "functionCallingConfig": { "mode": "AUTO" } })
    );
}

#[tokio::test]
async fn a_list_with_mode_any_is_forwarded_without_unknown_names() {
    let list = json!({ "mode": "ANY", "allowedFunctionNames": ["read_file", "ghost"] });
    let sent = request_after_selection(&list).await;

    assert_eq!(sent["tools"], with_tools()["tools"]);
    assert_eq!(
        sent["toolConfig"],
        json!({ "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["read_file"] } })
    );
}

#[tokio::test]
async fn mode_none_and_a_list_of_unknown_names_allow_no_call() {
    for selection in [
        json!({ "mode": "NONE" }),
        json!({ "allowedFunctionNames": ["ghost"] }),
        json!({ "functionCallingConfig": { "mode": "NONE" } }),
    ] {
        let sent = request_after_selection(&selection).await;

        let none = json!({ "functionCallingConfig": { "mode": "NONE" } });
        assert_eq!(sent["toolConfig"], none, "{selection}");
    }
}

#[tokio::test]
async fn a_failing_hook_allows_no_call_if_it_fails_closed() {
    let call = json!({ "functionCall": { "name": "read_file", "args": {} } });
    let content = json!({ "role": "model", "parts": [{ "text": "well" }, call] });
    let misspelled = json!({ "decision": "dney", "hookSpecificOutput": {} });
    let selecting = |selection: Value| hook::printing("broken", &hook::tools(&selection));
    for broken in [
        hook::command("broken", "exit 1"),
        hook::command("broken", "echo '{'"),
        hook::printing("broken", &misspelled),
        selecting(json!({ "mode": "none" })),
        selecting(json!({ "mode": "none", "allowedFunctionNames": [] })),
        selecting(json!({ "mode": "AUTO", "allowedFunctionNames": "delete_file" })),
        selecting(json!("NONE")),
    ] {
        for (on_failure, is_allowed) in [("closed", false), ("open", true)] {
            let answer = json!({ "candidates": [{ "content": content }] });
            let upstream = Upstream::answering(&answer).await;
            let mut hook = broken.clone();
            hook["on_failure"] = json!(on_failure);
            let hooks = hook::config(&[("BeforeToolSelection", hook)]);
            let gate = TestGateway::start(&upstream, &hooks).await;

            let answer = gate.agent().generate(MODEL, &with_tools()).await;

            let sent = upstream.requests()[0].json();
            let mode = &sent["toolConfig"]["functionCallingConfig"]["mode"];
            assert_eq!(*mode == "NONE", !is_allowed, "{on_failure}: {hooks} {sent}");
            let calls = answer.text().contains(r#""read_file""#);
            assert_eq!(calls, is_allowed, "{on_failure}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn an_empty_selection_changes_nothing_if_its_hook_fails_closed() {
    for selection in [
        json!({}),
        json!(null),
        json!({ "functionCallingConfig": {} }),
        json!({ "mode": null }),
        json!({ "allowedFunctionNames": null }),
    ] {
        let upstream = Upstream::mock().await;
        let mut hook = hook::printing("hook", &hook::tools(&selection));
        hook["on_failure"] = json!("closed");
        let hooks = hook::config(&[("BeforeToolSelection", hook)]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        gate.agent().generate(MODEL, &with_tools()).await;

        let sent = upstream.only_request().json();
        assert_eq!(sent, with_tools(), "{selection}");
    }
}

#[tokio::test]
async fn an_agent_that_reports_a_failed_selection_receives_mode_none() {
    let mut broken = hook::command("broken", "exit 1");
    broken["on_failure"] = json!("closed");
    let hooks = hook::config(&[("BeforeToolSelection", broken)]);
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hooks).await;
    let mut event = hook::reported_request(&json!([{ "role": "user", "content": "go" }]));
    event["hook_event_name"] = json!("BeforeToolSelection");

    let answer = gate.agent().report(&event, "").await.json();

    let selected = &answer["hookSpecificOutput"]["toolConfig"];
    assert_eq!(*selected, json!({ "mode": "NONE" }), "{answer}");
}

#[tokio::test]
async fn a_selection_without_declared_functions_changes_nothing() {
    let upstream = Upstream::mock().await;
    let hook = hook::printing("hook", &hook::tools(&json!({ "mode": "NONE" })));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeToolSelection", hook)])).await;
    let body = crate::harness::prompt("hello");

    gate.agent().generate(MODEL, &body).await;

    assert_eq!(upstream.only_request().body, body.to_string());
}

#[tokio::test]
async fn a_selection_applies_to_the_functions_of_computer_use() {
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": {} } });
    let parts = json!([{ "text": "well" }, call("click_at")]);
    let content = json!({ "role": "model", "parts": parts });
    let upstream = Upstream::answering(&json!({ "candidates": [{ "content": content }] })).await;
    let mut body = crate::harness::prompt("go");
    body["tools"] = json!([{ "computerUse": { "environment": "ENVIRONMENT_BROWSER" } }]);
    for (selection, config, is_allowed) in [
        (json!({ "mode": "NONE" }), json!({ "mode": "NONE" }), false),
        (
            json!({ "allowedFunctionNames": ["scroll_at"] }),
            json!({ "mode": "AUTO" }),
            false,
        ),
        (
            json!({ "allowedFunctionNames": ["click_at"] }),
            json!({ "mode": "AUTO" }),
            true,
        ),
        (
            json!({ "allowedFunctionNames": ["computerUse"] }),
            json!({ "mode": "AUTO" }),
            true,
        ),
        (
            json!({ "mode": "ANY", "allowedFunctionNames": ["computerUse"] }),
            json!({ "mode": "ANY" }),
            true,
        ),
    ] {
        let hook = hook::printing("hook", &hook::tools(&selection));
        let hooks = hook::config(&[("BeforeToolSelection", hook)]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        let answer = gate.agent().generate(MODEL, &body).await;

        let sent = upstream.requests().pop().unwrap().json();
        assert_eq!(sent["toolConfig"]["functionCallingConfig"], config);
        assert_eq!(
            answer.text().contains(r#""click_at""#),
            is_allowed,
            "{selection}"
        );
    }
}

#[tokio::test]
async fn computer_use_is_not_offered_if_only_functions_are_selected() {
    let upstream = Upstream::mock().await;
    let selection = hook::tools(&json!({ "allowedFunctionNames": ["read_file"] }));
    let hooks = hook::config(&[("BeforeToolSelection", hook::printing("hook", &selection))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let functions = json!({ "functionDeclarations": [{ "name": "read_file" }] });
    let mut body = crate::harness::prompt("go");
    body["tools"] = json!([{ "computerUse": {} }, functions]);

    gate.agent().generate(MODEL, &body).await;

    assert_eq!(upstream.only_request().json()["tools"], json!([functions]));
}

#[tokio::test]
async fn tools_are_selected_from_the_request_as_edited() {
    let upstream = Upstream::mock().await;
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "edited" }] }));
    let hooks = hook::config(&[
        ("BeforeModel", hook::printing("model", &edit)),
        ("BeforeToolSelection", hook::printing("tools", &json!({}))),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    gate.agent().generate(MODEL, &with_tools()).await;

    let seen = gate.json("tools.json");
    assert_eq!(seen["llm_request"]["messages"][0]["content"], "edited");
}

/// Asserts that only the call of `read_file` reaches the agent after these hook outputs.
async fn assert_only_read_file_is_called(outputs: &[(&str, Value)]) {
    let upstream = Upstream::scripted(&script()).await;
    let hooks = outputs.iter();
    let hooks = hooks.map(|(event, output)| (*event, hook::printing(event, output)));
    let hooks = hook::config(&hooks.collect::<Vec<_>>());
    let gate = TestGateway::start(&upstream, &hooks).await;
    let (agent, body) = (gate.agent(), with_tools());

    let unary = agent.generate(MODEL, &body).await;
    let stream = agent.stream(MODEL, &body).await;
    let array = agent.array(MODEL, &body).await;

    assert_eq!(called(&[unary.json()]), ["read_file"]);
    assert_eq!(unary.header("x-hookgate-action"), "edit");
    assert_eq!(called(&stream.events()), ["read_file"]);
    assert_eq!(called(array.json().as_array().unwrap()), ["read_file"]);
    let all: [&Answer; 3] = [&unary, &stream, &array];
    for answer in all {
        assert!(answer.text().contains("well"), "{}", answer.text());
        assert!(!answer.text().contains(r#""name":"delete_file""#));
    }
}

#[tokio::test]
async fn a_call_outside_the_list_never_reaches_the_agent() {
    let list = json!({ "allowedFunctionNames": ["read_file"] });

    assert_only_read_file_is_called(&[("BeforeToolSelection", hook::tools(&list))]).await;
}

#[tokio::test]
async fn an_allow_list_in_the_request_applies_to_the_answer() {
    let list = json!({ "toolConfig": { "mode": "ANY", "allowedFunctionNames": ["read_file"] } });

    assert_only_read_file_is_called(&[("BeforeModel", hook::request(&list))]).await;
}

#[tokio::test]
async fn a_selection_does_not_undo_an_allow_list_in_the_request() {
    let list = json!({ "toolConfig": { "mode": "ANY", "allowedFunctionNames": ["read_file"] } });
    for selection in [
        json!({ "mode": "AUTO" }),
        json!({ "allowedFunctionNames": ["read_file", "delete_file"] }),
    ] {
        let outputs = [
            ("BeforeModel", hook::request(&list)),
            ("BeforeToolSelection", hook::tools(&selection)),
        ];
        assert_only_read_file_is_called(&outputs).await;
    }
}

#[tokio::test]
async fn calls_are_not_restricted_without_a_selection() {
    let upstream = Upstream::scripted(&script()).await;
    let hooks = hook::config(&[("BeforeToolSelection", hook::printing("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &with_tools()).await;

    assert_eq!(called(&[answer.json()]), ["read_file", "delete_file"]);
}

/// The names of the functions that an answer calls.
fn called(chunks: &[Value]) -> Vec<&str> {
    let parts = chunks
        .iter()
        .filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
    let names = parts.flatten().map(|part| &part["functionCall"]["name"]);
    names.filter_map(Value::as_str).collect()
}
