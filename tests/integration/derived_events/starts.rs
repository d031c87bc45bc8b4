//! `SessionStart`, and which requests are one session.

use serde_json::{Value, json};

use super::{Chat, MODEL, asked, log, logging};
use crate::harness::{Answer, TestGateway, Upstream, hook};

fn starting(output: &Value) -> String {
    let command = logging("[\"session_id\"]", output);
    hook::config(&[("SessionStart", hook::running("log", &command))])
}

#[tokio::test]
async fn its_context_leads_every_call_of_the_session() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "house rules" } });
    let gate = TestGateway::start(&upstream, &starting(&output)).await;
    let chat = Chat::asking("one");

    let heard = chat.ask(&gate).await;
    let chat = chat.heard(&heard).user("two");
    let heard = chat.ask(&gate).await;
    chat.heard(&heard).user("three").ask(&gate).await;

    assert_eq!(log(&gate).len(), 1);
    for contents in asked(&upstream) {
        let lead = json!({ "text": "<hook_context>house rules</hook_context>" });
        assert_eq!(contents[0]["parts"], json!([lead, { "text": "one" }]));
    }
}

#[tokio::test]
async fn agents_are_two_as_soon_as_anything_differs() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &starting(&json!({}))).await;
    let session = async |chat: &Chat| {
        let answer = gate.agent().generate(MODEL, &chat.body()).await;
        answer.header("x-hookgate-session").to_owned()
    };
    let ask = || Chat::asking("same prompt");

    let first = session(&ask()).await;
    let other = session(&ask()).await;
    let a = session(&ask().model("A").user("x")).await;
    let b = session(&ask().model("B").user("y")).await;
    let a2 = session(&ask().model("A").user("x").model("AA").user("x2")).await;
    let b2 = session(&ask().model("B").user("y").model("BB").user("y2")).await;
    let a3 = session(
        &ask()
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
    let gate = TestGateway::start(&upstream, &starting(&json!({}))).await;
    let session = async |key: &str, name: Option<&str>| {
        let mut agent = gate.agent().sending("x-goog-api-key", key);
        if let Some(name) = name {
            agent = agent.sending("x-hookgate-session", name);
        }
        let answer = agent.generate(MODEL, &Chat::asking("hi").body()).await;
        answer.header("x-hookgate-session").to_owned()
    };

    assert_ne!(session("k1", None).await, session("k2", None).await);
    assert_eq!(session("k1", Some("s")).await, "s");
    assert_eq!(session("k2", Some("s")).await, "s");
    assert_eq!(log(&gate).len(), 4);
}

#[tokio::test]
async fn a_conversation_that_was_summed_up_goes_on() {
    let upstream = Upstream::mock().await;
    let asked = hook::running("log", &logging("[\"prompt\"]", &json!({})));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeAgent", asked)])).await;
    let agent = gate
        .agent()
        .sending("user-agent", "GeminiCLI/0.61.0/gemini-2.5-pro");
    let session = |answer: &Answer| answer.header("x-hookgate-session").to_owned();
    let begun = Chat::asking("one").model("so be it").user("two");
    let first = agent.stream(MODEL, &begun.body()).await;

    // A helper call: no functions, and no stream.
    let asked = begun
        .model("well")
        .user(&"Sum up what was said. ".repeat(4));
    let summary = agent
        .generate(MODEL, &json!({ "contents": asked.contents }))
        .await;
    let text = summary.json()["candidates"][0]["content"]["parts"][0]["text"].clone();
    let rewritten = Chat::asking(text.as_str().unwrap())
        .model("Got it.")
        .user("three");
    let next = agent.stream(MODEL, &rewritten.body()).await;

    assert_eq!(session(&summary), session(&first));
    assert_eq!(session(&next), session(&first));
    // The summary comes as the user's words, and is none of them.
    assert_eq!(log(&gate), ["one", "two", "three"]);
}
