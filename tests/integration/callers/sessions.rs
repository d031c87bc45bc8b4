//! Callers have sessions of their own.

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
async fn a_caller_reports_nothing_for_the_session_of_another() {
    let upstream = Upstream::mock().await;
    let derived = hook::config(&[
        ("SessionStart", hook::running("start", "echo x >> started")),
        ("BeforeAgent", hook::running("agent", "echo x >> prompts")),
    ]);
    let config = auth(&[("team-a", ""), ("team-b", "")]) + &derived;
    let gate = TestGateway::start(&upstream, &config).await;

    // Were it the session of team-a, its prompts would no more be read off.
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
        "reported, read off, read off"
    );
    assert_eq!(gate.file("started").lines().count(), 1, "it did not end");
    let listed = gate.operator().get("/sessions").await.json();
    let callers: Vec<&str> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["caller"].as_str().unwrap())
        .collect();
    assert_eq!(callers.len(), 1, "that of team-b ended: {listed}");
    assert!(callers.iter().all(|it| it.len() == 64));
}

#[tokio::test]
async fn a_session_goes_on_however_its_caller_shows_its_key() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("SessionStart", hook::running("start", "echo x >> started"))]);
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
