//! Streams that break off, on every API family: what was decided before reaches the agent.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    NO_OP_COMMAND, REDACT,
    family::{ALL, Family, Part, Turn},
    stream_errors::texts,
};
use crate::harness::{Agent, End, TestGateway, Upstream, chunked_head, hook, read_to_end, respond};

const WORDS: [&str; 6] = ["word "; 6];

/// Six events with a word each.
fn six_words(family: Family) -> String {
    let events = texts(family, &WORDS).into_iter();
    events.fold(String::new(), |mut text, event| {
        write!(text, "data: {event}\n\n").unwrap();
        text
    })
}

/// Six events with a word each, and one that parsers could read differently.
fn six_words_and_an_ambiguous_event(family: Family) -> String {
    let last = json!({ "type": "x", "twice": Value::Null }).to_string();
    let ambiguous = last.replace("\"twice\"", "\"twice\":0,\"twice\"");
    format!("{}data: {ambiguous}\n\n", six_words(family))
}

/// Asks for a stream, and checks that six words of it arrive before it breaks.
async fn check(family: Family, agent: Agent, case: &str) {
    let body = family.request(true, &[Turn::User("hi")]).to_string();
    let agent = agent.sending("anthropic-version", "2023-06-01");

    let mut response = agent.open(family.path(true), body).await;

    assert_eq!(response.status(), 200, "{family:?} {case}");
    let (received, end) = read_to_end(&mut response).await;
    assert_eq!(end, End::Broken, "{family:?} {case}: {received}");
    let words = received.matches("word ").count();
    assert_eq!(words, WORDS.len(), "{family:?} {case}: {received}");
}

async fn check_over_http1_and_http2(family: Family, gateway: &TestGateway, case: &str) {
    for _ in 0..5 {
        check(family, gateway.agent(), case).await;
        check(family, gateway.agent().over_http2(), case).await;
    }
}

#[tokio::test]
async fn events_before_an_unreadable_one_reach_the_agent() {
    for family in ALL.iter().copied() {
        let body = six_words_and_an_ambiguous_event(family);
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
        let gateway = family.gateway(&upstream, REDACT).await;

        check_over_http1_and_http2(family, &gateway, "unreadable").await;
    }
}

/// Events of two open texts, of which the first goes on behind a piece of the second.
fn texts_in_turns(family: Family) -> Vec<Value> {
    let pieces = [
        (0, "The key "),
        (1, "AKIAIOSFODNN7EXAMPLE"),
        (0, "follows"),
        (1, "ends"),
    ];
    if family == Family::Anthropic {
        let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
            "content": [], "usage": { "input_tokens": 1, "output_tokens": 1 } });
        let start = |index: u64| {
            json!({ "type": "content_block_start", "index": index,
            "content_block": { "type": "text", "text": "" } })
        };
        let mut events = vec![json!({ "type": "message_start", "message": message })];
        events.extend([start(0), start(1)]);
        events.extend(pieces.map(|(index, text)| {
            let delta = json!({ "type": "text_delta", "text": text });
            json!({ "type": "content_block_delta", "index": index, "delta": delta })
        }));
        return events;
    }
    let response =
        json!({ "id": "r", "object": "response", "status": "in_progress", "output": [] });
    let added = |index: u64| {
        let item = json!({ "id": format!("m{index}"), "type": "message", "role": "assistant",
            "status": "in_progress", "content": [] });
        json!({ "type": "response.output_item.added", "output_index": index, "item": item })
    };
    let mut events = vec![json!({ "type": "response.created", "response": response })];
    events.extend([added(0), added(1)]);
    events.extend(pieces.map(|(index, text)| {
        json!({ "type": "response.output_text.delta", "item_id": format!("m{index}"),
            "output_index": index, "content_index": 0, "delta": text })
    }));
    events
}

