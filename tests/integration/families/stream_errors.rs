//! Errors of the model API that end a stream, on every API family.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::{
    REDACT, SECRET,
    family::{self, ALL, Family, Turn},
};
use crate::harness::{Answer, Upstream, hook, respond};

/// The events of a stream that have these texts, up to its end.
pub fn texts(family: Family, texts: &[&str]) -> Vec<Value> {
    let mut events = beginning(family);
    events.extend(texts.iter().map(|text| piece(family, text)));
    events
}

fn beginning(family: Family) -> Vec<Value> {
    match family {
        Family::Gemini | Family::Chat => Vec::new(),
        Family::Anthropic => {
            let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
                "content": [], "stop_reason": null, "usage": { "input_tokens": 1 } });
            let block = json!({ "type": "text", "text": "" });
            vec![
                json!({ "type": "message_start", "message": message }),
                json!({ "type": "content_block_start", "index": 0, "content_block": block }),
            ]
        }
        Family::Responses => {
            let response =
                json!({ "id": "r", "status": "in_progress", "model": "m", "output": [] });
            let item = json!({ "type": "message", "id": "i", "role": "assistant", "content": [] });
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            vec![
                json!({ "type": "response.created", "response": response }),
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                json!({ "type": "response.content_part.added", "item_id": "i", "output_index": 0,
                    "content_index": 0, "part": part }),
            ]
        }
    }
}

/// An event with a piece of the text.
fn piece(family: Family, text: &str) -> Value {
    match family {
        Family::Gemini => {
            let content = json!({ "role": "model", "parts": [{ "text": text }] });
            json!({ "candidates": [{ "content": content }] })
        }
        Family::Anthropic => json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": text } }),
        Family::Responses => json!({ "type": "response.output_text.delta", "item_id": "i",
            "output_index": 0, "content_index": 0, "delta": text }),
        Family::Chat => {
            let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
            json!({ "id": "c", "object": "chat.completion.chunk", "model": "m",
                "choices": [choice] })
        }
    }
}

/// The event of an error.
fn error(family: Family, message: &str) -> Value {
    match family {
        Family::Gemini | Family::Chat => json!({ "error": { "code": 500, "message": message } }),
        Family::Anthropic => json!({ "type": "error",
            "error": { "type": "overloaded_error", "message": message } }),
        Family::Responses => {
            let error = json!({ "code": "server_error", "message": message });
            json!({ "type": "response.failed", "response": { "id": "r", "status": "failed",
                "model": "m", "output": [], "error": error } })
        }
    }
}

/// Each family with each event of an error that it has, and those of llama.cpp.
fn each_error(message: &str) -> Vec<(Family, Value)> {
    let errors = ALL.iter().map(|family| (*family, error(*family, message)));
    let own = json!({ "type": "error", "code": "server_error", "message": message, "param": null });
    let bare = json!({ "code": 500, "message": message, "type": "server_error" });
    let untyped = json!({ "error": bare });
    let others = [
        (Family::Responses, own),
        (Family::Responses, untyped.clone()),
        (Family::Anthropic, bare),
        (Family::Anthropic, untyped),
    ];
    errors.chain(others).collect()
}

/// A model API that sends these streams in order.
async fn upstream(streams: Vec<Vec<Value>>) -> Upstream {
    let count = Arc::new(AtomicUsize::new(0));
    Upstream::with(move |_| {
        let index = count.fetch_add(1, Ordering::Relaxed) % streams.len();
        let events = streams[index]
            .iter()
            .map(|event| format!("data: {event}\n\n"));
        respond(200, "text/event-stream", events.collect::<String>())
    })
    .await
}

async fn ask(family: Family, upstream: &Upstream, config: &str) -> Answer {
    let gateway = family.gateway(upstream, config).await;
    family.ask(&gateway, true, &[Turn::User("hi")]).await
}

/// The events of a stream.
#[track_caller]
fn sent(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = family::events(answer).into_iter().map(|(_, data)| data);
    let data = data.filter(|data| data != "[DONE]");
    data.map(|data| serde_json::from_str(&data).unwrap())
        .collect()
}

