//! The live trace of calls, read through the admin API.

mod content;
mod edits;
mod in_flight;
mod lists;
mod live;
mod memory;
mod responses;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway};

const MODEL: &str = "gemini-2.5-flash";

/// Guards that run and guards that do not, for each reason.
pub const GUARDS: &str = r#"hooksConfig: { disabled: [off] }
policies:
  - { policy: model_allow, name: models, models: ["gemini-*"] }
  - { policy: prompt_guard, name: words, deny: ["forbidden"], when: 'request.stream' }
hooks:
  BeforeTool:
    - matcher: ^run_shell_command$
      hooks:
        - { name: guard, command: "echo 'not this' >&2; exit 2" }
        - { name: watcher, command: "exit 2", mode: observe }
        - { name: off, command: "exit 2" }
    - matcher: ^write_file$
      hooks: [{ name: writer, command: cat }]
"#;

/// Waits for the record of a request, which exists once the call has ended.
async fn record(gateway: &TestGateway, id: &str) -> Value {
    let path = format!("/calls/{id}");
    until(&gateway.operator(), &path, |answer| {
        answer["call"].is_object()
    })
    .await["call"]
        .clone()
}

/// Polls a path until its JSON meets a condition: a call ends shortly after its last byte.
pub async fn until(operator: &Agent, path: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = operator.get(path).await;
        let found = serde_json::from_slice(&answer.body).unwrap_or_default();
        if is_met(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{path}: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a list of at least `count` calls.
pub async fn calls(gateway: &TestGateway, query: &str, count: usize) -> Value {
    let path = format!("/calls?{query}");
    let has_all = |answer: &Value| {
        let calls = answer["calls"].as_array();
        calls.is_some_and(|calls| calls.len() >= count)
    };
    until(&gateway.operator(), &path, has_all).await
}

/// Returns an event of a record by its name.
fn event<'a>(record: &'a Value, name: &str) -> &'a Value {
    let events = record["detail"]["events"].as_array().unwrap();
    let found = events.iter().find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {record:#}"))
}

/// Returns a rule of an event by its name.
fn rule<'a>(event: &'a Value, name: &str) -> &'a Value {
    let rules = event["rules"].as_array().unwrap();
    let found = rules.iter().find(|rule| rule["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {event:#}"))
}

/// A response that calls a tool.
fn tool_call_answer(tool: &str) -> Value {
    let call = json!({ "functionCall": { "name": tool, "args": { "command": "rm -rf /" } } });
    json!({ "candidates": [{ "content": { "role": "model", "parts": [call] },
        "finishReason": "STOP" }] })
}

/// A response of text with token counts.
fn text_answer(text: &str) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] },
            "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9 },
    })
}
