//! `SessionStart`, and the session that each request belongs to.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Chat, MODEL, log, log_command, request_contents};
use crate::harness::{Answer, TEST_TIMEOUT, TestGateway, Upstream, eventually, hook};

fn start_hook_config(output: &Value) -> String {
    let command = log_command("[\"session_id\"]", output);
    hook::config(&[("SessionStart", hook::command("log", &command))])
}

#[tokio::test]
async fn session_start_context_precedes_the_first_prompt_in_every_call() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "house rules" } });
    let gate = TestGateway::start(&upstream, &start_hook_config(&output)).await;
    let chat = Chat::with_prompt("one");

    let answer = chat.send(&gate).await;
    let chat = chat.answer(&answer).user("two");
    let answer = chat.send(&gate).await;
    chat.answer(&answer).user("three").send(&gate).await;

    assert_eq!(log(&gate).len(), 1);
    for contents in request_contents(&upstream) {
        let context = json!({ "text": "<hook_context>house rules</hook_context>" });
        assert_eq!(contents[0]["parts"], json!([context, { "text": "one" }]));
    }
}

#[tokio::test]
async fn concurrent_first_calls_start_their_session_once() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "house rules" } });
    let command = log_command("[\"session_id\"]", &output);
    let command = hook::command("log", &format!("sleep 0.3; {command}"));
    let config = hook::config(&[("SessionStart", command)]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let calls = ["one", "two", "three"].map(|text| Chat::with_prompt(text).body());

    let answers = calls.iter().map(|body| agent.generate(MODEL, body));
    for answer in join_all(answers).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    assert_eq!(log(&gate), ["s"]);
    let context = json!({ "text": "<hook_context>house rules</hook_context>" });
    for contents in request_contents(&upstream) {
        assert_eq!(contents[0]["parts"][0], context);
    }
}

#[tokio::test]
async fn a_first_call_that_breaks_off_leaves_the_start_to_the_next() {
    let upstream = Upstream::mock().await;
    let command = "mkdir first 2>/dev/null && sleep 60; echo started >> log; echo '{}'";
    let config = hook::config(&[("SessionStart", hook::command("start", command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let body = Chat::with_prompt("one").body();

    let first = async {
        eventually("the hook runs", TEST_TIMEOUT, || {
            gate.path("first").exists()
        })
        .await;
    };
    tokio::select! {
        _ = agent.generate(MODEL, &body) => panic!("the hook does not sleep"),
        () = first => (),
    }
    let answer = agent.generate(MODEL, &body).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(gate.file("log"), "started\n");
}

#[tokio::test]
async fn agents_share_a_session_until_their_histories_differ() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &start_hook_config(&json!({}))).await;
    let session_id = async |chat: &Chat| {
        let answer = gate.agent().generate(MODEL, &chat.body()).await;
        answer.header("x-hookgate-session").to_owned()
    };
    let prompt = || Chat::with_prompt("same prompt");

    let first = session_id(&prompt()).await;
    let other = session_id(&prompt()).await;
    let a = session_id(&prompt().model("A").user("x")).await;
    let b = session_id(&prompt().model("B").user("y")).await;
    let a2 = session_id(&prompt().model("A").user("x").model("AA").user("x2")).await;
    let b2 = session_id(&prompt().model("B").user("y").model("BB").user("y2")).await;
    let a3 = session_id(
        &prompt()
            .model("A")
            .user("x")
            .model("AA")
            .user("x2")
            .model("A3")
            .user("x3"),
    )
    .await;

    assert_eq!(first, other);
    assert_ne!(a2, b2);
    assert_eq!(a2, a3);
    assert!([&a, &b].contains(&&first));
    assert_eq!(first.len(), 36);
}

#[tokio::test]
async fn callers_never_share_a_session() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &start_hook_config(&json!({}))).await;
    let session_id = async |key: &str, name: Option<&str>| {
        let mut agent = gate.agent().sending("x-goog-api-key", key);
        if let Some(name) = name {
            agent = agent.sending("x-hookgate-session", name);
        }
        let answer = agent.generate(MODEL, &Chat::with_prompt("hi").body()).await;
        answer.header("x-hookgate-session").to_owned()
    };

    assert_ne!(session_id("k1", None).await, session_id("k2", None).await);
    assert_eq!(session_id("k1", Some("s")).await, "s");
    assert_eq!(session_id("k2", Some("s")).await, "s");
    assert_eq!(log(&gate).len(), 4);
}

#[tokio::test]
async fn a_compressed_conversation_continues_its_session() {
    let upstream = Upstream::mock().await;
    let prompt_hook = hook::command("log", &log_command("[\"prompt\"]", &json!({})));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeAgent", prompt_hook)])).await;
    let agent = gate
        .agent()
        .sending("user-agent", "GeminiCLI/0.61.0/gemini-2.5-pro");
    let session_id = |answer: &Answer| answer.header("x-hookgate-session").to_owned();
    let chat = Chat::with_prompt("one").model("so be it").user("two");
    let first = agent.stream(MODEL, &chat.body()).await;

    // A helper call: it declares no functions and does not stream.
    let compression = chat.model("well").user(&"Sum up what was said. ".repeat(4));
    let summary = agent
        .generate(MODEL, &json!({ "contents": compression.contents }))
        .await;
    let text = summary.json()["candidates"][0]["content"]["parts"][0]["text"].clone();
    let compressed = Chat::with_prompt(text.as_str().unwrap())
        .model("Got it.")
        .user("three");
    let next = agent.stream(MODEL, &compressed.body()).await;

    assert_eq!(session_id(&summary), session_id(&first));
    assert_eq!(session_id(&next), session_id(&first));
    // The summary has the role `user` but is not a prompt.
    assert_eq!(log(&gate), ["one", "two", "three"]);
}
