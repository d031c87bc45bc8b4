//! Texts of a stream that end in front of another part.

use serde_json::{Value, json};

use super::{
    KEY, MASK, MODEL,
    responses::{candidate, chunk},
    sse_response,
};
use crate::{
    families::family::{Family, Turn, events},
    harness::{Answer, TestGateway, Upstream, prompt, respond},
};

/// The parts of a stream of the Gemini API, each in a chunk of its own.
async fn gemini_parts(config: &str, parts: &[Value]) -> Vec<Value> {
    let mut chunks: Vec<Value> = parts
        .iter()
        .map(|part| chunk(&candidate(&json!([part]), &json!({}))))
        .collect();
    chunks.push(chunk(&json!({ "finishReason": "STOP", "index": 0 })));
    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let gateway = TestGateway::start(&upstream, config).await;
    let answer = gateway.agent().stream(MODEL, &prompt("go")).await;
    let candidates = answer.events().into_iter();
    let parts = candidates.flat_map(|event| {
        let parts = event["candidates"][0]["content"]["parts"].clone();
        parts.as_array().cloned().unwrap_or_default()
    });
    let mut joined: Vec<Value> = Vec::new();
    for part in parts {
        let is_next = joined
            .last()
            .is_none_or(|last| last["thought"] != part["thought"]);
        let last = joined.last_mut().and_then(|last| last.get_mut("text"));
        match (last, part["text"].as_str()) {
            (Some(Value::String(last)), Some(text)) if !is_next => last.push_str(text),
            (_, Some("")) => (),
            _ => joined.push(part),
        }
    }
    joined
}

#[tokio::test]
async fn a_text_of_a_stream_ends_in_front_of_the_next_part_of_another_kind() {
    let others = [
        json!({ "executableCode": { "language": "PYTHON", "code": "1" } }),
        json!({ "inlineData": { "mimeType": "image/png", "data": "aaaa" } }),
        json!({ "functionCall": { "name": "look", "args": { "x": "y" } } }),
        json!({ "text": "Hm. ", "thought": true }),
        json!({ "newPart": { "n": 1 } }),
    ];
    let masked = "k [REDACTED:aws_key]";
    let texts = [
        (
            ["Here is a cat", "and a dog"],
            ["Here is a cat", "and a dog"],
        ),
        (["k AKIAIOSFODNN7EXAMPLE", "Anything"], [masked, "Anything"]),
        (
            ["Your key is", "AKIAIOSFODNN7EXAMPLE x"],
            ["Your key is", "[REDACTED:aws_key] x"],
        ),
        // The first half has been sent.
        (
            ["k AKIAIOSF", "ODNN7EXAMPLE b"],
            ["k AKIAIOSF", "[REDACTED:aws_key] b"],
        ),
    ];
    for other in &others {
        for (sent, expected) in &texts {
            let parts = |texts: &[&str; 2]| {
                let [first, next] = texts.map(|text| json!({ "text": text }));
                vec![first, other.clone(), next]
            };
            let received = gemini_parts(MASK, &parts(sent)).await;
            assert_eq!(json!(received), json!(parts(expected)));
        }
    }
}

#[tokio::test]
async fn a_text_of_a_chunk_with_other_parts_stays_in_its_place() {
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let text = |text: &str| json!({ "text": text });
    let parts = |key: &str| json!([text(&format!("k {key}")), code, text("Anything ")]);
    let stop = json!({ "finishReason": "STOP" });
    for (count, finish) in [(3, json!({})), (2, stop.clone())] {
        let mut chunks = vec![
            chunk(&candidate(&json!([text("Hi. ")]), &json!({}))),
            chunk(&candidate(&parts(KEY), &finish)),
            chunk(&candidate(&json!([text(".")]), &stop)),
        ];
        chunks.truncate(count);
        let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
        let gateway = TestGateway::start(&upstream, MASK).await;

        let answer = gateway.agent().stream(MODEL, &prompt("go")).await;

        let received = answer.events();
        let content = &received[1]["candidates"][0]["content"]["parts"];
        assert_eq!(*content, parts("[REDACTED:aws_key]"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_text_of_a_completion_ends_in_front_of_a_refusal_or_block() {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let reference = json!({ "content": [{ "type": "reference", "reference_ids": [1] }] });
    let key = format!("k {KEY}");
    for config in [MASK, "policies: [{ policy: redact, detect: [aws_key] }]\n"] {
        for (deltas, expected) in [
            (
                vec![json!({ "content": key }), json!({ "refusal": "Anything" })],
                json!({ "content": "k [REDACTED:aws_key]", "refusal": "Anything" }),
            ),
            (
                vec![
                    json!({ "content": "Your key is" }),
                    json!({ "refusal": format!("{KEY} x") }),
                ],
                json!({ "content": "Your key is", "refusal": "[REDACTED:aws_key] x" }),
            ),
            (
                vec![text(&key), reference.clone(), text("Anything")],
                json!({ "content": "k [REDACTED:aws_key]#Anything", "refusal": "" }),
            ),
        ] {
            for choice in [0, 1] {
                let body = chat_events(choice, &deltas);
                let upstream =
                    Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
                let gateway = Family::Chat.gateway(&upstream, config).await;

                let answer = Family::Chat.ask(&gateway, true, &[Turn::User("hi")]).await;

                assert_eq!(chat_texts(choice, &answer), expected, "{}", answer.text());
            }
        }
    }
}

fn chat_events(choice: u64, deltas: &[Value]) -> String {
    let event = |delta: &Value, reason: Value| {
        let choice = json!({ "index": choice, "delta": delta, "finish_reason": reason });
        let event = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "m", "choices": [choice] });
        format!("data: {event}\n\n")
    };
    let events: String = deltas
        .iter()
        .map(|delta| event(delta, Value::Null))
        .collect();
    format!(
        "{events}{}data: [DONE]\n\n",
        event(&json!({}), json!("stop"))
    )
}

/// The content and the refusal of a choice, with `#` for each block that is no text.
fn chat_texts(choice: u64, answer: &Answer) -> Value {
    let (mut content, mut refusal) = (String::new(), String::new());
    for (_, data) in events(answer) {
        let event: Value = serde_json::from_str(&data).unwrap_or_default();
        let listed = event["choices"].as_array().cloned().unwrap_or_default();
        for listed in listed.iter().filter(|listed| listed["index"] == choice) {
            let delta = &listed["delta"];
            refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
            content.push_str(delta["content"].as_str().unwrap_or_default());
            for block in delta["content"].as_array().into_iter().flatten() {
                content.push_str(block["text"].as_str().unwrap_or("#"));
            }
        }
    }
    json!({ "content": content, "refusal": refusal })
}
