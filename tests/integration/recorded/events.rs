//! Readable snapshot of the events that recorded requests cause.

use std::{
    fmt::Write,
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{RecordedRequest, requests, without_envelope};
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

/// Appends an event with one write, because events of parallel tools run at the same time.
const APPEND_EVENT: &str = "line=$(cat); echo \"$line\" >> log";

#[tokio::test]
async fn recorded_requests_cause_their_events() {
    let mut report = String::new();
    for requests in requests().chunk_by(|a, b| a.file == b.file) {
        writeln!(report, "{}", requests[0].file).unwrap();
        replay(requests, &mut report).await;
        report.push('\n');
    }

    insta::assert_snapshot!(report);
}

/// Sends the requests in order, to a model that gives the recorded answers.
async fn replay(requests: &[RecordedRequest], report: &mut String) {
    let next_answer = Arc::new(Mutex::new(Value::Null));
    let shared_answer = Arc::clone(&next_answer);
    let upstream = Upstream::with(move |asked| {
        let (content, reason) = match shared_answer.lock().unwrap().clone() {
            // An answer that is in no later request has failed.
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
    let hooks = EVENTS.map(|event| (event, hook::command(event, APPEND_EVENT)));
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;
    let mut sessions: Vec<String> = Vec::new();
    for (at, recorded) in requests.iter().enumerate() {
        let mut later = requests[at + 1..].iter();
        let content = later.find_map(|request| recorded_answer_to(recorded, request));
        *next_answer.lock().unwrap() = content.unwrap_or_default();
        let agent = gate.agent().sending("user-agent", &recorded.user_agent);
        let response = agent.post(&recorded.path, recorded.body.clone()).await;
        if without_envelope(recorded).get("cachedContent").is_some() {
            assert_refused(&response, 403, "UNKNOWN_CACHE");
            continue;
        }
        assert_eq!(response.status, 200, "{}", response.text());
        let id = response.header("x-hookgate-session").to_owned();
        if !sessions.contains(&id) {
            sessions.push(id.clone());
        }
        let session = sessions.iter().position(|known| *known == id).unwrap() + 1;
        let events = take_events(&gate).join(", ");
        writeln!(report, "{:>4}  s{session}  {events}", at + 1).unwrap();
    }
}

/// The answer of the model to `asked`, if the history of `later` contains it.
fn recorded_answer_to(asked: &RecordedRequest, later: &RecordedRequest) -> Option<Value> {
    let contents = |request: &RecordedRequest| {
        let contents = without_envelope(request)["contents"].take();
        contents.as_array().cloned().unwrap_or_default()
    };
    let (before, after) = (contents(asked), contents(later));
    let next = after.get(before.len())?;
    (after.starts_with(&before) && next["role"] == "model").then(|| next.clone())
}

/// The events since the previous call of this function, in order.
fn take_events(gate: &TestGateway) -> Vec<String> {
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
    // Events of parallel tools have no fixed order.
    let is_tool_event = |event: &String| event.starts_with("AfterTool");
    for tool_events in events.chunk_by_mut(|a, b| is_tool_event(a) && is_tool_event(b)) {
        tool_events.sort();
    }
    events
}
