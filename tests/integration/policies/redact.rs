//! `redact`: masking of secrets in requests, responses, thoughts, arguments and tool results,
//! unary and streamed.

mod arguments;
mod requests;
mod responses;
mod results;
mod text_edges;
mod text_parts;

use axum::response::Response;
use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt, respond};

const MASK: &str = "policies: [{ policy: redact }]\n";
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

#[tokio::test]
async fn secrets_in_a_request_are_masked_before_it_reaches_upstream() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
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

    let answer = gateway.agent().generate(MODEL, &body).await;

    let expected = json!({
        "systemInstruction": { "parts": [{ "text": "use [REDACTED:aws_key]" }] },
        "contents": [
            { "role": "user", "parts": [{ "text": "I am [REDACTED:email]" }, { "text": "." }] },
            { "role": "model", "parts": [
                { "functionCall": { "name": "f", "args": { "to": "[REDACTED:email]", "n": "[REDACTED:card]" } }, "thoughtSignature": KEY },
            ] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": { "[REDACTED:email]": ["ok"] } } }] },
        ],
        "unknown": 1.0,
    });
    assert_eq!(upstream.only_request().json(), expected);
    assert_eq!(answer.header("x-hookgate-action"), "edit");
}

#[tokio::test]
async fn each_text_of_a_request_is_masked_in_its_place() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let body = |secret: &str| {
        let secret = format!("key {secret}");
        let parts = ["one", &secret, "tail"].map(|text| json!({ "text": text }));
        json!({ "contents": [{ "role": "user", "parts": parts }] })
    };

    gateway.agent().generate(MODEL, &body(KEY)).await;

    let expected = body("[REDACTED:aws_key]");
    assert_eq!(upstream.only_request().json(), expected);
}

#[tokio::test]
async fn only_the_content_listed_in_the_config_is_masked() {
    let upstream = Upstream::answering(&response_of(&[&format!("it is {KEY}")])).await;
    let config = "policies: [{ policy: redact, detect: [aws_key], on: [answer] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let body = prompt(KEY).to_string();

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = gateway.agent().post(&path, body.clone()).await;

    assert_eq!(upstream.only_request().body, body);
    assert_eq!(text_of(&[answer.json()]), "it is [REDACTED:aws_key]");
}

/// A response whose parts are these texts.
fn response_of(texts: &[&str]) -> Value {
    let parts: Vec<Value> = texts.iter().map(|text| json!({ "text": text })).collect();
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "content": content, "index": 0 }], "usageMetadata": { "totalTokenCount": 5 } })
}

/// The concatenated text of the chunks, without thoughts.
fn text_of(chunks: &[Value]) -> String {
    let parts = chunks
        .iter()
        .filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array())
        .flatten();
    parts
        .filter(|part| part["thought"] != true)
        .filter_map(|part| part["text"].as_str())
        .collect()
}

/// A server-sent event stream of these chunks.
fn sse_response(chunks: &[Value]) -> Response {
    let events: Vec<String> = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\r\n\r\n"))
        .collect();
    respond(200, "text/event-stream", events.concat())
}

/// An upstream that streams the prompt back, in the chunks that `split` returns.
async fn echo_upstream(split: fn(&str) -> Vec<&str>) -> Upstream {
    Upstream::with(move |request| {
        let text = request.json()["contents"][0]["parts"][0]["text"].clone();
        let text = text.as_str().unwrap();
        let mut chunks: Vec<Value> = split(text)
            .into_iter()
            .map(|chunk| response_of(&[chunk]))
            .collect();
        chunks.last_mut().unwrap()["candidates"][0]["finishReason"] = json!("STOP");
        sse_response(&chunks)
    })
    .await
}

const MASK_RESPONSES: &str = "policies: [{ policy: redact, on: [answer, tool_calls] }]\n";

#[tokio::test]
async fn a_secret_streamed_one_character_per_chunk_is_masked() {
    fn characters(text: &str) -> Vec<&str> {
        text.split("")
            .filter(|character| !character.is_empty())
            .collect()
    }
    let upstream = echo_upstream(characters).await;
    let gateway = TestGateway::start(&upstream, MASK_RESPONSES).await;
    let text = format!("é key={KEY}; mail jo@example.com, card 4111 1111 1111 1111. End");

    let answer = gateway.agent().stream(MODEL, &prompt(&text)).await;

    let events = answer.events();
    let expected = "é key=[REDACTED:aws_key]; mail [REDACTED:email], card [REDACTED:card]. End";
    assert_eq!(text_of(&events), expected);
    assert_eq!(events.len(), characters(&text).len());
    assert_eq!(
        events.last().unwrap()["candidates"][0]["finishReason"],
        "STOP"
    );
    assert!(
        events
            .iter()
            .all(|event| event["usageMetadata"]["totalTokenCount"] == 5)
    );
}

