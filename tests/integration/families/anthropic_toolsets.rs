//! Toolsets of the Messages API: a declaration without name, and calls of the tools in it.

use serde_json::{Value, json};

use super::family::{Family, Turn};
use crate::harness::{Answer, TestGateway, Upstream, hook, respond};

const FAMILY: Family = Family::Anthropic;

fn toolset() -> Value {
    json!({ "type": "computer_toolset_20260801" })
}

/// A request with the toolset and the tool `look`.
fn request() -> Value {
    let mut request = FAMILY.request_with_tools(false, &["look"], &[Turn::User("hi")]);
    request["tools"].as_array_mut().unwrap().push(toolset());
    request
}

/// A call of a tool in the toolset.
fn call(name: &str) -> Value {
    json!({
        "type": "tool_use", "id": format!("toolu_{name}"), "name": name, "toolset_name": "computer",
        "input": { "x": "a" }, "caller": { "type": "direct" },
    })
}

fn message(content: &Value, stop_reason: &str) -> Value {
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

/// The events of a stream with one call.
fn events(call: &Value) -> String {
    let mut start = message(&json!([]), "");
    start["stop_reason"] = Value::Null;
    let mut block = call.clone();
    block["input"] = json!({});
    let input = json!({ "type": "input_json_delta", "partial_json": call["input"].to_string() });
    let events = [
        json!({ "type": "message_start", "message": start }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": input }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 1 },
        }),
        json!({ "type": "message_stop" }),
    ];
    let named = |event: &Value| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(named).collect()
}

/// A model that makes these calls, and answers with a text as soon as it has their results.
async fn model_calling(names: &[&str]) -> Upstream {
    let calls: Vec<Value> = names.iter().map(|name| call(name)).collect();
    let calls = message(&calls.into(), "tool_use").to_string();
    let text = message(&json!([{ "type": "text", "text": "ok" }]), "end_turn").to_string();
    Upstream::with(move |asked| {
        let is_first = asked.json()["messages"].as_array().unwrap().len() == 1;
        let answer = if is_first { &calls } else { &text };
        respond(200, "application/json", answer.clone())
    })
    .await
}

