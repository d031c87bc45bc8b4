//! Traffic of the demo, so that every page of the console shows something.

use std::time::Duration;

use http::header;
use serde_json::{Value, json};

/// Time for each request. The mock answers at once, and hooks have five seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a few calls and events to the gateway at `base`. Failures show in the console, too.
pub(super) async fn send_traffic(base: &str) {
    let client = reqwest::Client::builder()
        .no_proxy()
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

fn requests() -> Vec<(String, Value)> {
    let model = |session: &str, model: &str, method: &str| {
        format!("/s/{session}/v1beta/models/{model}:{method}")
    };
    let prompt =
        |text: &str| json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] });
    let stream = "streamGenerateContent?alt=sse";
    let pro = "gemini-2.5-pro";
    let events = "/hookgate/v1/events?wait=1".to_owned();
    let tool = |command: &str| {
        json!({
            "hook_event_name": "BeforeTool",
            "session_id": "demo-coder",
            "tool_name": "run_shell_command",
            "tool_input": { "command": command },
        })
    };
    vec![
        (
            model("demo-writer", pro, "generateContent"),
            prompt("Write to ann@example.com"),
        ),
        (
            model("demo-writer", pro, stream),
            prompt("Write to ann@example.com, please"),
        ),
        (
            model("demo-coder", "gemini-2.5-flash", stream),
            prompt("List the files here"),
        ),
        (
            model("demo-reader", pro, "generateContent"),
            prompt("Tell me about project aurora"),
        ),
        (
            model("demo-reader", pro, stream),
            prompt("Summarise project aurora"),
        ),
        (events.clone(), tool("ls")),
        (events, tool("rm -rf /")),
        ("/v1beta/unknown".to_owned(), json!({})),
    ]
}
