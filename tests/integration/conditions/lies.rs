//! What agents say that could keep a guard from running, or a gateway from
//! answering.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{assert_ran, assert_skipped, gate};
use crate::harness::{TestGateway, assert_refused, prompt};

async fn report(gate: &TestGateway, event: &Value) -> Value {
    gate.agent().report(event, "").await.json()
}

fn tool_call(input: &Value) -> Value {
    json!({ "hook_event_name": "BeforeTool", "tool_name": "a", "tool_input": input })
}

#[tokio::test]
async fn a_number_is_one_in_every_spelling() {
    let when = "has(request.max_output_tokens) && request.max_output_tokens > 500";
    let (_upstream, gate) = gate("BeforeModel", when).await;
    let asking = |name: &str, most: &str| {
        let body = prompt("hi").to_string();
        let config = format!(r#"{{"generationConfig":{{"{name}":{most}}},"#);
        body.replacen('{', &config, 1)
    };
    let agent = gate.agent();
    let call = async |body| agent.post("/v1beta/models/m:generateContent", body).await;

    for most in [
        "501",
        "501.0",
        "5.01e2",
        "\"501\"",
        "\"5.01E+2\"",
        "501.5",
        "[501]",
    ] {
        for name in ["maxOutputTokens", "max_output_tokens"] {
            assert_ran(&call(asking(name, most)).await);
        }
    }
    for most in ["500", "\"500\"", "5e2", "-501", "null"] {
        assert_skipped(&call(asking("maxOutputTokens", most)).await);
    }
}

#[tokio::test]
async fn a_model_is_known_by_what_the_agent_calls_it() {
    let (_upstream, gate) = gate("BeforeModel", "request.model.contains('2.5-pro')").await;
    let agent = gate.agent();

    for path in ["models/gemini-2.5-pro", "v1/models/gemini-2.5-pro"] {
        let path = format!("/{path}:generateContent");
        assert_ran(&agent.post(&path, prompt("hi").to_string()).await);
    }
    for model in ["gemini-2.5%2Dpro", "gemini%2d2.5-pro", "gemini-2.5-pro%20"] {
        let path = format!("/v1beta/models/{model}:generateContent");
        let answer = agent.post(&path, prompt("hi").to_string()).await;
        assert_refused(&answer, 403, "UNKNOWN_PATH");
    }
    for model in ["publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro "] {
        let llm_request = json!({ "model": model, "messages": [], "config": {} });
        let event = json!({ "hook_event_name": "BeforeModel", "llm_request": llm_request });
        assert_eq!(report(&gate, &event).await["decision"], "deny", "{model}");
    }
}

#[tokio::test]
async fn headers_of_any_bytes_are_facts() {
    let when = "!caller.agent.startsWith('Trusted/') || session.id.startsWith('team-')";
    let (_upstream, gate) = gate("BeforeModel", when).await;
    let call = async |name, value: &'static [u8]| {
        let agent = gate.agent().sending("user-agent", "Trusted/1");
        agent
            .sending(name, value)
            .generate("m", &prompt("hi"))
            .await
    };

    assert_skipped(&call("user-agent", b"Trusted/\xff").await);
    assert_ran(&call("user-agent", b"\xffTrusted/1").await);
    assert_ran(&call("user-agent", "\u{feff}Trusted/1".as_bytes()).await);
    assert_ran(&call("x-hookgate-session", b"team-1").await);
    // What is no name is no session: the call is refused, or has an id that we made.
    assert_skipped(&call("x-hookgate-session", b"other-1").await);
}

#[tokio::test]
async fn what_is_said_twice_is_refused() {
    let (_upstream, gate) = gate("BeforeTool", "tool.input.command != 'ls'").await;
    let twice = r#"{"hook_event_name":"BeforeTool","tool_name":"a","tool_input":{"command":"rm","command":"ls"}}"#;

    let answer = gate.agent().post("/hookgate/v1/events", twice).await;

    assert_refused(&answer, 400, "AMBIGUOUS");
    assert_eq!(
        report(&gate, &tool_call(&json!({ "command": "ls" }))).await,
        json!({})
    );
}

#[tokio::test]
async fn arguments_of_another_kind_are_guarded() {
    let when = "has(tool.input.command) && tool.input.command.matches('\\\\brm\\\\b')";
    let (_upstream, gate) = gate("BeforeTool", when).await;
    let mut deep = json!("rm");
    for _ in 0..50 {
        deep = json!([deep]);
    }

    for command in [
        json!("rm x"),
        json!(["rm", "x"]),
        json!({ "rm": 1 }),
        json!(5),
        Value::Null,
        deep,
    ] {
        let said = report(&gate, &tool_call(&json!({ "command": command }))).await;
        assert_eq!(said["decision"], "deny", "{command}");
    }
    let other = json!({ "command": "ls", "COMMAND": "rm", "\u{0}": [{}], "": null });
    assert_eq!(report(&gate, &tool_call(&other)).await, json!({}));
}

#[tokio::test]
async fn what_would_take_too_long_is_guarded_at_once() {
    let text = "a".repeat(1_000_000);
    let input = json!({ "text": text, "list": vec![1; 900] });
    for when in [
        "tool.input.text.matches('a{1,9000}x')",
        "tool.input.list.exists(it, tool.input.text.matches('[^a]b') && it == 1)",
        "tool.input.list.exists(it, tool.input.text + tool.input.text == 'x')",
    ] {
        let (_upstream, gate) = gate("BeforeTool", when).await;

        let event = tool_call(&input);
        let said = timeout(Duration::from_secs(20), report(&gate, &event));

        assert_eq!(said.await.unwrap()["decision"], "deny", "{when}");
    }
}

#[tokio::test]
async fn ten_mebibytes_of_arguments_are_guarded() {
    let (_upstream, gate) = gate("BeforeTool", "tool.input.text.contains('secret')").await;
    let said = async |input: Value| report(&gate, &tool_call(&input)).await;

    let long = said(json!({ "text": "x".repeat(10 << 20) })).await;
    let many = said(json!({ "text": "x", "list": vec![0; 1 << 20] })).await;
    let short = said(json!({ "text": "x" })).await;

    assert_eq!(
        (&long["decision"], &many["decision"]),
        (&json!("deny"), &json!("deny"))
    );
    assert_eq!(short, json!({}));
}