#[tokio::test]
async fn a_text_that_goes_on_behind_another_one_breaks_the_stream() {
    let mut hook = hook::command("see", NO_OP_COMMAND);
    hook["on_failure"] = json!("closed");
    let hooks = hook::config(&[("AfterModel", hook)]);
    for family in [Family::Anthropic, Family::Responses] {
        for config in [REDACT, &format!("{hooks}after_model: buffered\n")] {
            let events = texts_in_turns(family).into_iter();
            let stream = events.fold(String::new(), |mut stream, event| {
                let name = event["type"].as_str().unwrap();
                write!(stream, "event: {name}\ndata: {event}\n\n").unwrap();
                stream
            });
            let upstream =
                Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
            let gateway = family.gateway(&upstream, config).await;
            let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
            let body = family.request(true, &[Turn::User("hi")]).to_string();

            let mut response = agent.open(family.path(true), body).await;

            let (received, _) = read_to_end(&mut response).await;
            assert!(
                !received.contains("AKIA"),
                "{family:?} {config}: {received}"
            );
            assert!(
                !received.contains("follows"),
                "{family:?} {config}: {received}"
            );
        }
    }
}

/// Writes a part of a stream at once, and closes the connection.
async fn write_and_close(mut socket: TcpStream, events: String) {
    let head = chunked_head("text/event-stream");
    let text = format!("{head}{:x}\r\n{events}\r\n", events.len());
    socket.write_all(text.as_bytes()).await.ok();
    socket.shutdown().await.ok();
}

#[tokio::test]
async fn events_before_the_end_of_the_connection_reach_the_agent() {
    for family in ALL.iter().copied() {
        let events = six_words(family);
        let upstream =
            Upstream::raw(move |_, socket| write_and_close(socket, events.clone())).await;
        for config in ["", REDACT] {
            let gateway = family.gateway(&upstream, config).await;

            check_over_http1_and_http2(family, &gateway, config).await;
        }
    }
}

#[tokio::test]
async fn an_empty_stream_behind_a_denied_call_breaks_the_stream() {
    let config = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    for family in [Family::Anthropic, Family::Responses, Family::Chat] {
        let first = family.events(&[Part::text(&["let me see"]), Part::call("rm", "/")]);
        let count = Arc::new(AtomicUsize::new(0));
        let upstream = Upstream::with(move |_| {
            let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
            let events = if is_first {
                first.clone()
            } else {
                String::new()
            };
            respond(200, "text/event-stream", events)
        })
        .await;
        let gateway = family.gateway(&upstream, config).await;
        let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
        let body = family.request(true, &[Turn::User("hi")]).to_string();

        let mut response = agent.open(family.path(true), body).await;

        let (received, end) = read_to_end(&mut response).await;
        assert_eq!(end, End::Broken, "{family:?}: {received}");
        assert!(received.contains("let me see"), "{family:?}: {received}");
        assert_eq!(upstream.requests().len(), 2, "{family:?}");
    }
}

#[tokio::test]
async fn a_stream_whose_end_is_repeated_without_bound_is_broken() {
    let events = Family::Anthropic.events(&[Part::text(&["hello"])]);
    let usage = json!({ "output_tokens": 1, "note": "x".repeat(1024 * 1024) });
    let delta = json!({ "type": "message_delta", "delta": {}, "usage": usage });
    let repeated = format!("event: message_delta\ndata: {delta}\n\n").repeat(20);
    let (head, end) = events.split_once("event: message_delta").unwrap();
    let events = format!("{head}{repeated}event: message_delta{end}");
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let config = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    let gateway = Family::Anthropic.gateway(&upstream, config).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    let body = Family::Anthropic.request(true, &[Turn::User("hi")]);

    let mut response = agent.open("/v1/messages", body.to_string()).await;

    let (received, end) = read_to_end(&mut response).await;
    assert_eq!(end, End::Broken);
    assert!(received.contains("hello"));
    assert!(!received.contains("message_delta"));
}
