//! Hooks and policies on the Chat Completions API.

mod ambiguity;
mod answers;
mod compatible_servers;
mod requests;
mod sessions;
mod stream_errors;
mod tools;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Answer, TestGateway, Upstream, respond};

const PATH: &str = "/v1/chat/completions";

/// Form of the answer that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Whole,
    Stream,
}

const FORMS: [Form; 2] = [Form::Whole, Form::Stream];

/// A gateway in front of an OpenAI API.
async fn gateway(upstream: &Upstream, config: &str) -> TestGateway {
    let upstreams = "upstreams: { openai: { url: \"{upstream}\" } }\n";
    TestGateway::start(upstream, &format!("{upstreams}{config}")).await
}

/// A request with one prompt.
fn chat(prompt: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": prompt }] })
}

async fn ask(gate: &TestGateway, form: Form, body: &Value) -> Answer {
    let mut body = body.clone();
    if form == Form::Stream {
        body["stream"] = true.into();
    }
    gate.agent().post(PATH, body.to_string()).await
}

/// Events of a stream without `[DONE]`, which must be the last one.
#[track_caller]
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = answer.text().split_terminator("\n\n");
    let events = events.filter(|event| !event.starts_with(':'));
    let mut data: Vec<&str> = events
        .map(|event| event.strip_prefix("data: ").unwrap())
        .collect();
    assert_eq!(data.pop(), Some("[DONE]"));
    data.iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

/// The choices of an answer, or of all its events.
#[track_caller]
fn choices(form: Form, answer: &Answer) -> Vec<Value> {
    let bodies = match form {
        Form::Whole => vec![answer.json()],
        Form::Stream => events(answer),
    };
    let choices = bodies.iter().map(|body| body["choices"].clone());
    let choices = choices.map(|choices| choices.as_array().unwrap().clone());
    choices.flatten().collect()
}

/// The text of an answer.
#[track_caller]
fn text(form: Form, answer: &Answer) -> String {
    let part = match form {
        Form::Whole => "message",
        Form::Stream => "delta",
    };
    let choices = choices(form, answer);
    let texts = choices.iter().map(|choice| &choice[part]["content"]);
    texts.filter_map(Value::as_str).collect()
}

/// The only `finish_reason` of an answer.
#[track_caller]
fn finish_reason(form: Form, answer: &Answer) -> String {
    let choices = choices(form, answer);
    let reasons = choices.iter().map(|choice| &choice["finish_reason"]);
    let reasons: Vec<&str> = reasons.filter_map(Value::as_str).collect();
    assert_eq!(reasons.len(), 1, "{choices:#?}");
    reasons[0].to_owned()
}

/// An upstream that streams these pieces of a text, or sends all of them as one JSON answer.
async fn upstream_streaming(pieces: &[&str]) -> Upstream {
    let pieces: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
    Upstream::with(move |asked| {
        let envelope = |object: &str, choice: Value| {
            json!({ "id": "chatcmpl-1", "object": object, "created": 1, "model": "m",
                "choices": [choice] })
        };
        if asked.json()["stream"] != true {
            let message = json!({ "role": "assistant", "content": pieces.concat() });
            let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
            let body = envelope("chat.completion", choice).to_string();
            return respond(200, "application/json", body);
        }
        let mut stream = String::new();
        let opening = json!({ "role": "assistant", "content": "" });
        let deltas = pieces.iter().map(|piece| json!({ "content": piece }));
        for delta in std::iter::once(opening).chain(deltas) {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
            let event = envelope("chat.completion.chunk", choice);
            write!(stream, "data: {event}\n\n").unwrap();
        }
        let choice = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        let event = envelope("chat.completion.chunk", choice);
        write!(stream, "data: {event}\n\ndata: [DONE]\n\n").unwrap();
        respond(200, "text/event-stream", stream)
    })
    .await
}

/// An upstream that streams these events, and ends with `[DONE]`.
async fn upstream_sending(events: &[Value]) -> Upstream {
    let events = events.iter().map(ToString::to_string);
    let events = events.chain(["[DONE]".to_owned()]);
    let events: Vec<String> = events.map(|data| format!("data: {data}\n\n")).collect();
    let stream = events.concat();
    Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await
}

/// An event with one choice.
fn event(delta: &Value) -> Value {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
    json!({ "id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice] })
}
