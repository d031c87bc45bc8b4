//! `redact`: on requests, answers, thoughts, arguments and results, whole and in
//! pieces.

mod answers;
mod requests;

use axum::response::Response;
use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt, respond};

const MASK: &str = "policies: [{ policy: redact }]\n";
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

#[tokio::test]
async fn no_text_of_a_request_carries_a_secret_upstream() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;
    let body = json!({
        "systemInstruction": { "parts": [{ "text": format!("use {KEY}") }] },
        "contents": [
            { "role": "user", "parts": [{ "text": "I am jo@exam" }, { "text": "ple.com." }] },
            { "role": "model", "parts": [
                { "functionCall": { "name": "f", "args": { "to": "jo@example.com", "n": 4_111_111_111_111_111_u64 } }, "thoughtSignature": KEY },
            ] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": { "jo@example.com": ["ok"] } } }] },
        ],
        "unknown": 1.0,
    });

    let answer = gate.agent().generate(MODEL, &body).await;

    let expected = json!({
        "systemInstruction": { "parts": [{ "text": "use [REDACTED:aws_key]" }] },
        "contents": [
            { "role": "user", "parts": [{ "text": "I am " }, { "text": "[REDACTED:email]." }] },
            { "role": "model", "parts": [
                { "functionCall": { "name": "f", "args": { "to": "[REDACTED:email]", "n": "[REDACTED:card]" } }, "thoughtSignature": KEY },
            ] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": { "[REDACTED:email]": ["ok"] } } }] },
        ],
        "unknown": 1.0,
    });
    assert_eq!(upstream.only().json(), expected);
    assert_eq!(answer.header("x-hookgate-action"), "edit");
}

#[tokio::test]
async fn only_the_sides_that_are_named_are_masked() {
    let upstream = Upstream::answering(&saying(&[&format!("it is {KEY}")])).await;
    let config = "policies: [{ policy: redact, detect: [aws_key], on: [answer] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let body = prompt(KEY).to_string();

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = gate.agent().post(&path, body.clone()).await;

    assert_eq!(upstream.only().body, body);
    assert_eq!(text(&[answer.json()]), "it is [REDACTED:aws_key]");
}

/// An answer of these texts.
fn saying(texts: &[&str]) -> Value {
    let parts: Vec<Value> = texts.iter().map(|it| json!({ "text": it })).collect();
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "content": content, "index": 0 }], "usageMetadata": { "totalTokenCount": 5 } })
}

/// All that the chunks say, thoughts left out.
fn text(chunks: &[Value]) -> String {
    let parts = chunks
        .iter()
        .filter_map(|it| it["candidates"][0]["content"]["parts"].as_array())
        .flatten();
    parts
        .filter(|it| it["thought"] != true)
        .filter_map(|it| it["text"].as_str())
        .collect()
}

/// A stream of these chunks.
fn stream(chunks: &[Value]) -> Response {
    let events: Vec<String> = chunks
        .iter()
        .map(|it| format!("data: {it}\r\n\r\n"))
        .collect();
    respond(200, "text/event-stream", events.concat())
}

/// A model API that says back what it is asked, cut where `cuts` says.
async fn cutting(cuts: fn(&str) -> Vec<&str>) -> Upstream {
    Upstream::with(move |asked| {
        let said = asked.json()["contents"][0]["parts"][0]["text"].clone();
        let said = said.as_str().unwrap();
        let mut chunks: Vec<Value> = cuts(said).into_iter().map(|it| saying(&[it])).collect();
        chunks.last_mut().unwrap()["candidates"][0]["finishReason"] = json!("STOP");
        stream(&chunks)
    })
    .await
}

const ANSWERS: &str = "policies: [{ policy: redact, on: [answer, tool_calls] }]\n";

#[tokio::test]
async fn a_secret_in_single_characters_never_reaches_the_agent() {
    fn characters(text: &str) -> Vec<&str> {
        text.split("").filter(|it| !it.is_empty()).collect()
    }
    let upstream = cutting(characters).await;
    let gate = TestGateway::start(&upstream, ANSWERS).await;
    let said = format!("é key={KEY}; mail jo@example.com, card 4111 1111 1111 1111. End");

    let answer = gate.agent().stream(MODEL, &prompt(&said)).await;

    let events = answer.events();
    let expected = "é key=[REDACTED:aws_key]; mail [REDACTED:email], card [REDACTED:card]. End";
    assert_eq!(text(&events), expected);
    assert_eq!(events.len(), characters(&said).len());
    assert_eq!(
        events.last().unwrap()["candidates"][0]["finishReason"],
        "STOP"
    );
    assert!(
        events
            .iter()
            .all(|it| it["usageMetadata"]["totalTokenCount"] == 5)
    );
}

