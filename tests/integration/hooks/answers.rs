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

/// Upstream with these chunks, as a stream and merged as one answer.
async fn upstream_of(whole: &Value, chunks: &Value) -> Upstream {
    let line = |method, response| json!({ "method": method, "response": response }).to_string();
    let script = [
        line("generateContent", whole),
        line("generateContentStream", chunks),
    ];
    Upstream::scripted(&script.join("\n")).await
}

#[tokio::test]
async fn a_changed_text_has_no_copy_in_fields_beside_it() {
    let metadata = json!({
        "groundingChunks": [{ "web": { "uri": "https://source.test" } }],
        "groundingSupports": [{ "segment": { "text": "secret" } }],
    });
    let candidate = |text: &str| {
        let tokens = json!({ "chosenCandidates": [{ "token": text }] });
        let content = json!({ "role": "model", "parts": [{ "text": text }] });
        json!({ "content": content, "index": 0, "logprobsResult": tokens })
    };
    let mut last = candidate("");
    last["groundingMetadata"] = metadata.clone();
    last["finishReason"] = "STOP".into();
    let mut whole = candidate("secret");
    whole["groundingMetadata"] = metadata;
    let chunks = json!([{ "candidates": [candidate("secret")] }, { "candidates": [last] }]);
    for after_model in ["chunk", "buffered"] {
        let upstream = upstream_of(&json!({ "candidates": [whole] }), &chunks).await;
        let command = format!("input=$(cat); {}", on_secret(&masked()));
        let hooks = hook::config(&[("AfterModel", hook::command("after", &command))]);
        let config = format!("{hooks}after_model: {after_model}\n");
        let gate = TestGateway::start(&upstream, &config).await;

        let unary = gate.agent().generate(MODEL, &prompt("hello")).await;
        let stream = gate.agent().stream(MODEL, &prompt("hello")).await;

        for answer in [unary.text(), stream.text()] {
            assert!(!answer.contains("secret"), "{after_model}: {answer}");
            assert!(answer.contains("[x]") && answer.contains("source.test"));
        }
    }
}

/// The texts and the finish reason of a candidate.
fn candidate(chunks: &[Value], index: u64) -> (String, Value) {
    let candidates = chunks
        .iter()
        .flat_map(|chunk| chunk["candidates"].as_array().unwrap());
    let (mut text, mut end) = (String::new(), Value::Null);
    for candidate in candidates.filter(|candidate| candidate["index"] == index) {
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            text.push_str(part["text"].as_str().unwrap_or_default());
        }
        if let Some(reason) = candidate.get("finishReason") {
            end = reason.clone();
        }
    }
    (text, end)
}

#[tokio::test]
async fn a_denied_call_is_explained_in_a_paragraph_of_each_candidate() {
    let text = |index: u64| json!({ "content": { "role": "model", "parts": [{ "text": "a" }] }, "index": index });
    let call = |index: u64| {
        let parts = json!([{ "functionCall": { "name": "rm", "args": {} } }]);
        json!({ "content": { "role": "model", "parts": parts }, "index": index, "finishReason": "STOP" })
    };
    let whole = |index: u64| {
        let mut whole = call(index);
        whole["content"]["parts"] =
            json!([{ "text": "a" }, { "functionCall": { "name": "rm", "args": {} } }]);
        whole
    };
    let chunks = json!([
        { "candidates": [text(0), text(1)] },
        { "candidates": [call(0)] },
        { "candidates": [call(1)] },
    ]);
    let whole = json!({ "candidates": [whole(0), whole(1)] });
    let upstream = upstream_of(&whole, &chunks).await;
    let config = "policies: [{ policy: tool_guard, deny: [rm], reason: no }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "rm" }] }]);

    let unary = gate.agent().generate(MODEL, &body).await.json();
    let stream = gate.agent().stream(MODEL, &body).await.events();

    let explained = ("a\n\nTool execution blocked: no".to_owned(), json!("STOP"));
    for chunks in [vec![unary], stream] {
        for index in [0, 1] {
            assert_eq!(candidate(&chunks, index), explained, "{index} {chunks:?}");
        }
    }
}