#[tokio::test]
async fn a_key_split_over_two_chunks_is_masked_at_every_position() {
    let text = format!("the key {KEY} is gone");
    let upstream = Upstream::with({
        let text = text.clone();
        move |request| {
            // The prompt is the position of the split.
            let position = request.json()["contents"][0]["parts"][0]["text"].clone();
            let (first, last) = text.split_at(position.as_str().unwrap().parse().unwrap());
            let mut end = response_of(&[last]);
            end["candidates"][0]["finishReason"] = json!("STOP");
            sse_response(&[response_of(&[first]), end])
        }
    })
    .await;
    let gateway = TestGateway::start(&upstream, MASK_RESPONSES).await;

    for position in 1..text.len() {
        let answer = gateway
            .agent()
            .stream(MODEL, &prompt(&position.to_string()))
            .await;

        let received = text_of(&answer.events());
        assert_eq!(received, "the key [REDACTED:aws_key] is gone", "{position}");
    }
}

#[tokio::test]
async fn a_stream_without_a_secret_passes_chunk_by_chunk() {
    fn sentences(text: &str) -> Vec<&str> {
        text.split_inclusive(". ").collect()
    }
    let upstream = echo_upstream(sentences).await;
    let gateway = TestGateway::start(&upstream, MASK_RESPONSES).await;

    let answer = gateway
        .agent()
        .stream(MODEL, &prompt("One. Two. Three."))
        .await;

    let texts: Vec<String> = answer
        .events()
        .iter()
        .map(|event| text_of(std::slice::from_ref(event)))
        .collect();
    assert_eq!(texts, ["One. ", "Two. ", "Three."]);
    assert_eq!(answer.header("x-hookgate-action"), "pass");
}

#[tokio::test]
async fn masking_keeps_the_order_of_thoughts_arguments_and_signatures() {
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
    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let gateway = TestGateway::start(&upstream, MASK_RESPONSES).await;

    let events = gateway.agent().stream(MODEL, &prompt("go")).await.events();

    let parts: Vec<&Value> = events
        .iter()
        .flat_map(|event| {
            event["candidates"][0]["content"]["parts"]
                .as_array()
                .unwrap()
        })
        .collect();
    let call = json!({ "name": "f", "args": { "key": "[REDACTED:aws_key]" } });
    // Each text is released in front of the next part, and the rest of its secret is masked. The
    // key could be longer, so the thought is withheld until the response ends.
    let expected = [
        json!({ "text": "", "thought": true }),
        json!({ "text": "AKIAIOSF", "thought": true }),
        json!({ "text": "" }),
        json!({ "text": "AKIAIOSF" }),
        json!({ "functionCall": call, "thoughtSignature": "c2ln" }),
        json!({ "text": "", "thought": true }),
        json!({ "text": "[REDACTED:aws_key]", "thought": true }),
        json!({ "text": "", "thoughtSignature": "c2ln" }),
    ];
    assert_eq!(parts, expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn text_withheld_until_the_end_of_a_stream_is_released() {
    let chunks = [response_of(&["almost AKIAIOSF"])];
    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let gateway = TestGateway::start(&upstream, MASK_RESPONSES).await;

    for answer in [
        gateway.agent().stream(MODEL, &prompt("go")).await.events(),
        gateway
            .agent()
            .array(MODEL, &prompt("go"))
            .await
            .json()
            .as_array()
            .unwrap()
            .clone(),
    ] {
        assert_eq!(text_of(&answer), "almost AKIAIOSF");
    }
}

#[tokio::test]
async fn hooks_see_masked_text_and_cannot_reintroduce_a_secret() {
    let upstream = Upstream::answering(&response_of(&[&format!("it is {KEY}")])).await;
    let hooks = hook::config(&[
        (
            "BeforeModel",
            hook::printing(
                "before",
                &hook::request(&json!({ "messages": [{ "role": "user", "content": KEY }] })),
            ),
        ),
        (
            "AfterModel",
            hook::printing(
                "after",
                &hook::response(&json!({ "text": format!("again {KEY}") })),
            ),
        ),
    ]);
    let gateway = TestGateway::start(&upstream, &format!("{MASK}{hooks}")).await;

    let answer = gateway
        .agent()
        .generate(MODEL, &prompt(&format!("my {KEY}")))
        .await;

    assert!(!gateway.file("before.json").contains(KEY));
    assert!(!gateway.file("after.json").contains(KEY));
    assert_eq!(
        upstream.only_request().json()["contents"][0]["parts"][0]["text"],
        "[REDACTED:aws_key]"
    );
    assert_eq!(text_of(&[answer.json()]), "again [REDACTED:aws_key]");
}

#[tokio::test]
async fn equal_secrets_have_equal_hashes() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email], patterns: { ticket: 'TCK-[0-9]{6}' }, action: hash, key: { file: key.txt } }]\n";
    let gateway =
        TestGateway::with_files(&upstream, config, &[("key.txt", "0123456789abcdef")]).await;

    let text = "TCK-123456 TCK-123456 TCK-654321 jo@example.com";
    gateway.agent().generate(MODEL, &prompt(text)).await;

    let sent = upstream.only_request().json()["contents"][0]["parts"][0]["text"].clone();
    let labels: Vec<&str> = sent.as_str().unwrap().split(' ').collect();
    assert!(
        labels[0].starts_with("[REDACTED:ticket:") && labels[3].starts_with("[REDACTED:email:")
    );
    assert_eq!(labels[0], labels[1]);
    assert_ne!(labels[0], labels[2]);
    assert_eq!(labels[0].len(), "[REDACTED:ticket:]".len() + 12);
}

