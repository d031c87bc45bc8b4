//! Ambiguous, malformed or uninspectable requests and events, which are not forwarded.

use super::{PATH, gateway};
use crate::harness::Upstream;

#[tokio::test]
async fn ambiguous_or_uninspectable_requests_are_refused() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    for body in [
        r#"{"model":"m","messages":[],"messages":[]}"#,
        r#"{"model":"m","messages":[],"mess\u0061ges":[]}"#,
        r#"{"model":"m","Messages":[]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"a","CONTENT":"b"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"a","content":"b"}]}"#,
        r#"{"model":"m","messages":[{"role":"model","content":"a"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":{"text":"a"}}]}"#,
        r#"{"model":"m","messages":[],"prompt":"a"}"#,
        r#"{"model":"m","messages":[],"input":"a"}"#,
        r#"{"model":"m","messages":[],"previous_response_id":"a"}"#,
        r#"{"model":"m","messages":[],"conversation":"a"}"#,
        r#"{"model":"m","messages":[],"models":[{"name":"n"}]}"#,
        r#"{"model":"m","messages":[],"fallbacks":"n"}"#,
        r#"{"model":"m","messages":[],"tools":[],"functions":[]}"#,
        r#"{"model":"m","messages":[],"tool_choice":"none","function_call":"auto"}"#,
        r#"{"model":"m","messages":[],"max_tokens":1,"max_completion_tokens":9}"#,
        r#"{"model":"m","messages":[],"stream":"true"}"#,
        r#"{"model":"m","messages":[],"stream":1}"#,
        r#"{"model":"m","messages":[],"modalities":["audio"]}"#,
        r#"{"model":"m","messages":[],"toolChoice":"none"}"#,
        r#"{"model":"a b","messages":[]}"#,
        r#"{"model":"../m","messages":[]}"#,
        r#"{"messages":[]}"#,
    ] {
        let answer = gate.agent().post(PATH, body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        assert!(error["code"].is_string());
    }
    for path in [
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v2/chat/completions",
    ] {
        let answer = gate
            .agent()
            .post(path, r#"{"model":"m","messages":[]}"#)
            .await;
        assert_ne!(answer.status, 200, "{path}");
    }
    let query = format!("{PATH}?stream=true");
    let answer = gate
        .agent()
        .post(&query, r#"{"model":"m","messages":[]}"#)
        .await;
    assert_eq!(answer.status, 400);
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn malformed_events_are_not_forwarded_and_truncate_the_stream() {
    use crate::harness::respond;
    for event in [
        r#"{"choices":[{"index":0,"delta":{"content":["a"]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"Content":"a"}}]}"#,
        r#"{"choices":"a"}"#,
        "a",
    ] {
        let stream = format!("data: {event}\n\ndata: [DONE]\n\n");
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
        let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
        let body = r#"{"model":"m","messages":[],"stream":true}"#;
        let mut answer = gate.agent().open(PATH, body).await;
        let mut received = Vec::new();
        while let Ok(Some(piece)) = answer.chunk().await {
            received.extend(piece);
        }
        let received = String::from_utf8_lossy(&received);
        assert!(
            !received.contains("\"a\"") && !received.contains("[DONE]"),
            "{received}"
        );
    }
}
