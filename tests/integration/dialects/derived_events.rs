//! Derived events on every API.

use serde_json::{Value, json};

use super::{APIS, Framing, each};
use crate::harness::{TestGateway, Upstream, hook, prompt};

/// Name of a logged event, with its prompt or the `path` argument of its tool call.
fn summary(line: &str) -> (String, String) {
    let event: Value = serde_json::from_str(line).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let detail = text(&event["tool_input"]["path"]) + &text(&event["prompt"]);
    (text(&event["hook_event_name"]), detail)
}

#[tokio::test]
async fn the_same_events_are_derived_on_every_api() {
    const EVENTS: [&str; 7] = [
        "SessionStart",
        "BeforeAgent",
        "BeforeModel",
        "AfterModel",
        "BeforeTool",
        "AfterTool",
        "AfterAgent",
    ];
    let log = "line=$(cat); echo \"$line\" >> log";
    let config = hook::config(&EVENTS.map(|event| (event, hook::command(event, log))));
    let mut logged = Vec::new();
    for api in APIS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &format!("{config}after_model: buffered\n")).await;
        let mut request = prompt("please read {\"path\":\"a\"}");
        request["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);
        let answer = api.send(&gate, Framing::Sse, &request).await;
        let chunks = api.chunks(Framing::Sse, &answer);
        let content = chunks
            .iter()
            .map(|chunk| &chunk["candidates"][0]["content"]);
        let content = content
            .into_iter()
            .find(|content| content.is_object())
            .unwrap()
            .clone();
        let result =
            json!({ "functionResponse": { "name": "read", "response": { "output": "hello" } } });
        let contents = request["contents"].as_array_mut().unwrap();
        contents.push(content);
        contents.push(json!({ "role": "user", "parts": [result] }));
        api.send(&gate, Framing::Sse, &request).await;

        let lines = gate.file("log");
        logged.push(lines.lines().map(summary).collect::<Vec<_>>());
    }
    let names: Vec<&str> = logged[0].iter().map(|event| event.0.as_str()).collect();
    assert_eq!(
        names,
        [
            "SessionStart",
            "BeforeAgent",
            "BeforeModel",
            "AfterModel",
            "BeforeTool",
            "AfterTool",
            "BeforeModel",
            "AfterModel",
            "AfterAgent",
        ]
    );
    assert!(
        logged.iter().all(|events| *events == logged[0]),
        "{logged:?}"
    );
}

#[tokio::test]
async fn a_rejected_answer_is_replaced_on_every_api() {
    let reject = "grep -q '\"stop_hook_active\":true' || { echo again >&2; exit 2; }";
    let hooks = hook::config(&[("AfterAgent", hook::command("guard", reject))]);
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hooks).await;
    let mut request = prompt("hello");
    request["generationConfig"] = json!({ "responseMimeType": "application/json" });
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &request).await;
        let text = api.text(framing, &answer);
        assert_eq!(text, r#"{"answer":"example"}"#, "{api:?} {framing:?}");
    }
}

#[tokio::test]
async fn the_model_is_called_again_after_a_denied_call_on_every_api() {
    let upstream = Upstream::mock().await;
    let guard = hook::denying("guard", "not that file");
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await;
    let mut request = prompt("please read {\"path\":\"a\"}");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);
    for (api, framing) in each() {
        let before = upstream.requests().len();
        let answer = api.send(&gate, framing, &request).await;
        assert!(!answer.text().contains("functionCall"), "{}", answer.text());
        assert!(
            api.text(framing, &answer).contains("not that file"),
            "{}",
            answer.text()
        );
        let retry = upstream.requests()[before + 1].json();
        let inner = api.unwrap_envelope("request", &retry);
        assert_eq!(inner["contents"].as_array().unwrap().len(), 3, "{inner}");
    }
}

#[tokio::test]
async fn equal_results_without_ids_are_matched_to_a_call_each() {
    let guard = "line=$(cat); echo \"$line\" >> log; \
        if echo \"$line\" | grep -q '\"cat secret\"'; then echo hidden >&2; exit 2; fi";
    let config = hook::config(&[("AfterTool", hook::command("guard", guard))]);
    let calls = ["mkdir a", "mkdir b", "cat secret"]
        .map(|command| json!({ "functionCall": { "name": "sh", "args": { "path": command } } }));
    let results = ["", "", "PASSWORD"].map(
        |output| json!({ "functionResponse": { "name": "sh", "response": { "output": output } } }),
    );
    let mut request = prompt("make both");
    let contents = request["contents"].as_array_mut().unwrap();
    contents.push(json!({ "role": "model", "parts": calls }));
    contents.push(json!({ "role": "user", "parts": results }));
    for api in APIS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;

        api.send(&gate, Framing::Unary, &request).await;

        let logged = gate.file("log");
        let mut commands: Vec<String> = logged.lines().map(|line| summary(line).1).collect();
        // Hooks run at the same time.
        commands.sort();
        assert_eq!(commands, ["cat secret", "mkdir a", "mkdir b"], "{api:?}");
        let sent = api.unwrap_envelope("request", &upstream.only_request().json());
        let last = &sent["contents"][2]["parts"][2]["functionResponse"];
        assert_eq!(last["response"], json!({ "error": "hidden" }), "{api:?}");
    }
}
