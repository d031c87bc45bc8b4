//! `AfterModel` hooks: edits and denials of answers.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt};

/// Upstream script with one answer of three chunks for each framing.
fn script() -> String {
    let chunk = |text| {
        json!({ "candidates": [{
            "content": { "role": "model", "parts": [{ "text": text }] }, "index": 0,
        }], "responseId": "r" })
    };
    let chunks = json!(["one ", "secret ", "three"].map(chunk));
    let line = |method, response| json!({ "method": method, "response": response }).to_string();
    [
        line("generateContent", chunk("one secret three")),
        line("generateContentStream", chunks.clone()),
        line("generateContentStream", chunks),
    ]
    .join("\n")
}

/// Gateway with an `AfterModel` hook that runs this command; its input is in `$input`.
async fn start(command: &str, more: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::scripted(&script()).await;
    let command = format!("input=$(cat); echo \"$input\" >> seen; {command}");
    let hooks = hook::config(&[("AfterModel", hook::command("after", &command))]);
    let gate = TestGateway::start(&upstream, &(hooks + more)).await;
    (upstream, gate)
}

/// Command that prints this output if the answer contains `secret`.
fn on_secret(output: &Value) -> String {
    format!("case ${{input#*llm_response}} in *secret*) echo '{output}';; esac")
}

fn masked() -> Value {
    hook::response(&json!({ "candidates": [{ "content": { "parts": ["[x]"] } }] }))
}

fn denial() -> Value {
    json!({ "decision": "deny", "reason": "not that" })
}

/// The text of each chunk.
fn texts(chunks: &[Value]) -> Vec<&str> {
    let parts = chunks
        .iter()
        .map(|chunk| &chunk["candidates"][0]["content"]["parts"]);
    let texts = parts.map(|array| {
        assert_eq!(array.as_array().unwrap().len(), 1, "{array}");
        array[0]["text"].as_str().unwrap()
    });
    texts.collect()
}

#[tokio::test]
async fn each_chunk_is_replaced_separately() {
    let (_upstream, gate) = start(&on_secret(&masked()), "").await;
    let (agent, body) = (gate.agent(), prompt("hello"));

    let unary = agent.generate(MODEL, &body).await;
    let stream = agent.stream(MODEL, &body).await;
    let array = agent.array(MODEL, &body).await;

    assert_eq!(texts(&[unary.json()]), ["[x]"]);
    assert_eq!(unary.header("x-hookgate-action"), "edit");
    assert_eq!(texts(&stream.events()), ["one ", "[x]", "three"]);
    let array = array.json();
    assert_eq!(texts(array.as_array().unwrap()), ["one ", "[x]", "three"]);
    assert_eq!(unary.json()["responseId"], "r");
}

#[tokio::test]
async fn a_denied_chunk_is_the_last_one() {
    let (_upstream, gate) = start(&on_secret(&denial()), "denials: error").await;
    let body = prompt("hello");

    let stream = gate.agent().stream(MODEL, &body).await;
    let array = gate.agent().array(MODEL, &body).await;

    for chunks in [stream.events(), array.json().as_array().unwrap().clone()] {
        assert_eq!(texts(&chunks), ["one ", "\n\nnot that"]);
        assert_eq!(chunks[1]["candidates"][0]["finishReason"], "STOP");
        assert_eq!(chunks[1]["modelVersion"], MODEL);
    }
    let seen = gate.file("seen");
    assert_eq!(seen.lines().count(), 4, "the third chunk is not inspected");
}

#[tokio::test]
async fn a_denied_answer_is_a_model_message_or_an_error_as_configured() {
    for (denials, status) in [("message", 200), ("error", 403)] {
        let more = format!("denials: {denials}");
        let (_upstream, gate) = start(&on_secret(&denial()), &more).await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(!answer.text().contains("secret"));
        assert!(answer.text().contains("not that"));
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
}

#[tokio::test]
async fn a_stop_ends_the_stream_with_its_reason() {
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let (_upstream, gate) = start(&on_secret(&stop), "").await;

    let stream = gate.agent().stream(MODEL, &prompt("hello")).await;

    assert_eq!(texts(&stream.events()), ["one ", "\n\nenough"]);
}

#[tokio::test]
async fn a_hook_sees_the_request_as_sent_and_the_answer_in_order() {
    let upstream = Upstream::scripted(&script()).await;
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "edited" }] }));
    let hooks = hook::config(&[
        ("BeforeModel", hook::printing("before", &edit)),
        (
            "AfterModel",
            hook::command("after", "cat >> seen; echo >> seen"),
        ),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    gate.agent().stream(MODEL, &prompt("hello")).await;

    let seen = gate.file("seen");
    let seen: Vec<Value> = seen
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts: Vec<&Value> = seen
        .iter()
        .map(|input| &input["llm_response"]["text"])
        .collect();
    assert_eq!(texts, ["one ", "secret ", "three"]);
    for input in &seen {
        assert_eq!(input["hook_event_name"], "AfterModel");
        assert_eq!(input["llm_request"]["messages"][0]["content"], "edited");
    }
}

#[tokio::test]
async fn a_buffered_answer_is_inspected_once_and_passes_unchanged() {
    let (_upstream, gate) = start("echo '{}'", "after_model: buffered").await;

    let stream = gate.agent().stream(MODEL, &prompt("hello")).await;

    assert_eq!(texts(&stream.events()), ["one ", "secret ", "three"]);
    let seen = gate.json("seen");
    assert_eq!(seen["llm_response"]["text"], "one secret three");
}

#[tokio::test]
async fn a_buffered_answer_is_replaced_as_a_whole() {
    let (_upstream, gate) = start(&on_secret(&masked()), "after_model: buffered").await;
    let body = prompt("hello");

    let stream = gate.agent().stream(MODEL, &body).await;
    let array = gate.agent().array(MODEL, &body).await;

    assert_eq!(texts(&stream.events()), ["[x]"]);
    assert_eq!(texts(array.json().as_array().unwrap()), ["[x]"]);
}

#[tokio::test]
async fn no_part_of_a_denied_buffered_answer_is_sent() {
    let (_upstream, gate) = start(&on_secret(&denial()), "after_model: buffered").await;

    let stream = gate.agent().stream(MODEL, &prompt("hello")).await;

    assert_eq!(texts(&stream.events()), ["not that"]);
}

#[tokio::test]
async fn an_upstream_error_is_not_inspected() {
    let upstream = Upstream::scripted("").await;
    let hooks = hook::config(&[("AfterModel", hook::printing("after", &denial()))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["status"], "INVALID_ARGUMENT");
    assert_eq!(gate.file("after.json"), "");
}

#[tokio::test]
async fn a_denial_of_the_first_chunk_is_an_error_if_denials_are_errors() {
    let hooks = hook::config(&[("AfterModel", hook::printing("after", &denial()))]);
    let upstream = Upstream::scripted(&script()).await;
    let gate = TestGateway::start(&upstream, &format!("{hooks}denials: error\n")).await;

    let unary = gate.agent().generate(MODEL, &prompt("go")).await;
    let streamed = gate.agent().stream(MODEL, &prompt("go")).await;

    assert_eq!((unary.status, streamed.status), (403, 403));
    assert_eq!(streamed.json()["error"]["message"], "not that");
}