#[tokio::test]
async fn wherever_a_stream_is_cut_the_agent_reads_the_same() {
    let said = format!("the key {KEY} is gone");
    let upstream = Upstream::with({
        let said = said.clone();
        move |asked| {
            // The prompt says where to cut.
            let at = asked.json()["contents"][0]["parts"][0]["text"].clone();
            let (first, last) = said.split_at(at.as_str().unwrap().parse().unwrap());
            let mut end = saying(&[last]);
            end["candidates"][0]["finishReason"] = json!("STOP");
            stream(&[saying(&[first]), end])
        }
    })
    .await;
    let gate = TestGateway::start(&upstream, ANSWERS).await;

    for at in 1..said.len() {
        let answer = gate.agent().stream(MODEL, &prompt(&at.to_string())).await;

        let read = text(&answer.events());
        assert_eq!(read, "the key [REDACTED:aws_key] is gone", "{at}");
    }
}

#[tokio::test]
async fn a_stream_without_a_secret_passes_chunk_by_chunk() {
    fn words(text: &str) -> Vec<&str> {
        text.split_inclusive(". ").collect()
    }
    let upstream = cutting(words).await;
    let gate = TestGateway::start(&upstream, ANSWERS).await;

    let answer = gate
        .agent()
        .stream(MODEL, &prompt("One. Two. Three."))
        .await;

    let texts: Vec<String> = answer
        .events()
        .iter()
        .map(|it| text(std::slice::from_ref(it)))
        .collect();
    assert_eq!(texts, ["One. ", "Two. ", "Three."]);
    assert_eq!(answer.header("x-hookgate-action"), "pass");
}

#[tokio::test]
async fn thoughts_arguments_and_signatures_keep_their_places() {
    let part = |part: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": [part] }, "index": 0 }] });
    let mut last = part(json!({ "text": "" , "thoughtSignature": "c2ln" }));
    last["candidates"][0]["finishReason"] = json!("STOP");
    let chunks = [
        part(json!({ "text": "AKIAIOSF", "thought": true })),
        part(json!({ "text": "AKIAIOSF" })),
        part(
            json!({ "functionCall": { "name": "f", "args": { "key": KEY } }, "thoughtSignature": "c2ln" }),
        ),
        part(json!({ "text": "ODNN7EXAMPLE", "thought": true })),
        last,
    ];
    let upstream = Upstream::with(move |_| stream(&chunks)).await;
    let gate = TestGateway::start(&upstream, ANSWERS).await;

    let events = gate.agent().stream(MODEL, &prompt("go")).await.events();

    let parts: Vec<&Value> = events
        .iter()
        .flat_map(|it| it["candidates"][0]["content"]["parts"].as_array().unwrap())
        .collect();
    assert_eq!(parts[0], &json!({ "text": "", "thought": true }));
    assert_eq!(parts[1], &json!({ "text": "" }));
    assert_eq!(
        parts[2]["functionCall"]["args"],
        json!({ "key": "[REDACTED:aws_key]" })
    );
    assert_eq!(parts[2]["thoughtSignature"], "c2ln");
    // Whether the key ends here, only the end of the answer tells.
    assert_eq!(parts[3], &json!({ "text": "", "thought": true }));
    let thought = json!({ "text": "[REDACTED:aws_key]", "thought": true });
    assert_eq!(parts[4], &thought);
    // What only began like a key is no key.
    let rest = json!({ "text": "AKIAIOSF", "thoughtSignature": "c2ln" });
    assert_eq!(parts[5], &rest);
}

#[tokio::test]
async fn what_is_held_at_the_end_of_a_stream_is_said() {
    let chunks = [saying(&["almost AKIAIOSF"])];
    let upstream = Upstream::with(move |_| stream(&chunks)).await;
    let gate = TestGateway::start(&upstream, ANSWERS).await;

    for answer in [
        gate.agent().stream(MODEL, &prompt("go")).await.events(),
        gate.agent()
            .array(MODEL, &prompt("go"))
            .await
            .json()
            .as_array()
            .unwrap()
            .clone(),
    ] {
        assert_eq!(text(&answer), "almost AKIAIOSF");
    }
}