/// The text in the pieces of a stream.
fn text_of(events: &[Value]) -> String {
    let places = [
        "/candidates/0/content/parts/0/text",
        "/delta/text",
        "/delta",
        "/choices/0/delta/content",
    ];
    let texts = events.iter().map(|event| {
        let mut texts = places
            .iter()
            .filter_map(|place| event.pointer(place)?.as_str());
        texts.next().unwrap_or_default()
    });
    texts.collect()
}

#[tokio::test]
async fn an_answer_that_an_error_ends_does_not_end_the_turn() {
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = hook::config(&[("AfterAgent", hook::printing("seen", &deny))]);
    for (family, error) in each_error("boom") {
        for mode in ["", "after_model: buffered\n"] {
            let mut events = texts(family, &["Hello ", "world"]);
            events.push(error.clone());
            let upstream = upstream(vec![events]).await;

            let answer = ask(family, &upstream, &format!("{hooks}{mode}")).await;

            let events = sent(&answer);
            assert_eq!(upstream.requests().len(), 1, "{family:?}");
            assert_eq!(text_of(&events), "Hello world", "{family:?}");
            let last = events.last().unwrap().to_string();
            assert!(last.contains("boom"), "{family:?}: {last}");
        }
    }
}

#[tokio::test]
async fn an_error_without_the_type_of_an_event_is_named_as_one() {
    let message = "Context size has been exceeded.";
    let error = json!({ "code": 500, "message": message, "type": "server_error" });
    for (family, event) in [
        (Family::Anthropic, error.clone()),
        (Family::Anthropic, json!({ "error": error })),
        (Family::Responses, json!({ "error": error })),
    ] {
        let mut events = texts(family, &["Hello"]);
        events.push(event);
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, REDACT).await;

        let (name, data) = family::events(&answer).pop().unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(name, "error", "{family:?}");
        assert_eq!(data["error"], error, "{family:?}");
        let is_typed = data["type"] == "error";
        assert_eq!(is_typed, family == Family::Anthropic, "{data}");
    }
}

#[tokio::test]
async fn a_whole_answer_with_an_error_does_not_end_the_turn() {
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = hook::config(&[("AfterAgent", hook::printing("seen", &deny))]);
    let content = json!([{ "type": "output_text", "text": "Hello", "annotations": [] }]);
    let item = json!({ "type": "message", "id": "i", "role": "assistant", "content": content });
    let error = json!({ "code": "server_error", "message": "boom" });
    let response = json!({ "id": "r", "object": "response", "status": "failed", "model": "m",
        "output": [item], "error": error });
    let message = json!({ "role": "assistant", "content": "Hello" });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "error" });
    let completion = json!({ "id": "c", "object": "chat.completion", "model": "m",
        "choices": [choice], "error": error });
    for (family, body) in [(Family::Responses, response), (Family::Chat, completion)] {
        let upstream = Upstream::answering(&body).await;
        let gateway = family.gateway(&upstream, &hooks).await;

        let answer = family.ask(&gateway, false, &[Turn::User("hi")]).await;

        assert_eq!(answer.json(), body, "{family:?}");
        assert_eq!(upstream.requests().len(), 1, "{family:?}");
    }
}

#[tokio::test]
async fn a_denied_call_in_front_of_an_error_is_explained() {
    let call = json!({ "name": "rm", "args": {} });
    let content = json!({ "role": "model", "parts": [{ "functionCall": call }] });
    let gemini = vec![json!({ "candidates": [{ "content": content }] })];
    let block = json!({ "type": "tool_use", "id": "t", "name": "rm", "input": {} });
    let mut anthropic = beginning(Family::Anthropic);
    anthropic.extend([
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1, "content_block": block }),
        json!({ "type": "content_block_stop", "index": 1 }),
    ]);
    let config = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";
    for (family, mut events) in [(Family::Gemini, gemini), (Family::Anthropic, anthropic)] {
        events.push(error(family, "boom"));
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, config).await;

        assert_eq!(upstream.requests().len(), 1, "{family:?}");
        let events = sent(&answer);
        let (last, before) = events.split_last().unwrap();
        assert_eq!(*last, error(family, "boom"), "{family:?}");
        assert!(
            text_of(before).contains("not here"),
            "{family:?}: {before:?}"
        );
        assert!(!answer.text().contains("functionCall"), "{before:?}");
        assert!(!answer.text().contains("tool_use"), "{before:?}");
    }
}

