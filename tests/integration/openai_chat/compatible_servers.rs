//! Answers in the forms of compatible servers, which differ from those of OpenAI.

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{
    Form, ask, chat, choices, event, events, finish_reason, gateway, text, upstream_sending,
};
use crate::harness::{Answer, Upstream, hook, respond};

const REDACT: &str = "policies: [{ policy: redact, detect: [email] }]\n";

/// An event that ends the first choice.
fn end(reason: &str) -> Value {
    let mut end = event(&json!({}));
    end["choices"][0]["finish_reason"] = reason.into();
    end
}

/// Asks for a stream of which the model API sends these events.
async fn stream(config: &str, sent: &[Value]) -> Answer {
    let upstream = upstream_sending(sent).await;
    let gate = gateway(&upstream, config).await;
    ask(&gate, Form::Stream, &chat("hi")).await
}

#[tokio::test]
async fn thoughts_in_blocks_are_masked_across_pieces() {
    let thinking = |text: &str| {
        let texts = json!([{ "type": "text", "text": text }]);
        event(&json!({ "content": [{ "type": "thinking", "thinking": texts }] }))
    };
    let sent = [
        event(&json!({ "role": "assistant", "content": "" })),
        thinking("mail a@"),
        thinking("example.com or b@"),
        thinking("example.com"),
        event(&json!({ "content": "done" })),
        end("stop"),
    ];
    for mode in ["", "after_model: buffered\n"] {
        let answer = stream(&format!("{REDACT}{mode}"), &sent).await;

        let mut thoughts = String::new();
        let mut texts = String::new();
        for choice in choices(Form::Stream, &answer) {
            let delta = &choice["delta"];
            thoughts += delta["reasoning_content"].as_str().unwrap_or_default();
            texts += delta["content"].as_str().unwrap_or_default();
            for block in delta["content"].as_array().into_iter().flatten() {
                texts += block["text"].as_str().unwrap_or_default();
                for text in block["thinking"].as_array().into_iter().flatten() {
                    assert!(mode.is_empty(), "{block}");
                    thoughts += text["text"].as_str().unwrap();
                }
            }
        }
        assert_eq!(
            thoughts, "mail [REDACTED:email] or [REDACTED:email]",
            "{mode}"
        );
        assert_eq!(texts, "done", "{mode}");
    }
}

#[tokio::test]
async fn blocks_of_thoughts_stay_if_nothing_is_masked() {
    let thinking = json!({ "type": "thinking", "closed": true,
        "thinking": [{ "type": "text", "text": "a " }, { "type": "text", "text": "b " }] });
    let piece = event(&json!({ "content": [thinking] }));
    let answer = stream(REDACT, &[piece.clone(), end("stop")]).await;
    assert_eq!(events(&answer), [piece, end("stop")]);
}

#[tokio::test]
async fn thoughts_in_the_blocks_of_a_whole_answer_are_masked() {
    let thinking = json!({ "type": "thinking", "signature": "s",
        "thinking": [{ "type": "text", "text": "mail a@" }, { "type": "text", "text": "b.example" }] });
    let message =
        json!({ "role": "assistant", "content": [thinking, { "type": "text", "text": "c" }] });
    let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    let body = body.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", body.clone())).await;
    let gate = gateway(&upstream, REDACT).await;

    let answer = ask(&gate, Form::Whole, &chat("hi")).await;

    let expected = json!([
        { "type": "thinking", "signature": "s",
          "thinking": [{ "type": "text", "text": "mail [REDACTED:email]" }] },
        { "type": "text", "text": "c" },
    ]);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], expected);
}

#[tokio::test]
async fn thoughts_are_masked_across_pieces_whatever_their_name() {
    for name in ["reasoning", "reasoning_content", "reasoning_text"] {
        let piece = |text: &str| {
            let mut delta = Value::Null;
            delta[name] = text.into();
            event(&delta)
        };
        let sent = [piece("mail a@"), piece("example.com"), end("stop")];
        let answer = stream(REDACT, &sent).await;

        let choices = choices(Form::Stream, &answer);
        let thoughts = choices.iter().map(|choice| &choice["delta"][name]);
        let thoughts: String = thoughts.filter_map(Value::as_str).collect();
        assert_eq!(thoughts, "mail [REDACTED:email]", "{name}");
    }
}
