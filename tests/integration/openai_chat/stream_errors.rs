//! Errors of the model API in a stream, which end it.

use serde_json::json;

use super::{Form, ask, chat, event, gateway, upstream_sending};
use crate::harness::hook;

const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";

#[tokio::test]
async fn a_masked_error_is_sent_and_ends_the_stream() {
    let text = event(&json!({ "role": "assistant", "content": "Hello there. " }));
    let error = json!({ "error": { "message": format!("boom {SECRET}"), "code": 500 } });
    let upstream = upstream_sending(&[text, error]).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    let text = answer.text();
    assert!(text.contains("Hello there."), "{text}");
    let last = r#"data: {"error":{"message":"boom [REDACTED:aws_key]","code":500}}"#;
    assert_eq!(text.trim_end().lines().last(), Some(last), "{text}");
}

#[tokio::test]
async fn calls_in_front_of_an_error_are_neither_decided_nor_sent() {
    let function = json!({ "name": "bad", "arguments": "{\"p\":" });
    let call = json!({ "index": 0, "id": "c", "type": "function", "function": function });
    let error = json!({ "error": { "message": "boom", "code": 500 } });
    let events = [event(&json!({ "tool_calls": [call] })), error.clone()];
    let upstream = upstream_sending(&events).await;
    let deny = hook::config(&[("BeforeTool", hook::denying("guard", "no"))]);
    let gate = gateway(&upstream, &deny).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert_eq!(answer.text().trim_end(), format!("data: {error}"));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_error_ends_a_buffered_stream_that_is_masked() {
    let text = event(&json!({ "role": "assistant", "content": SECRET }));
    let error = json!({ "error": { "message": format!("boom {SECRET}"), "code": 500 } });
    let upstream = upstream_sending(&[text, error]).await;
    let config = "policies: [{ policy: redact }]\nafter_model: buffered\n";
    let gate = gateway(&upstream, config).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    let text = answer.text();
    let last = r#"data: {"error":{"message":"boom [REDACTED:aws_key]","code":500}}"#;
    assert_eq!(text.trim_end().lines().last(), Some(last), "{text}");
    assert!(!text.contains(r#""finish_reason":"stop""#), "{text}");
}
