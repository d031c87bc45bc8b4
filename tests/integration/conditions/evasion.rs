//! Input with which an agent could evade a condition or exhaust the gateway.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{assert_ran, assert_skipped, gateway_with_condition};
use crate::harness::{TestGateway, assert_refused, prompt};

async fn report(gateway: &TestGateway, event: &Value) -> Value {
    gateway.agent().report(event, "").await.json()
}

fn tool_call(input: &Value) -> Value {
    json!({ "hook_event_name": "BeforeTool", "tool_name": "a", "tool_input": input })
}

#[tokio::test]
async fn a_condition_on_a_number_applies_to_every_spelling() {
    let when = "has(request.max_output_tokens) && request.max_output_tokens > 500";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let body_with = |name: &str, limit: &str| {
        let body = prompt("hi").to_string();
        let config = format!(r#"{{"generationConfig":{{"{name}":{limit}}},"#);
        body.replacen('{', &config, 1)
    };
    let agent = gateway.agent();
    let call = async |body| agent.post("/v1beta/models/m:generateContent", body).await;

    for limit in [
        "501",
        "501.0",
        "5.01e2",
        "\"501\"",
        "\"5.01E+2\"",
        "501.5",
        "[501]",
    ] {
        for name in ["maxOutputTokens", "max_output_tokens"] {
            assert_ran(&call(body_with(name, limit)).await);
        }
    }
    for limit in ["500", "\"500\"", "5e2", "-501", "null"] {
        assert_skipped(&call(body_with("maxOutputTokens", limit)).await);
    }
}

#[tokio::test]
async fn spelling_variants_of_a_model_do_not_evade_a_condition() {
    let (_upstream, gateway) =
        gateway_with_condition("BeforeModel", "request.model.contains('2.5-pro')").await;
    let agent = gateway.agent();

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
        assert_eq!(
            report(&gateway, &event).await["decision"],
            "deny",
            "{model}"
        );
    }
}

#[tokio::test]
async fn headers_with_non_ascii_bytes_are_available_to_conditions() {
    let when = "!caller.agent.startsWith('Trusted/') || session.id.startsWith('team-')";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let call = async |name, value: &'static [u8]| {
        let agent = gateway.agent().sending("user-agent", "Trusted/1");
        agent
            .sending(name, value)
            .generate("m", &prompt("hi"))
            .await
    };

    assert_skipped(&call("user-agent", b"Trusted/\xff").await);
    assert_ran(&call("user-agent", b"\xffTrusted/1").await);
    assert_ran(&call("user-agent", "\u{feff}Trusted/1".as_bytes()).await);
    assert_ran(&call("x-hookgate-session", b"team-1").await);
    assert_skipped(&call("x-hookgate-session", b"other-1").await);
}

#[tokio::test]
async fn duplicate_keys_in_tool_input_are_refused() {
    let (_upstream, gateway) =
        gateway_with_condition("BeforeTool", "tool.input.command != 'ls'").await;
    let duplicate_key = r#"{"hook_event_name":"BeforeTool","tool_name":"a","tool_input":{"command":"rm","command":"ls"}}"#;

    let answer = gateway
        .agent()
        .post("/hookgate/v1/events", duplicate_key)
        .await;

    assert_refused(&answer, 400, "AMBIGUOUS");
    assert_eq!(
        report(&gateway, &tool_call(&json!({ "command": "ls" }))).await,
        json!({})
    );
}

#[tokio::test]
async fn tool_input_of_an_unexpected_type_does_not_evade_a_condition() {
    let when = "has(tool.input.command) && tool.input.command.matches('\\\\brm\\\\b')";
    let (_upstream, gateway) = gateway_with_condition("BeforeTool", when).await;
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
        let output = report(&gateway, &tool_call(&json!({ "command": command }))).await;
        assert_eq!(output["decision"], "deny", "{command}");
    }
    let other = json!({ "command": "ls", "COMMAND": "rm", "\u{0}": [{}], "": null });
    assert_eq!(report(&gateway, &tool_call(&other)).await, json!({}));
}

#[tokio::test]
async fn a_hook_runs_if_its_condition_would_take_too_long() {
    let text = "a".repeat(1_000_000);
    let input = json!({ "text": text, "list": vec![1; 900] });
    for when in [
        "tool.input.text.matches('a{1,9000}x')",
        "tool.input.list.exists(it, tool.input.text.matches('[^a]b') && it == 1)",
        "tool.input.list.exists(it, tool.input.text + tool.input.text == 'x')",
    ] {
        let (_upstream, gateway) = gateway_with_condition("BeforeTool", when).await;

        let event = tool_call(&input);
        let output = timeout(Duration::from_secs(20), report(&gateway, &event));

        assert_eq!(output.await.unwrap()["decision"], "deny", "{when}");
    }
}

#[tokio::test]
async fn a_hook_runs_on_ten_mebibytes_of_tool_input() {
    let (_upstream, gateway) =
        gateway_with_condition("BeforeTool", "tool.input.text.contains('secret')").await;
    let call = async |input: Value| report(&gateway, &tool_call(&input)).await;

    let long = call(json!({ "text": "x".repeat(10 << 20) })).await;
    let many = call(json!({ "text": "x", "list": vec![0; 1 << 18] })).await;
    let short = call(json!({ "text": "x" })).await;

    assert_eq!(
        (&long["decision"], &many["decision"]),
        (&json!("deny"), &json!("deny"))
    );
    assert_eq!(short, json!({}));
}
