//! The facts of a call that hooks get, and those of hooks that the agent gets.

use serde_json::json;

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt};

async fn listening() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::saying("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    (upstream, gate)
}

#[tokio::test]
async fn every_input_has_the_base_fields() {
    let (_upstream, gate) = listening().await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let seen = gate.json("hook.json");
    let mut keys: Vec<&String> = seen.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "cwd",
            "hook_event_name",
            "llm_request",
            "session_id",
            "timestamp",
            "transcript_path"
        ]
    );
    assert_eq!(seen["transcript_path"], "");
    let folder = gate.path("").canonicalize().unwrap();
    assert_eq!(
        std::fs::canonicalize(seen["cwd"].as_str().unwrap()).unwrap(),
        folder
    );
    let timestamp = seen["timestamp"].as_str().unwrap();
    // 2025-11-30T12:34:56.789Z
    assert_eq!(timestamp.len(), 24, "{timestamp}");
    assert!(timestamp.ends_with('Z') && timestamp.as_bytes()[19] == b'.');
}

#[tokio::test]
async fn the_agent_names_its_session_by_path_or_header() {
    let (upstream, gate) = listening().await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let body = prompt("hello").to_string();

    let by_path = gate
        .agent()
        .post(&format!("/s/from-path{path}"), body.clone())
        .await;
    assert_eq!(gate.json("hook.json")["session_id"], "from-path");
    let by_header = gate.agent().sending("x-hookgate-session", "from-header");
    let by_header = by_header.post(&path, body).await;
    assert_eq!(gate.json("hook.json")["session_id"], "from-header");

    assert_eq!(by_path.header("x-hookgate-session"), "from-path");
    assert_eq!(by_header.header("x-hookgate-session"), "from-header");
    for asked in upstream.seen() {
        assert_eq!(asked.path, path);
        assert_eq!(asked.header("x-hookgate-session"), "");
    }
}

#[tokio::test]
async fn a_conversation_without_a_name_keeps_one_session() {
    let (_upstream, gate) = listening().await;
    let mut longer = prompt("hello");
    let reply = json!({ "role": "model", "parts": [{ "text": "hi" }] });
    longer["contents"].as_array_mut().unwrap().push(reply);
    let mut sessions = Vec::new();

    for body in [prompt("hello"), longer, prompt("another")] {
        gate.agent().generate(MODEL, &body).await;
        let seen = gate.json("hook.json")["session_id"].clone();
        sessions.push(seen.as_str().unwrap().to_owned());
    }

    assert_eq!(sessions[0], sessions[1]);
    assert_ne!(sessions[0], sessions[2]);
}

#[tokio::test]
async fn a_hook_sees_the_whole_document_if_it_asks() {
    let upstream = Upstream::answering(&json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": "a" }, { "inlineData": { "x": 1 } }] },
    }] }))
    .await;
    let mut before = hook::saying("before", &json!({}));
    let mut tools = hook::saying("tools", &json!({}));
    let mut after = hook::saying("after", &json!({}));
    for hook in [&mut before, &mut tools, &mut after] {
        hook["document"] = json!(true);
    }
    let hooks = hook::config(&[
        ("BeforeModel", before),
        ("BeforeModel", hook::saying("plain", &json!({}))),
        ("BeforeToolSelection", tools),
        ("AfterModel", after),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let mut body = prompt("hello");
    body["systemInstruction"] = json!({ "parts": [{ "text": "be kind" }] });
    body["unknown"] = json!({ "n": 1 });

    let answer = gate.agent().generate(MODEL, &body).await;

    assert_eq!(gate.json("before.json")["document"], body);
    assert_eq!(gate.json("tools.json")["document"], body);
    assert_eq!(gate.json("after.json")["document"], answer.json());
    assert_eq!(gate.json("plain.json").get("document"), None);
}

#[tokio::test]
async fn headers_of_the_answer_say_what_hooks_did() {
    let upstream = Upstream::mock().await;
    let output = json!({ "systemMessage": "mind the gäp, 100%\nplease" });
    let hooks = hook::config(&[
        ("BeforeModel", hook::saying("one two", &output)),
        ("BeforeToolSelection", hook::saying("tools", &json!({}))),
        ("AfterModel", hook::saying("after", &json!({}))),
    ]);
    // A name with a space would be two words of a shell.
    let hooks = hooks.replace("one two.json", "one.json");
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(answer.header("x-hookgate-request-id").len(), 36);
    let runs: Vec<(&str, &str)> = answer
        .header("x-hookgate-hooks")
        .split(", ")
        .map(|it| it.split_once(';').unwrap())
        .collect();
    assert_eq!(
        (runs[0].0, runs[1].0, runs[2].0, runs.len()),
        ("one%20two", "tools", "after", 3)
    );
    assert!(runs.iter().all(|(_, ms)| ms.parse::<u64>().is_ok()));
    assert_eq!(
        answer.header("x-hookgate-system-message"),
        "mind%20the%20g%C3%A4p%2C%20100%25%0Aplease"
    );
}

#[tokio::test]
async fn a_call_without_hooks_is_reported_as_one() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(answer.header("x-hookgate-request-id").len(), 36);
    assert_eq!(answer.header("x-hookgate-hooks"), "");
}
