//! The live trace, seen from the admin port.

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

/// The record of a request, once it has ended.
async fn record(gate: &TestGateway, id: &str) -> Value {
    let path = format!("/calls/{id}");
    until(&gate.operator(), &path, |answer| answer["call"].is_object()).await["call"].clone()
}

/// The answer of a path, once it is as expected: a call ends a little after its last byte.
pub async fn until(operator: &Agent, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = operator.get(path).await;
        let found = serde_json::from_slice(&answer.body).unwrap_or_default();
        if holds(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{path}: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A list of at least so many calls.
pub async fn calls(gate: &TestGateway, query: &str, count: usize) -> Value {
    let path = format!("/calls?{query}");
    let has_all = |answer: &Value| {
        let calls = answer["calls"].as_array();
        calls.is_some_and(|calls| calls.len() >= count)
    };
    until(&gate.operator(), &path, has_all).await
}

/// The events of a record by name.
fn event<'a>(record: &'a Value, name: &str) -> &'a Value {
    let events = record["detail"]["events"].as_array().unwrap();
    let found = events.iter().find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {record:#}"))
}

/// A rule of an event by its name.
fn rule<'a>(event: &'a Value, name: &str) -> &'a Value {
    let rules = event["rules"].as_array().unwrap();
    let found = rules.iter().find(|rule| rule["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {event:#}"))
}

/// A response that calls a tool.
fn calling(tool: &str) -> Value {
    let call = json!({ "functionCall": { "name": tool, "args": { "command": "rm -rf /" } } });
    json!({ "candidates": [{ "content": { "role": "model", "parts": [call] },
        "finishReason": "STOP" }] })
}

/// A response of text with token counts.
fn answering(text: &str) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] },
            "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9 },
    })
}
