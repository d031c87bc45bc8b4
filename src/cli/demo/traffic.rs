//! Traffic of the demo, so that every page of the console shows something.

use std::time::Duration;

use http::header;
use serde_json::{Value, json};

use crate::service_client::client_builder;

/// Time for each request. The mock answers at once, and hooks have five seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a few calls and events to the gateway at `base`. Failures show in the console, too.
pub(super) async fn send_traffic(base: &str) {
    let client = client_builder()
        .tls_certs_only([])
        .timeout(REQUEST_TIMEOUT)
        .build();
    let Ok(client) = client else {
        return;
    };
    for (path, body) in requests() {
        let request = client
            .post(format!("{base}{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "hookgate-demo")
            .body(body.to_string());
        if let Ok(response) = request.send().await {
            // The body is read to its end, so that the call is complete.
            drop(response.bytes().await);
        }
    }
}

/// Returns paths and bodies, in order.
fn requests() -> Vec<(String, Value)> {
    let mut requests = calls_of_gemini();
    requests.extend(calls_of_anthropic());
    requests.extend(calls_of_openai());
    requests.extend(events());
    requests.push(("/v1beta/unknown".to_owned(), json!({})));
    requests
}

fn calls_of_gemini() -> Vec<(String, Value)> {
    let path = |session: &str, model: &str, method: &str| {
        format!("/s/{session}/v1beta/models/{model}:{method}")
    };
    let prompt =
        |text: &str| json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] });
    let stream = "streamGenerateContent?alt=sse";
    let (pro, flash) = ("gemini-2.5-pro", "gemini-2.5-flash");
    vec![
        (
            path("demo-writer", pro, "generateContent"),
            prompt("Write to ann@example.com"),
        ),
        (
            path("demo-writer", pro, stream),
            prompt("Write a poem about rivers"),
        ),
        (
            path("demo-coder", flash, stream),
            prompt("List the files here"),
        ),
        (
            path("demo-reader", pro, "generateContent"),
            prompt("Tell me about project aurora"),
        ),
        (
            path("demo-reader", pro, stream),
            prompt("Summarise project aurora"),
        ),
    ]
}

/// Returns calls as Claude Code makes them: streams with a system prompt, tools and thinking.
fn calls_of_anthropic() -> Vec<(String, Value)> {
    let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    let call = |text: &str| {
        let body = json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 4096,
            "stream": true,
            "thinking": { "type": "enabled", "budget_tokens": 1024 },
            "system": "You are a coding agent.",
            "messages": [{ "role": "user", "content": text }],
            "tools": [{ "name": "Bash", "input_schema": schema }],
        });
        ("/s/demo-claude/v1/messages".to_owned(), body)
    };
    vec![
        call("Explain the build"),
        call(r#"Use Bash {"command": "rm -rf build"}"#),
    ]
}

fn calls_of_openai() -> Vec<(String, Value)> {
    // A mail address in pieces of a stream is nothing that the example hook finds.
    let responses = |text: &str, is_stream: bool| {
        let body = json!({
            "model": "gpt-5",
            "instructions": "You are a coding agent.",
            "input": [{ "role": "user", "content": [{ "type": "input_text", "text": text }] }],
            "store": false,
            "stream": is_stream,
        });
        ("/s/demo-codex/v1/responses".to_owned(), body)
    };
    let chat = |text: &str, is_stream: bool| {
        let mut body = json!({
            "model": "gpt-5-mini",
            "messages": [{ "role": "user", "content": text }],
            "stream": is_stream,
        });
        if let (true, Some(fields)) = (is_stream, body.as_object_mut()) {
            let options = json!({ "include_usage": true });
            fields.insert("stream_options".to_owned(), options);
        }
        ("/s/demo-chat/v1/chat/completions".to_owned(), body)
    };
    vec![
        responses("Write to bob@example.com", false),
        responses("Which files belong to project aurora?", true),
        chat("Translate: good morning", true),
        chat("Write to carol@example.com", false),
    ]
}

/// Returns events that an agent reports.
fn events() -> Vec<(String, Value)> {
    let tool = |command: &str| {
        let event = json!({
            "hook_event_name": "BeforeTool",
            "session_id": "demo-coder",
            "tool_name": "run_shell_command",
            "tool_input": { "command": command },
        });
        ("/hookgate/v1/events?wait=1".to_owned(), event)
    };
    vec![tool("ls"), tool("rm -rf /")]
}
