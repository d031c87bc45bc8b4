//! How sessions end, and what agents report of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Chat, MODEL, call, log, logging, script, text};
use crate::harness::{PATIENCE, TestGateway, Upstream, eventually, hook};

/// A gate whose sessions end soon, with these hooks.
async fn soon(upstream: &Upstream, hooks: &[(&str, Value)], more: &str) -> TestGateway {
    let config = format!("sessions: {{ idle: 300ms }}\n{more}{}", hook::config(hooks));
    TestGateway::start(upstream, &config).await
}

fn ending() -> (&'static str, Value) {
    let command = logging("", &json!({}));
    ("SessionEnd", hook::running("log", &command))
}

async fn session(gate: &TestGateway, chat: &Chat) -> String {
    let answer = gate.agent().generate(MODEL, &chat.body()).await;
    answer.header("x-hookgate-session").to_owned()
}

async fn remembered(gate: &TestGateway) -> usize {
    let listed = gate.operator().get("/sessions").await.json();
    listed["sessions"].as_array().unwrap().len()
}

/// Waits until no session is remembered.
async fn all_ended(gate: &TestGateway) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while remembered(gate).await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "a session stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_of_which_nothing_is_heard_ends_once() {
    let upstream = Upstream::mock().await;
    let gate = soon(&upstream, &[ending()], "").await;
    let first = session(&gate, &Chat::asking("one")).await;
    eventually("it ends", PATIENCE, || log(&gate).len() == 1).await;

    let second = session(&gate, &Chat::asking("one")).await;
    eventually("it ends, too", PATIENCE, || log(&gate).len() == 2).await;

    let ends = log(&gate);
    let ids: Vec<&str> = ends
        .iter()
        .map(|it| it["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [&first, &second]);
    assert_ne!(first, second);
    assert_eq!(ends[0]["reason"], "other");
    assert_eq!(ends[0]["hook_event_name"], "SessionEnd");
}

#[tokio::test]
async fn no_hook_runs_at_an_end_that_is_not_derived() {
    let upstream = Upstream::mock().await;
    let more = "events: { derive: [BeforeAgent] }\n";
    let prompts = ("BeforeAgent", hook::running("prompts", "echo '{}'"));
    let gate = soon(&upstream, &[ending(), prompts], more).await;

    session(&gate, &Chat::asking("one")).await;
    assert_eq!(remembered(&gate).await, 1);
    all_ended(&gate).await;
    // A session that ends later, while this one would be reported.
    session(&gate, &Chat::asking("two")).await;
    all_ended(&gate).await;

    assert!(!gate.path("log").exists());
}

#[tokio::test]
async fn an_end_that_the_agent_reports_ends_the_session() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[ending()]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    agent.generate(MODEL, &Chat::asking("one").body()).await;
    assert_eq!(remembered(&gate).await, 1);

    let end = json!({ "hook_event_name": "SessionEnd", "session_id": "s", "reason": "exit" });
    let told = agent.report(&end, "wait=1").await;

    assert_eq!(told.status, 200);
    assert_eq!(remembered(&gate).await, 0);
    let ends = log(&gate);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["reason"], "exit");
}

#[tokio::test]
async fn what_an_agent_reports_itself_is_not_derived() {
    let answers = [
        json!([call("read_file", &json!({ "path": "a" }))]),
        json!([text("done")]),
    ];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let command = logging("[\"tool_name\"]", &json!({}));
    let config = hook::config(&[("BeforeTool", hook::running("log", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s",
        "tool_name": "reported", "tool_input": {},
    });

    agent.report(&event, "").await;
    let answer = agent.generate(MODEL, &Chat::asking("one").body()).await;

    let part = &answer.json()["candidates"][0]["content"]["parts"][0];
    assert_eq!(part["functionCall"]["name"], "read_file");
    assert_eq!(log(&gate), ["reported"]);
    let details = gate.operator().get("/sessions/s").await.json();
    assert_eq!(details["reported"], json!(["BeforeTool"]));
}
