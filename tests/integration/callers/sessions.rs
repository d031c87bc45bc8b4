//! Sessions of callers: isolation, continuation and ids.

use serde_json::json;

use super::auth;
use crate::harness::{Agent, TestGateway, Upstream, hook, prompt};

fn agent(gate: &TestGateway, name: &str) -> Agent {
    let agent = gate
        .agent()
        .sending("x-hookgate-key", format!("{name}-key"));
    agent.sending("x-hookgate-session", "shared")
}

#[tokio::test]
async fn a_caller_cannot_report_events_of_another_callers_session() {
    let upstream = Upstream::mock().await;
    let derived = hook::config(&[
        ("SessionStart", hook::command("start", "echo x >> started")),
        ("BeforeAgent", hook::command("agent", "echo x >> prompts")),
    ]);
    let config = auth(&[("team-a", ""), ("team-b", "")]) + &derived;
    let gate = TestGateway::start(&upstream, &config).await;

    // If team-a had the same session, events of its prompts would no longer be derived.
    let event = json!({
        "hook_event_name": "BeforeAgent", "prompt": "mine", "session_id": "shared",
    });
    agent(&gate, "team-b").report(&event, "").await;
    let end = json!({
        "hook_event_name": "SessionEnd", "reason": "exit", "session_id": "shared",
    });
    agent(&gate, "team-a").generate("m", &prompt("hi")).await;
    agent(&gate, "team-b").report(&end, "wait=1").await;
    agent(&gate, "team-a")
        .generate("m", &prompt("another"))
        .await;

    assert_eq!(
        gate.file("prompts").lines().count(),
        3,
        "one reported, two derived"
    );
    assert_eq!(
        gate.file("started").lines().count(),
        1,
        "the session of team-a continues"
    );
    let listed = gate.operator().get("/sessions").await.json();
    let callers: Vec<&str> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["caller"].as_str().unwrap())
        .collect();
    assert_eq!(callers.len(), 1, "the session of team-b ended: {listed}");
    assert!(callers.iter().all(|caller| caller.len() == 64));
}

#[tokio::test]
async fn a_session_continues_whichever_header_carries_the_key() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("SessionStart", hook::command("start", "echo x >> started"))]);
    let gate = TestGateway::start(&upstream, &(auth(&[("team-a", "")]) + &hooks)).await;
    let named = || gate.agent().sending("x-hookgate-session", "mine");

    let own = named().sending("x-hookgate-key", "team-a-key");
    own.generate("m", &prompt("hi")).await;
    let with_google = own.sending("x-goog-api-key", "GOOGLE");
    with_google.generate("m", &prompt("hi")).await;
    let bearer = named().sending("authorization", "Bearer team-a-key");
    bearer.generate("m", &prompt("hi")).await;

    assert_eq!(gate.file("started").lines().count(), 1);
}

/// Returns the session ids of the inputs that a hook has appended to a file.
fn session_ids(gate: &TestGateway, file: &str) -> Vec<String> {
    let inputs = gate.file(file);
    let inputs = inputs.lines().map(|line| {
        let input: serde_json::Value = serde_json::from_str(line).unwrap();
        input["session_id"].as_str().unwrap().to_owned()
    });
    inputs.collect()
}

/// Returns a hook that appends its input to a file.
fn appending_hook(file: &str) -> serde_json::Value {
    hook::command(file, &format!("cat >> {file}; echo >> {file}"))
}

fn tool_event(session: &str) -> serde_json::Value {
    json!({
        "hook_event_name": "BeforeTool", "session_id": session,
        "tool_name": "ls", "tool_input": {},
    })
}

#[tokio::test]
async fn hooks_never_see_one_session_id_for_two_callers() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        ("BeforeModel", appending_hook("models")),
        ("BeforeTool", appending_hook("tools")),
        (
            "AfterModel",
            hook::command("env", "echo $GEMINI_SESSION_ID >> ids"),
        ),
    ]);
    let config = auth(&[("team-a", ""), ("team-b", "")]) + &hooks;
    let gate = TestGateway::start(&upstream, &config).await;

    for name in ["team-a", "team-b", "team-a"] {
        let answer = agent(&gate, name).generate("m", &prompt("hi")).await;
        assert_eq!(answer.header("x-hookgate-session"), "shared");
        agent(&gate, name).report(&tool_event("shared"), "").await;
    }

    let ids = session_ids(&gate, "models");
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids, session_ids(&gate, "tools"), "events share the session");
    let environment = gate.file("ids");
    assert_eq!(ids, environment.lines().collect::<Vec<_>>());
    // A caller that sends the id of another caller's session gets a different one.
    agent(&gate, "team-b")
        .report(&tool_event(&ids[0]), "")
        .await;
    assert_ne!(session_ids(&gate, "tools")[3], ids[0]);
    let session = gate.operator().get("/sessions/shared").await;
    assert_eq!(session.status, 200);
}

#[tokio::test]
async fn hooks_see_one_id_for_an_unnamed_session() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        ("BeforeModel", appending_hook("models")),
        ("BeforeTool", appending_hook("tools")),
    ]);
    let gate = TestGateway::start(&upstream, &(auth(&[("team-a", "")]) + &hooks)).await;
    let agent = gate.agent().sending("x-hookgate-key", "team-a-key");

    let answer = agent.generate("m", &prompt("hi")).await;
    let id = answer.header("x-hookgate-session");
    agent.report(&tool_event(id), "").await;

    assert_eq!(session_ids(&gate, "models"), session_ids(&gate, "tools"));
}

#[tokio::test]
async fn without_auth_hooks_see_the_session_id_that_the_agent_names() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", appending_hook("models"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    agent(&gate, "team-a").generate("m", &prompt("hi")).await;

    assert_eq!(session_ids(&gate, "models"), ["shared"]);
}

#[tokio::test]
async fn the_hook_context_has_the_caller_and_omits_unknown_fields() {
    let upstream = Upstream::mock().await;
    let with_context = |file: &str| {
        let mut hook = appending_hook(file);
        hook["context"] = json!(true);
        hook
    };
    let hooks = hook::config(&[
        ("BeforeModel", with_context("models")),
        ("BeforeTool", with_context("tools")),
    ]);
    let gate = TestGateway::start(&upstream, &(auth(&[("team-a", "")]) + &hooks)).await;

    let call = agent(&gate, "team-a").stream("m", &prompt("hi")).await;
    let event = agent(&gate, "team-a")
        .report(&tool_event("shared"), "")
        .await;

    let id = "x-hookgate-request-id";
    assert_eq!(
        gate.json("models")["hookgate"],
        json!({
            "caller": "team-a", "request_id": call.header(id),
            "dialect": "gemini", "operation": "streamGenerateContent",
        })
    );
    assert_eq!(
        gate.json("tools")["hookgate"],
        json!({ "caller": "team-a", "request_id": event.header(id) })
    );
}