#[tokio::test]
async fn action_deny_refuses_requests_and_responses_with_secrets() {
    let upstream = Upstream::answering(&response_of(&["first ", &format!("it is {KEY}")])).await;
    let config = "policies: [{ policy: redact, detect: [aws_key, email], action: deny }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let refused = gateway
        .agent()
        .generate(MODEL, &prompt("I am jo@example.com"))
        .await;
    assert_eq!(text_of(&[refused.json()]), "Not allowed here: email.");
    assert!(upstream.requests().is_empty());
    for answer in [
        gateway.agent().generate(MODEL, &prompt("go")).await,
        gateway.agent().stream(MODEL, &prompt("go")).await,
    ] {
        assert!(!answer.text().contains("AKIA"), "{}", answer.text());
        assert!(answer.text().contains("Not allowed here: aws_key."));
    }
}

#[tokio::test]
async fn reported_calls_and_results_are_masked() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let before = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "to": "jo@example.com", "cmd": r"mail jo\u0040example.com", "n": 1 } });
    let after = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {}, "tool_response": { "llmContent": format!("key {KEY}"), "returnDisplay": "" } });
    let clean = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {}, "tool_response": { "llmContent": "ok" } });
    let report = async |event: &Value| gateway.agent().report(event, "").await.json();

    let edited = report(&before).await;
    assert_eq!(
        edited["hookSpecificOutput"]["tool_input"],
        json!({ "to": "[REDACTED:email]", "cmd": "mail [REDACTED:email]", "n": 1 })
    );
    let replaced = report(&after).await;
    assert_eq!(replaced["decision"], "deny");
    assert_eq!(replaced["reason"], "key [REDACTED:aws_key]");
    assert_eq!(report(&clean).await, json!({}));
}

/// The prompt is searched without the texts that hooks add: they are masked.
#[tokio::test]
async fn a_secret_that_a_hook_adds_to_a_prompt_denies_no_turn() {
    let upstream = Upstream::mock().await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "ask jo@example.com" } });
    let hooks = hook::config(&[("BeforeAgent", hook::printing("context", &context))]);
    let config = format!("policies: [{{ policy: redact, action: deny }}]\n{hooks}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let report = async |prompt: &str| {
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": prompt });
        gateway.agent().report(&event, "").await.json()
    };

    let clean = report("hello").await;
    let denied = report("I am ann@example.com").await;

    let added = &clean["hookSpecificOutput"]["additionalContext"];
    assert_eq!(*added, "ask [REDACTED:email]", "{clean}");
    assert_eq!(clean.get("decision"), None, "{clean}");
    assert_eq!(denied["decision"], "deny");
}

#[tokio::test]
async fn a_reported_response_is_masked_after_hooks_edit_it() {
    let upstream = Upstream::mock().await;
    let edit = hook::response(&json!({ "text": format!("again {KEY}") }));
    let hooks = hook::config(&[("AfterModel", hook::printing("after", &edit))]);
    let gateway = TestGateway::start(&upstream, &format!("{MASK}{hooks}")).await;
    let event = json!({
        "hook_event_name": "AfterModel",
        "llm_request": { "model": MODEL, "messages": [] },
        "llm_response": { "candidates": [{ "content": { "role": "model", "parts": ["jo@example.com"] } }] },
    });

    let output = gateway.agent().report(&event, "").await.json();

    let answer = &output["hookSpecificOutput"]["llm_response"];
    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!(["again [REDACTED:aws_key]"]));
}
