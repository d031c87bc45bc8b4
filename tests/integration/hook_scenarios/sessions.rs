//! Hooks on several events of a session, `SessionStart` and `SessionEnd`.

use serde_json::json;

use super::{Scenario, counted, hook_context, printing, responses, settings, texts};
use crate::harness::{TEST_TIMEOUT, eventually};

#[tokio::test]
async fn hooks_on_several_events_run_in_one_turn() {
    let context = |event: &str, text: &str| {
        printing(
            &json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } }),
        )
    };
    let logged =
        json!({ "decision": "allow", "systemMessage": "BeforeTool: File operation logged" });
    let mut hooks = settings("BeforeTool", "write_file", &[&counted(&printing(&logged))]);
    for (event, matcher, text) in [
        (
            "AfterTool",
            "write_file",
            "AfterTool: Operation completed successfully",
        ),
        ("BeforeAgent", "", "BeforeAgent: User request processed"),
    ] {
        let block = settings(event, matcher, &[&counted(&context(event, text))]);
        hooks["hooks"][event] = block["hooks"][event].clone();
    }
    let scenario = Scenario::start("multiple-events", &hooks).await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called multi-event-test.txt").await;

    assert_eq!(
        coder.files["multi-event-test.txt"],
        "testing multiple events"
    );
    assert_eq!(scenario.runs(), 3);
    let sent = scenario.upstream.requests().last().unwrap().body.clone();
    assert!(
        sent.contains("AfterTool: Operation completed successfully"),
        "{sent}"
    );
    assert!(
        sent.contains("BeforeAgent: User request processed"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_session_starts_once() {
    let hook = format!("cat > start.json; {}", counted("true"));
    let scenario = Scenario::start_with_two_turns(
        "session-startup",
        &settings("SessionStart", "startup", &[&hook]),
    )
    .await;
    let mut coder = scenario.coder();

    coder.ask("Say hello").await;
    coder.ask("Say hello again").await;

    let input = scenario.gate.json("start.json");
    assert_eq!(input["hook_event_name"], "SessionStart");
    assert_eq!(input["source"], "startup");
    assert_eq!(scenario.runs(), 1);
}

#[tokio::test]
async fn session_start_context_is_in_every_request() {
    let context = "If asked about your identity, you must respond with the following: I am a protocol droid that speaks the bacchi.";
    let message = "Context injected via SessionStart hook";
    let hook = printing(
        &json!({ "decision": "allow", "systemMessage": message, "hookSpecificOutput": {
            "hookEventName": "SessionStart", "additionalContext": context,
        }}),
    );
    let scenario = Scenario::start_with_two_turns(
        "session-startup",
        &settings("SessionStart", "startup", &[&hook]),
    )
    .await;
    let mut coder = scenario.coder();

    coder.ask("Who are you?").await;
    coder.ask("Who are you again?").await;

    let header = coder.answers[0].header("x-hookgate-system-message");
    assert_eq!(header, message.replace(' ', "%20"));
    assert_eq!(scenario.calls(), 2);
    for request in scenario.upstream.requests() {
        // After the session context of the CLI, before the first prompt.
        assert_eq!(texts(&request.json())[1], hook_context(context));
    }
}

#[tokio::test]
async fn an_idle_session_ends() {
    let hooks = settings(
        "SessionEnd",
        "",
        &["cat > end.json; mv end.json ended.json"],
    );
    let idle = "sessions: { idle: 300ms }\n";
    let scenario = Scenario::start_with(&responses("session-startup"), idle, &hooks).await;

    scenario.coder().ask("Hello").await;

    let ended = || !scenario.gate.file("ended.json").is_empty();
    eventually("the session ends", TEST_TIMEOUT, ended).await;
    let input = scenario.gate.json("ended.json");
    assert_eq!(input["hook_event_name"], "SessionEnd");
    assert_eq!(input["reason"], "other");
}
