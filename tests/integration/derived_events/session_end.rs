//! `SessionEnd`: idle sessions, and ends that agents report.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};

use super::{Chat, MODEL, call, log, log_command, script, text};
use crate::harness::{TEST_TIMEOUT, TestGateway, Upstream, eventually, hook, respond};
use crate::trace::calls;

/// Gateway with these hooks whose sessions expire after 300 ms.
async fn start_with_short_idle(
    upstream: &Upstream,
    hooks: &[(&str, Value)],
    more: &str,
) -> TestGateway {
    let config = format!("sessions: {{ idle: 300ms }}\n{more}{}", hook::config(hooks));
    TestGateway::start(upstream, &config).await
}

fn end_hook() -> (&'static str, Value) {
    let command = log_command("", &json!({}));
    ("SessionEnd", hook::command("log", &command))
}

async fn session_id(gate: &TestGateway, chat: &Chat) -> String {
    let answer = gate.agent().generate(MODEL, &chat.body()).await;
    answer.header("x-hookgate-session").to_owned()
}

async fn session_count(gate: &TestGateway) -> usize {
    let listed = gate.operator().get("/sessions").await.json();
    listed["sessions"].as_array().unwrap().len()
}

/// Waits until no session is open.
async fn wait_until_all_ended(gate: &TestGateway) {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while session_count(gate).await > 0 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "a session never expires"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_idle_session_ends_once() {
    let upstream = Upstream::mock().await;
    let gate = start_with_short_idle(&upstream, &[end_hook()], "").await;
    let first = session_id(&gate, &Chat::with_prompt("one")).await;
    eventually("the session ends", TEST_TIMEOUT, || log(&gate).len() == 1).await;

    let second = session_id(&gate, &Chat::with_prompt("one")).await;
    eventually("the second session ends", TEST_TIMEOUT, || {
        log(&gate).len() == 2
    })
    .await;

    let ends = log(&gate);
    let ids: Vec<&str> = ends
        .iter()
        .map(|event| event["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [&first, &second]);
    assert_ne!(first, second);
    assert_eq!(ends[0]["reason"], "other");
    assert_eq!(ends[0]["hook_event_name"], "SessionEnd");
}

#[tokio::test]
async fn a_session_with_a_call_in_flight_is_not_idle() {
    let content = json!({ "role": "model", "parts": [call("read_file", &json!({}))] });
    let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
    let router = Router::new().fallback(async move || {
        // Sessions expire once a second.
        tokio::time::sleep(Duration::from_millis(3500)).await;
        respond(200, "application/json", answer.to_string())
    });
    let upstream = Upstream::with_router(router).await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let stop = ("AfterModel", hook::printing("stop", &stop));
    let config = hook::config(&[end_hook(), stop]) + "sessions: { idle: 1s }\n";
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("go");
    chat.send_in_session(&gate).await;
    let ends = log(&gate);

    let called = chat.call("read_file", &json!({}));
    let called = called.result("read_file", &json!({ "output": "x" }));
    let stopped = called.send_in_session(&gate).await;

    assert_eq!(ends, [Value::Null; 0]);
    let content = &stopped["candidates"][0]["content"];
    assert_eq!(content["parts"], json!([text("enough")]));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn the_end_of_an_idle_session_has_a_record_with_its_own_id() {
    let upstream = Upstream::mock().await;
    let gate = start_with_short_idle(&upstream, &[end_hook()], "").await;
    session_id(&gate, &Chat::with_prompt("one")).await;

    let listed = calls(&gate, "", 2).await;

    // The newest is first.
    let id = listed["calls"][0]["id"].as_str().unwrap();
    assert!(!id.is_empty(), "{listed:#}");
    let shown = gate.operator().get(&format!("/calls/{id}")).await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    assert_eq!(shown.json()["call"]["method"], "SessionEnd");
}

#[tokio::test]
async fn no_hook_runs_on_a_session_end_that_is_not_derived() {
    let upstream = Upstream::mock().await;
    let more = "events: { derive: [BeforeAgent] }\n";
    let prompts = ("BeforeAgent", hook::command("prompts", "echo '{}'"));
    let gate = start_with_short_idle(&upstream, &[end_hook(), prompts], more).await;

    session_id(&gate, &Chat::with_prompt("one")).await;
    assert_eq!(session_count(&gate).await, 1);
    wait_until_all_ended(&gate).await;
    // A second session, so that a hook on the end of the first one would have run.
    session_id(&gate, &Chat::with_prompt("two")).await;
    wait_until_all_ended(&gate).await;

    assert!(!gate.path("log").exists());
}

#[tokio::test]
async fn a_reported_session_end_ends_the_session() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[end_hook()]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    agent
        .generate(MODEL, &Chat::with_prompt("one").body())
        .await;
    assert_eq!(session_count(&gate).await, 1);

    let end = json!({ "hook_event_name": "SessionEnd", "session_id": "s", "reason": "exit" });
    let answer = agent.report(&end, "wait=1").await;

    assert_eq!(answer.status, 200);
    assert_eq!(session_count(&gate).await, 0);
    let ends = log(&gate);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["reason"], "exit");
}

#[tokio::test]
async fn an_agent_may_continue_a_session_while_the_hooks_on_its_end_run() {
    let upstream = Upstream::mock().await;
    let wait = "touch running; until [ -e continued ]; do sleep 0.01; done";
    let config = hook::config(&[("SessionEnd", hook::command("end", wait))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    Chat::with_prompt("one").send_by(&agent).await;
    let end = json!({ "hook_event_name": "SessionEnd", "session_id": "s", "reason": "exit" });
    let ending = agent.clone();
    let ending = tokio::spawn(async move { ending.report(&end, "wait=1").await });
    eventually("the hook runs", TEST_TIMEOUT, || {
        gate.path("running").exists()
    })
    .await;

    let start = json!({
        "hook_event_name": "SessionStart", "session_id": "s", "source": "resume",
    });
    agent.report(&start, "").await;
    std::fs::write(gate.path("continued"), "").unwrap();
    assert_eq!(ending.await.unwrap().status, 200);

    let details = gate.operator().get("/sessions/s").await;
    assert_eq!(details.status, 200, "{}", details.text());
    assert_eq!(details.json()["reported"], json!(["SessionStart"]));
}

#[tokio::test]
async fn an_event_that_a_sub_agent_reports_is_derived_for_its_main_agent() {
    let upstream = Upstream::mock().await;
    let command = log_command("[\"prompt\"]", &json!({}));
    let config = hook::config(&[("BeforeAgent", hook::command("log", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let sub_agent = agent.clone().sending("x-claude-code-agent-id", "sub");
    let event = json!({
        "hook_event_name": "BeforeAgent", "session_id": "s", "agent_id": "sub", "prompt": "task",
    });

    sub_agent.report(&event, "").await;
    Chat::with_prompt("task").send_by(&sub_agent).await;
    Chat::with_prompt("hello").send_by(&agent).await;

    assert_eq!(log(&gate), ["task", "hello"]);
    let details = gate.operator().get("/sessions/s:sub").await.json();
    assert_eq!(details["reported"], json!(["BeforeAgent"]));
}

#[tokio::test]
async fn a_reported_event_is_not_derived() {
    let answers = [
        json!([call("read_file", &json!({ "path": "a" }))]),
        json!([text("done")]),
    ];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let command = log_command("[\"tool_name\"]", &json!({}));
    let config = hook::config(&[("BeforeTool", hook::command("log", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s",
        "tool_name": "reported", "tool_input": {},
    });

    agent.report(&event, "").await;
    let answer = agent
        .generate(MODEL, &Chat::with_prompt("one").body())
        .await;

    let part = &answer.json()["candidates"][0]["content"]["parts"][0];
    assert_eq!(part["functionCall"]["name"], "read_file");
    assert_eq!(log(&gate), ["reported"]);
    let details = gate.operator().get("/sessions/s").await.json();
    assert_eq!(details["reported"], json!(["BeforeTool"]));
}

#[tokio::test]
async fn a_refused_report_does_not_end_the_derived_event() {
    let calls = json!([call("derived", &json!({}))]);
    let upstream = Upstream::scripted(&script(&[calls, json!([text("ok")])])).await;
    let deny = hook::command("guard", "echo no >&2; exit 2");
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeTool", deny)])).await;
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s", "tool_name": 5, "tool_input": {},
    });

    let refused = gate.agent().report(&event, "").await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let answer = agent.generate(MODEL, &Chat::with_prompt("go").body()).await;

    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(!answer.text().contains("functionCall"), "{}", answer.text());
}
