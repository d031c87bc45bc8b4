//! Base fields of hook inputs, and response headers about hooks.

use serde_json::json;

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt};

async fn start_with_hook() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    (upstream, gate)
}

#[tokio::test]
async fn every_input_has_the_base_fields() {
    let (_upstream, gate) = start_with_hook().await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let input = gate.json("hook.json");
    let mut keys: Vec<&String> = input.as_object().unwrap().keys().collect();
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
    assert_eq!(input["transcript_path"], "");
    let folder = gate.path("").canonicalize().unwrap();
    assert_eq!(
        std::fs::canonicalize(input["cwd"].as_str().unwrap()).unwrap(),
        folder
    );
    let timestamp = input["timestamp"].as_str().unwrap();
    // 2025-11-30T12:34:56.789Z
    assert_eq!(timestamp.len(), 24, "{timestamp}");
    assert!(timestamp.ends_with('Z') && timestamp.as_bytes()[19] == b'.');
}

#[tokio::test]
async fn the_session_id_comes_from_the_path_or_a_header() {
    let (upstream, gate) = start_with_hook().await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let body = prompt("hello").to_string();

    let by_path = gate
        .agent()
        .sending("x-hookgate-session", "from-header")
        .post(&format!("/s/from-path{path}"), body.clone())
        .await;
    assert_eq!(gate.json("hook.json")["session_id"], "from-path");
    let by_header = gate.agent().sending("x-hookgate-session", "from-header");
    let by_header = by_header.post(&path, body).await;
    assert_eq!(gate.json("hook.json")["session_id"], "from-header");

    assert_eq!(by_path.header("x-hookgate-session"), "from-path");
    assert_eq!(by_header.header("x-hookgate-session"), "from-header");
    for request in upstream.requests() {
        assert_eq!(request.path, path);
        assert_eq!(request.header("x-hookgate-session"), "");
    }
}

#[tokio::test]
async fn a_conversation_without_a_session_id_keeps_one_session() {
    let (_upstream, gate) = start_with_hook().await;
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
async fn a_hook_receives_the_whole_document_if_configured() {
    let upstream = Upstream::answering(&json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": "a" }, { "inlineData": { "x": 1 } }] },
    }] }))
    .await;
    let mut before = hook::printing("before", &json!({}));
    let mut tools = hook::printing("tools", &json!({}));
    let mut after = hook::printing("after", &json!({}));
    for hook in [&mut before, &mut tools, &mut after] {
        hook["document"] = json!(true);
    }
    let hooks = hook::config(&[
        ("BeforeModel", before),
        ("BeforeModel", hook::printing("plain", &json!({}))),
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
async fn a_document_has_no_white_space_between_tokens() {
    let upstream = Upstream::mock().await;
    let mut shown = hook::printing("shown", &json!({}));
    shown["document"] = json!(true);
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", shown)])).await;
    let body = prompt("a \" : b");

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = gate.agent().post(&path, format!("{body:#}")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let input = gate.file("shown.json");
    let document = format!(r#""document":{body}}}"#);
    assert!(input.ends_with(&document), "{input}");
}

#[tokio::test]
async fn response_headers_report_hooks_and_their_messages() {
    let upstream = Upstream::mock().await;
    let output = json!({ "systemMessage": "mind the gäp, 100%\nplease" });
    let hooks = hook::config(&[
        ("BeforeModel", hook::printing("one two", &output)),
        ("BeforeToolSelection", hook::printing("tools", &json!({}))),
        ("AfterModel", hook::printing("after", &json!({}))),
    ]);
    // A name with a space would be two arguments in a shell.
    let hooks = hooks.replace("one two.json", "one.json");
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(answer.header("x-hookgate-request-id").len(), 36);
    let runs: Vec<(&str, &str)> = answer
        .header("x-hookgate-hooks")
        .split(", ")
        .map(|run| run.split_once(';').unwrap())
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
async fn response_headers_that_are_too_long_are_cut() {
    let upstream = Upstream::mock().await;
    let long = "x".repeat(3000);
    let warns = |name: &str| hook::command(name, "printf '%5000s' | sed 's/ /ä/g' >&2; exit 1");
    let hooks = hook::config(&[
        ("BeforeModel", warns("first")),
        ("BeforeModel", hook::command(&long, "true")),
        (
            "BeforeModel",
            hook::command(&long.replace('x', "y"), "true"),
        ),
        ("BeforeModel", hook::command("last", "true")),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let runs = answer.header("x-hookgate-hooks").split(", ");
    let names: Vec<&str> = runs.map(|run| run.split_once(';').unwrap().0).collect();
    assert_eq!(names, ["first", &long, "last"]);
    let message = answer.header("x-hookgate-system-message");
    assert!(message.starts_with("Warning%3A%20"), "{message}");
    assert!(
        message.ends_with("%C3%A4") && message.len() > 4080,
        "{message}"
    );
    assert!(message.len() <= 4096, "{message}");
}

#[tokio::test]
async fn response_headers_of_a_call_without_hooks_list_none() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(answer.header("x-hookgate-request-id").len(), 36);
    assert_eq!(answer.header("x-hookgate-hooks"), "");
}