async fn ask(gateway: &TestGateway, request: &Value) -> Answer {
    let answer = FAMILY.post(gateway, false, request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

#[tokio::test]
async fn a_call_is_denied_by_its_name_and_by_that_of_its_toolset() {
    for denied in ["left_click", "computer"] {
        let upstream = model_calling(&["left_click", "screenshot"]).await;
        let config = format!("policies: [{{ policy: tool_guard, deny: [{denied}] }}]\n");
        let gateway = FAMILY.gateway(&upstream, &config).await;
        let answer = ask(&gateway, &request()).await;
        assert_eq!(FAMILY.parse(false, &answer).text, "ok", "{denied}");
        let asked = upstream.requests();
        let is_offered = asked[0].body.contains("computer_toolset");
        assert_eq!(is_offered, denied == "left_click", "{}", asked[0].body);
        // The API requires the toolset in all calls and results.
        let messages = asked[1].json()["messages"].clone();
        for index in 0..2 {
            let call = &messages[1]["content"][index];
            assert_eq!(call["type"], "tool_use", "{messages}");
            assert_eq!(call["toolset_name"], "computer", "{messages}");
            let result = &messages[2]["content"][index];
            assert_eq!(result["type"], "tool_result", "{messages}");
            assert_eq!(result["toolset_name"], "computer", "{messages}");
        }
    }
}

#[tokio::test]
async fn allowed_tools_of_a_toolset_are_called_and_others_are_denied() {
    for (allowed, name, is_allowed) in [
        ("left_click", "left_click", true),
        ("computer", "left_click", true),
        ("left_click", "key", false),
    ] {
        let upstream = model_calling(&[name]).await;
        let config = format!("policies: [{{ policy: tool_guard, allow: [{allowed}] }}]\n");
        let gateway = FAMILY.gateway(&upstream, &config).await;
        let answer = ask(&gateway, &request()).await;
        let first = &upstream.requests()[0];
        assert_eq!(first.json()["tools"], json!([toolset()]));
        let calls = FAMILY.parse(false, &answer).calls;
        assert_eq!(!calls.is_empty(), is_allowed, "{allowed}: {calls:?}");
    }
}

#[tokio::test]
async fn rules_for_a_toolset_hold_for_the_tools_in_it() {
    let rule = "{ tool: computer, argument: /x, matches: \"^b$\" }";
    let config = format!("policies: [{{ policy: tool_guard, rules: [{rule}] }}]\n");
    let upstream = model_calling(&["left_click"]).await;
    let gateway = FAMILY.gateway(&upstream, &config).await;
    let answer = ask(&gateway, &request()).await;
    assert_eq!(FAMILY.parse(false, &answer).text, "ok");
}

#[tokio::test]
async fn tools_of_a_toolset_are_selected() {
    let any = json!({ "type": "any" });
    for (selection, tools, choice) in [
        (
            json!({ "mode": "ANY", "allowedFunctionNames": ["left_click"] }),
            json!([toolset()]),
            &any,
        ),
        (
            json!({ "mode": "ANY", "allowedFunctionNames": ["computer"] }),
            json!([toolset()]),
            &any,
        ),
        (
            json!({ "mode": "AUTO", "allowedFunctionNames": ["look"] }),
            json!([request()["tools"][0]]),
            &json!({ "type": "auto" }),
        ),
    ] {
        let upstream = model_calling(&["left_click"]).await;
        let hooks = hook::config(&[(
            "BeforeToolSelection",
            hook::printing("select", &hook::tools(&selection)),
        )]);
        let gateway = FAMILY.gateway(&upstream, &hooks).await;
        let answer = ask(&gateway, &request()).await;
        let first = upstream.requests()[0].json();
        assert_eq!(first["tools"], tools, "{selection}");
        assert_eq!(first["tool_choice"], *choice, "{selection}");
        let is_selected = tools == json!([toolset()]);
        let calls = FAMILY.parse(false, &answer).calls;
        assert_eq!(!calls.is_empty(), is_selected, "{selection}");
    }
}

#[tokio::test]
async fn a_selection_of_a_tool_and_one_of_its_toolset_allow_the_tool() {
    for (first, second, allowed) in [
        ("computer", "left_click", true),
        ("left_click", "computer", true),
        ("computer", "look", false),
        ("key", "left_click", false),
    ] {
        let upstream = model_calling(&["left_click"]).await;
        let select = |name| json!({ "mode": "ANY", "allowedFunctionNames": [name] });
        let list = hook::request(&json!({ "toolConfig": select(first) }));
        let hooks = hook::config(&[
            ("BeforeModel", hook::printing("first", &list)),
            (
                "BeforeToolSelection",
                hook::printing("second", &hook::tools(&select(second))),
            ),
        ]);
        let gateway = FAMILY.gateway(&upstream, &hooks).await;

        let answer = ask(&gateway, &request()).await;

        let calls = FAMILY.parse(false, &answer).calls;
        assert_eq!(!calls.is_empty(), allowed, "{first}, {second}");
        let is_offered = upstream.requests()[0].json()["tool_choice"] == json!({ "type": "any" });
        assert_eq!(is_offered, allowed, "{first}, {second}");
    }
}

#[tokio::test]
async fn a_call_with_a_toolset_alone_is_the_main_call_of_its_agent() {
    let upstream = model_calling(&["left_click"]).await;
    let hooks = hook::config(&[("BeforeAgent", hook::printing("seen", &json!({})))]);
    let gateway = FAMILY.gateway(&upstream, &hooks).await;
    let mut request = request();
    request["tools"] = json!([toolset()]);
    let agent = [("user-agent", "claude-cli/2.1.330 (external, cli)")];
    let answer = FAMILY.post_with(&gateway, false, request.to_string(), &agent);
    assert_eq!(answer.await.status, 200);
    assert_eq!(gateway.json("seen.json")["prompt"], "hi");
}

#[tokio::test]
async fn a_matcher_for_a_toolset_matches_the_tools_in_it() {
    let mut hooks = json!({});
    for event in ["BeforeTool", "AfterTool"] {
        let hook = hook::command(event, &format!("cat > {event}.json"));
        hooks[event] = json!([{ "matcher": "computer", "hooks": [hook] }]);
    }
    let upstream = model_calling(&["left_click"]).await;
    let gateway = FAMILY
        .gateway(&upstream, &format!("hooks: {hooks}\n"))
        .await;
    let mut request = request();
    ask(&gateway, &request).await;
    let result = json!({
        "type": "tool_result", "tool_use_id": "toolu_left_click", "toolset_name": "computer",
        "content": "done",
    });
    request["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": [call("left_click")] }),
        json!({ "role": "user", "content": [result] }),
    ]);
    ask(&gateway, &request).await;
    for event in ["BeforeTool", "AfterTool"] {
        let input = gateway.json(&format!("{event}.json"));
        assert_eq!(input["tool_name"], "left_click", "{input}");
        assert_eq!(input["toolset_name"], "computer", "{input}");
    }
}

#[tokio::test]
async fn an_edited_call_keeps_its_toolset_and_its_caller() {
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "x": "b" } } });
    let hooks = hook::config(&[("BeforeTool", hook::printing("edit", &edit))]);
    let mut expected = call("left_click");
    expected["input"]["x"] = "b".into();
    for buffering in ["", "after_model: buffered\n"] {
        let config = format!("{hooks}{buffering}");
        let upstream = model_calling(&["left_click"]).await;
        let gateway = FAMILY.gateway(&upstream, &config).await;
        let answer = ask(&gateway, &request()).await.json();
        assert_eq!(answer["content"], json!([expected]), "{config}");

        let events = events(&call("left_click"));
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
        let gateway = FAMILY.gateway(&upstream, &config).await;
        let mut request = request();
        request["stream"] = true.into();
        let answer = ask(&gateway, &request).await;
        let started = |event: &(String, String)| event.0 == "content_block_start";
        let events = super::family::events(&answer);
        let start = events.iter().find(|event| started(event)).unwrap();
        let block: Value = serde_json::from_str(&start.1).unwrap();
        let mut expected = expected.clone();
        expected["input"] = json!({});
        assert_eq!(block["content_block"], expected, "{config}");
        let calls = FAMILY.parse(true, &answer).calls;
        let input = json!({ "x": "b" }).to_string();
        assert_eq!(calls, [("left_click".to_owned(), input)], "{config}");
    }
}