#[tokio::test]
async fn hooks_see_the_mask_and_cannot_take_it_off() {
    let upstream = Upstream::answering(&saying(&[&format!("it is {KEY}")])).await;
    let hooks = hook::config(&[
        (
            "BeforeModel",
            hook::saying(
                "before",
                &hook::request(&json!({ "messages": [{ "role": "user", "content": KEY }] })),
            ),
        ),
        (
            "AfterModel",
            hook::saying(
                "after",
                &hook::response(&json!({ "text": format!("again {KEY}") })),
            ),
        ),
    ]);
    let gate = TestGateway::start(&upstream, &format!("{MASK}{hooks}")).await;

    let answer = gate
        .agent()
        .generate(MODEL, &prompt(&format!("my {KEY}")))
        .await;

    assert!(!gate.file("before.json").contains(KEY));
    assert!(!gate.file("after.json").contains(KEY));
    assert_eq!(
        upstream.only().json()["contents"][0]["parts"][0]["text"],
        "[REDACTED:aws_key]"
    );
    assert_eq!(text(&[answer.json()]), "again [REDACTED:aws_key]");
}

#[tokio::test]
async fn equal_secrets_have_equal_hashes() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email], patterns: { ticket: 'TCK-[0-9]{6}' }, action: hash, key: { file: key.txt } }]\n";
    let gate = TestGateway::with_files(&upstream, config, &[("key.txt", "0123456789abcdef")]).await;

    let said = "TCK-123456 TCK-123456 TCK-654321 jo@example.com";
    gate.agent().generate(MODEL, &prompt(said)).await;

    let sent = upstream.only().json()["contents"][0]["parts"][0]["text"].clone();
    let labels: Vec<&str> = sent.as_str().unwrap().split(' ').collect();
    assert!(
        labels[0].starts_with("[REDACTED:ticket:") && labels[3].starts_with("[REDACTED:email:")
    );
    assert_eq!(labels[0], labels[1]);
    assert_ne!(labels[0], labels[2]);
    assert_eq!(labels[0].len(), "[REDACTED:ticket:]".len() + 12);
}

#[tokio::test]
async fn what_must_not_be_said_is_refused() {
    let upstream = Upstream::answering(&saying(&["first ", &format!("it is {KEY}")])).await;
    let config = "policies: [{ policy: redact, detect: [aws_key, email], action: deny }]\n";
    let gate = TestGateway::start(&upstream, config).await;

    let refused = gate
        .agent()
        .generate(MODEL, &prompt("I am jo@example.com"))
        .await;
    assert_eq!(text(&[refused.json()]), "Not allowed here: email.");
    assert!(upstream.seen().is_empty());
    for answer in [
        gate.agent().generate(MODEL, &prompt("go")).await,
        gate.agent().stream(MODEL, &prompt("go")).await,
    ] {
        assert!(!answer.text().contains("AKIA"), "{}", answer.text());
        assert!(answer.text().contains("Not allowed here: aws_key."));
    }
}

#[tokio::test]
async fn reported_calls_and_results_are_masked() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;
    let before = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "to": "jo@example.com", "n": 1 } });
    let after = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {}, "tool_response": { "llmContent": format!("key {KEY}"), "returnDisplay": "" } });
    let clean = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {}, "tool_response": { "llmContent": "ok" } });
    let said = async |event: &Value| gate.agent().report(event, "").await.json();

    let edited = said(&before).await;
    assert_eq!(
        edited["hookSpecificOutput"]["tool_input"],
        json!({ "to": "[REDACTED:email]", "n": 1 })
    );
    let replaced = said(&after).await;
    assert_eq!(
        replaced,
        json!({ "decision": "deny", "reason": "key [REDACTED:aws_key]" })
    );
    assert_eq!(said(&clean).await, json!({}));
}

#[tokio::test]
async fn a_reported_answer_is_masked_after_hooks_had_their_say() {
    let upstream = Upstream::mock().await;
    let edit = hook::response(&json!({ "text": format!("again {KEY}") }));
    let hooks = hook::config(&[("AfterModel", hook::saying("after", &edit))]);
    let gate = TestGateway::start(&upstream, &format!("{MASK}{hooks}")).await;
    let event = json!({
        "hook_event_name": "AfterModel",
        "llm_request": { "model": MODEL, "messages": [] },
        "llm_response": { "candidates": [{ "content": { "role": "model", "parts": ["jo@example.com"] } }] },
    });

    let said = gate.agent().report(&event, "").await.json();

    let answer = &said["hookSpecificOutput"]["llm_response"];
    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!(["again [REDACTED:aws_key]"]));
}