#[tokio::test]
async fn an_error_ends_a_buffered_stream_that_is_masked() {
    let config = format!("{REDACT}after_model: buffered\n");
    for (family, error) in each_error(&format!("boom {SECRET}")) {
        let mut events = texts(family, &[SECRET]);
        events.push(error);
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, &config).await;

        let last = sent(&answer).pop().unwrap().to_string();
        assert!(
            last.contains("boom [REDACTED:aws_key]"),
            "{family:?}: {last}"
        );
        let text = answer.text();
        assert!(!text.contains(SECRET), "{family:?}: {text}");
        assert!(
            text.matches("[REDACTED:aws_key]").count() > 1,
            "{family:?}: {text}"
        );
        assert!(
            !text.contains("end_turn") && !text.contains("completed\",\"resp"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn text_that_a_policy_holds_back_precedes_an_error() {
    for (family, error) in each_error("boom") {
        let mut events = texts(family, &["Hello wor"]);
        events.push(error);
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, "policies: [{ policy: redact }]\n").await;

        let events = sent(&answer);
        let (last, before) = events.split_last().unwrap();
        assert_eq!(text_of(before), "Hello wor", "{family:?}");
        assert!(last.to_string().contains("boom"), "{family:?}: {last}");
        assert_eq!(text_of(std::slice::from_ref(last)), "", "{family:?}");
    }
}

#[tokio::test]
async fn a_secret_that_the_event_of_an_error_completes_is_masked() {
    let with_text = |family: Family, text: &str| {
        let mut event = piece(family, text);
        event["error"] = json!({ "code": 500, "message": "boom" });
        event
    };
    for family in [Family::Gemini, Family::Chat] {
        let cuts = 1..SECRET.len();
        let streams = cuts.clone().map(|cut| {
            let (first, second) = SECRET.split_at(cut);
            vec![piece(family, first), with_text(family, second)]
        });
        let upstream = upstream(streams.collect()).await;
        for mode in ["", "after_model: buffered\n"] {
            let gateway = family.gateway(&upstream, &format!("{REDACT}{mode}")).await;
            for cut in cuts.clone() {
                let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
                let events = sent(&answer);
                assert_eq!(text_of(&events), "[REDACTED:aws_key]", "{family:?} {cut}");
                assert!(answer.text().contains("boom"), "{family:?}: {events:?}");
            }
        }
    }
}

#[tokio::test]
async fn text_behind_an_error_completes_no_secret() {
    let (first, second) = SECRET.split_at(8);
    for family in [Family::Gemini, Family::Anthropic, Family::Chat] {
        let mut events = texts(family, &[first]);
        events.extend([error(family, "boom"), piece(family, second)]);
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, REDACT).await;

        let events = sent(&answer);
        assert_eq!(text_of(&events), first, "{family:?}");
        assert_eq!(*events.last().unwrap(), error(family, "boom"), "{family:?}");
    }
}

#[tokio::test]
async fn text_of_another_choice_precedes_an_error_with_text() {
    let mut first = piece(Family::Chat, "Hello wor");
    first["choices"][0]["index"] = json!(1);
    let mut last = piece(Family::Chat, "bye");
    last["error"] = json!({ "code": 500, "message": "boom" });
    let upstream = upstream(vec![vec![first, last]]).await;

    let answer = ask(Family::Chat, &upstream, "policies: [{ policy: redact }]\n").await;

    let events = sent(&answer);
    let (last, before) = events.split_last().unwrap();
    assert_eq!(text_of(before), "Hello wor");
    assert_eq!(last["error"]["message"], "boom");
    assert_eq!(last["choices"][0]["delta"]["content"], "bye");
}

#[tokio::test]
async fn the_text_of_a_masked_buffered_stream_precedes_its_error() {
    let config = format!("{REDACT}after_model: buffered\n");
    for (family, error) in each_error("boom") {
        let mut events = texts(family, &[SECRET]);
        events.push(error);
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, &config).await;

        let events = sent(&answer);
        let (last, before) = events.split_last().unwrap();
        assert_eq!(text_of(before), "[REDACTED:aws_key]", "{family:?}");
        assert!(last.to_string().contains("boom"), "{family:?}: {last}");
        assert_eq!(text_of(std::slice::from_ref(last)), "", "{family:?}");
    }
}

