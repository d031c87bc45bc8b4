//! What recorded requests bring about, with hooks on every event, as a person
//! can read it.

use std::{
    fmt::Write,
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{Recorded, inner, requests};
use crate::harness::{TestGateway, Upstream, assert_refused, hook, respond};

const EVENTS: [&str; 7] = [
    "SessionStart",
    "BeforeAgent",
    "AfterTool",
    "BeforeModel",
    "AfterModel",
    "BeforeTool",
    "AfterAgent",
];

/// In one piece: tools that answer at once are reported at once.
const WRITE: &str = "line=$(cat); echo \"$line\" >> log";

#[tokio::test]
async fn recorded_requests_bring_their_events_about() {
    let mut told = String::new();
    for requests in requests().chunk_by(|a, b| a.file == b.file) {
        writeln!(told, "{}", requests[0].file).unwrap();
        replay(requests, &mut told).await;
        told.push('\n');
    }

    insta::assert_snapshot!(told);
}

/// Asks one request after the other; the model answers as it did then.
async fn replay(requests: &[Recorded], told: &mut String) {
    let says = Arc::new(Mutex::new(Value::Null));
    let answer = Arc::clone(&says);
    let upstream = Upstream::with(move |asked| {
        let (content, reason) = match answer.lock().unwrap().clone() {
            // What agents take back was not answered well.
            Value::Null => (
                json!({ "role": "model", "parts": [{ "text": "…" }] }),
                "OTHER",
            ),
            content => (content, "STOP"),
        };
        let mut answer = json!({ "candidates": [{ "content": content, "finishReason": reason }] });
        if asked.path.starts_with("/v1internal:") {
            answer = json!({ "response": answer });
        }
        if asked.query.contains("alt=sse") {
            respond(200, "text/event-stream", format!("data: {answer}\r\n\r\n"))
        } else {
            respond(200, "application/json", answer.to_string())
        }
    })
    .await;
    let hooks = EVENTS.map(|it| (it, hook::running(it, WRITE)));
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;
    let mut sessions: Vec<String> = Vec::new();
    for (at, recorded) in requests.iter().enumerate() {
        let mut later = requests[at + 1..].iter();
        let content = later.find_map(|it| answer_in(recorded, it));
        *says.lock().unwrap() = content.unwrap_or_default();
        let agent = gate.agent().sending("user-agent", &recorded.agent);
        let response = agent.post(&recorded.path, recorded.body.clone()).await;
        if inner(recorded).get("cachedContent").is_some() {
            assert_refused(&response, 403, "UNKNOWN_CACHE");
            continue;
        }
        assert_eq!(response.status, 200, "{}", response.text());
        let id = response.header("x-hookgate-session").to_owned();
        if !sessions.contains(&id) {
            sessions.push(id.clone());
        }
        let session = sessions.iter().position(|it| *it == id).unwrap() + 1;
        let events = events(&gate).join(", ");
        writeln!(told, "{:>4}  s{session}  {events}", at + 1).unwrap();
    }
}

/// What the model said to `asked`, if `later` is a request that knows it.
fn answer_in(asked: &Recorded, later: &Recorded) -> Option<Value> {
    let contents = |it: &Recorded| {
        let contents = inner(it)["contents"].take();
        contents.as_array().cloned().unwrap_or_default()
    };
    let (before, after) = (contents(asked), contents(later));
    let next = after.get(before.len())?;
    (after.starts_with(&before) && next["role"] == "model").then(|| next.clone())
}

/// The events since the last time, one after the other.
fn events(gate: &TestGateway) -> Vec<String> {
    let log = fs::read_to_string(gate.path("log")).unwrap_or_default();
    fs::remove_file(gate.path("log")).ok();
    let mut events: Vec<String> = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = event["hook_event_name"].as_str().unwrap();
        let detail = match name {
            "SessionStart" => event["source"].clone(),
            "BeforeAgent" => event["prompt"].clone(),
            "BeforeTool" => event["tool_name"].clone(),
            "AfterTool" => json!(format!("{} {}", event["tool_name"], event["tool_input"])),
            "AfterAgent" => event["prompt_response"].clone(),
            _ => Value::Null,
        };
        let detail: String = detail
            .as_str()
            .unwrap_or_default()
            .chars()
            .take(40)
            .collect();
        let detail = detail.replace('\n', " ");
        events.push(if detail.is_empty() {
            name.to_owned()
        } else {
            format!("{name} <{detail}>")
        });
    }
    events.dedup();
    // Tools that answer at once are reported in any order.
    let of_tools = |it: &String| it.starts_with("AfterTool");
    for together in events.chunk_by_mut(|a, b| of_tools(a) && of_tools(b)) {
        together.sort();
    }
    events
}