#[tokio::test]
async fn a_denial_in_a_stream_ends_all_candidates() {
    let text = |index: u64, text: &str| json!({ "content": { "role": "model", "parts": [{ "text": text }] }, "index": index });
    let chunks = json!([
        { "candidates": [text(0, "a "), text(1, "b ")] },
        { "candidates": [text(0, "secret")] },
        { "candidates": [text(1, "c")] },
    ]);
    let upstream = upstream_of(&json!({}), &chunks).await;
    let config = "policies: [{ policy: redact, detect: [], patterns: { s: secret }, action: deny, reason: no }]\n";
    let gate = TestGateway::start(&upstream, config).await;

    let stream = gate.agent().stream(MODEL, &prompt("hello")).await.events();

    let ends = [0, 1].map(|index| candidate(&stream, index).1);
    assert_eq!(ends, ["STOP", "STOP"], "{stream:?}");
    assert!(candidate(&stream, 0).0.ends_with("no"));
}

/// Chunk with one part of one candidate.
fn chunk_of(index: u64, part: &Value) -> Value {
    let content = json!({ "role": "model", "parts": [part] });
    json!({ "candidates": [{ "content": content, "index": index }] })
}

#[tokio::test]
async fn each_explanation_of_a_denied_call_is_a_paragraph() {
    let call = json!({ "functionCall": { "name": "rm", "args": {} } });
    let mut end = chunk_of(0, &json!({ "text": "Done" }));
    end["candidates"][0]["finishReason"] = "STOP".into();
    let chunks = json!([
        chunk_of(1, &json!({ "text": "b" })),
        chunk_of(0, &call),
        chunk_of(0, &call),
        end,
    ]);
    let upstream = upstream_of(&json!({}), &chunks).await;
    let config = "policies: [{ policy: tool_guard, deny: [rm], reason: no }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "rm" }] }]);

    let stream = gate.agent().stream(MODEL, &body).await.events();

    let blocked = "Tool execution blocked: no";
    assert_eq!(
        candidate(&stream, 0).0,
        format!("{blocked}\n\n{blocked}\n\nDone")
    );
    assert_eq!(candidate(&stream, 1).0, "b");
}

#[tokio::test]
async fn a_second_answer_starts_a_paragraph_of_each_candidate() {
    let chunk = |index, text: &str| chunk_of(index, &json!({ "text": text }));
    let chunks = json!([chunk(1, "b"), chunk(0, "a"), chunk(1, "B"), chunk(0, "A")]);
    let line = json!({ "method": "generateContentStream", "response": chunks }).to_string();
    let upstream = Upstream::scripted(&format!("{line}\n{line}")).await;
    let reject = "grep -q '\"stop_hook_active\":true' || { echo again >&2; exit 2; }";
    let hooks = hook::config(&[("AfterAgent", hook::command("after", reject))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let stream = gate.agent().stream(MODEL, &prompt("hello")).await.events();

    assert_eq!(candidate(&stream, 0).0, "aA\n\naA");
    assert_eq!(candidate(&stream, 1).0, "bB\n\nbB");
}

#[tokio::test]
async fn safety_ratings_that_a_hook_returns_as_shown_keep_all_fields() {
    let rating = json!({
        "category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE",
        "probabilityScore": 0.1, "severity": "HARM_SEVERITY_NEGLIGIBLE", "severityScore": 0.2,
    });
    let content = json!({ "role": "model", "parts": [{ "text": "hi" }] });
    let sent = json!({ "candidates": [{
        "content": content, "finishReason": "STOP", "index": 0, "safetyRatings": [rating],
    }] });
    let upstream = Upstream::answering(&sent).await;
    let hooks = hook::config(&[("AfterModel", hook::returning("echo", "llm_response"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.json(), sent);
    assert_eq!(answer.header("x-hookgate-action"), "pass");
}

#[tokio::test]
async fn a_misspelled_token_count_of_a_hook_is_ignored() {
    let counts = json!({ "prompt_token_count": 5, "PromptTokenCount": 6 });
    let edit = |text: &str| hook::response(&json!({ "text": text, "usageMetadata": counts }));
    let content = json!({ "role": "model", "parts": [{ "text": "model" }] });
    let sent = json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 1, "totalTokenCount": 2 },
    });
    let upstream = Upstream::answering(&sent).await;
    for (event, text, count) in [("AfterModel", "edited", 1), ("BeforeModel", "own", 0)] {
        let hooks = hook::config(&[(event, hook::printing("hook", &edit(text)))]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_eq!(answer.status, 200, "{event}: {}", answer.text());
        let answer = answer.json();
        assert_eq!(texts(std::slice::from_ref(&answer)), [text], "{event}");
        assert_eq!(answer["usageMetadata"]["promptTokenCount"], count);
        assert!(answer["usageMetadata"].get("prompt_token_count").is_none());
    }
}