#[tokio::test]
async fn an_unchanged_buffered_stream_keeps_its_events_in_front_of_an_error() {
    let hooks = hook::config(&[("AfterModel", hook::printing("seen", &json!({})))]);
    let config = format!("{hooks}after_model: buffered\n");
    // Only one of the two fields fits into one answer.
    let events = [("Hello ", 1), ("world", 2)].map(|(text, number)| {
        let mut event = piece(Family::Gemini, text);
        event["candidates"][0]["groundingMetadata"] = json!({ "number": number });
        event
    });
    let mut events = events.to_vec();
    events.push(error(Family::Gemini, "boom"));
    let upstream = upstream(vec![events.clone()]).await;

    let answer = ask(Family::Gemini, &upstream, &config).await;

    assert_eq!(sent(&answer), events);
}

#[tokio::test]
async fn a_thought_that_a_policy_holds_back_precedes_an_error() {
    let content = json!({ "role": "model", "parts": [{ "text": "Hello wor", "thought": true }] });
    let gemini = vec![json!({ "candidates": [{ "content": content }] })];
    let mut anthropic = beginning(Family::Anthropic);
    anthropic.truncate(1);
    let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
    anthropic.extend([
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "thinking_delta", "thinking": "Hello wor" } }),
    ]);
    for (family, mut events, place) in [
        (Family::Gemini, gemini, "/candidates/0/content/parts/0/text"),
        (Family::Anthropic, anthropic, "/delta/thinking"),
        (
            Family::Chat,
            vec![thought_of_choice(0)],
            "/choices/0/delta/reasoning",
        ),
    ] {
        events.push(error(family, "boom"));
        let upstream = upstream(vec![events]).await;

        let answer = ask(family, &upstream, "policies: [{ policy: redact }]\n").await;

        let events = sent(&answer);
        let (last, before) = events.split_last().unwrap();
        assert_eq!(texts_at(before, place), "Hello wor", "{family:?}");
        assert_eq!(*last, error(family, "boom"), "{family:?}");
    }
}

#[tokio::test]
async fn a_thought_keeps_its_name_in_front_of_an_error_with_text() {
    for index in [0, 1] {
        let mut last = piece(Family::Chat, "bye");
        last["error"] = json!({ "code": 500, "message": "boom" });
        let upstream = upstream(vec![vec![thought_of_choice(index), last]]).await;

        let answer = ask(Family::Chat, &upstream, "policies: [{ policy: redact }]\n").await;

        let thought = texts_at(&sent(&answer), "/choices/0/delta/reasoning");
        let text = answer.text();
        assert_eq!(thought, "Hello wor", "{index}: {text}");
        assert!(!text.contains("reasoning_content"), "{index}: {text}");
    }
}

/// An event of Chat Completions with a thought under its short name.
fn thought_of_choice(index: u64) -> Value {
    let mut event = piece(Family::Chat, "");
    event["choices"][0]["index"] = index.into();
    event["choices"][0]["delta"] = json!({ "reasoning": "Hello wor" });
    event
}

/// The texts at one place in the events of a stream.
fn texts_at(events: &[Value], place: &str) -> String {
    let texts = events
        .iter()
        .filter_map(|event| event.pointer(place)?.as_str());
    texts.collect()
}

#[tokio::test]
async fn an_empty_stream_is_an_error() {
    for family in [Family::Anthropic, Family::Responses, Family::Chat] {
        for mode in ["", "after_model: buffered\n"] {
            let upstream = upstream(vec![Vec::new()]).await;

            let answer = ask(family, &upstream, &format!("{REDACT}{mode}")).await;

            assert_eq!(answer.status, 502, "{family:?}: {}", answer.text());
        }
    }
}
