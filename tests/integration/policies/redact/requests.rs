//! Requests with texts in unusual places.

use serde_json::{Value, json};

use super::{KEY, MASK, MODEL};
use crate::harness::{TestGateway, Upstream};

fn parts(parts: &Value) -> Value {
    json!({ "contents": [{ "role": "user", "parts": parts }] })
}

/// Requests that say a secret, and where.
fn hiding() -> Vec<(&'static str, Value)> {
    let said = json!([{ "role": "user", "parts": [{ "text": KEY }] }]);
    let content = json!({ "parts": [{ "text": "a" }] });
    let counted = [
        json!({ "generateContentRequest": null, "contents": said }),
        json!({ "generateContentRequest": { "contents": [] }, "contents": said }),
        json!({ "generate_content_request": { "system_instruction": said[0] } }),
    ];
    let embedded = [
        json!({ "title": KEY, "content": content }),
        json!({ "content": content, "embedContentConfig": { "title": KEY } }),
    ];
    let batch = json!({ "requests": [{ "title": KEY, "content": content }] });
    let generated = [
        json!({ "thought": KEY }),
        json!({ "text": KEY, "functionCall": { "name": "f", "args": { "a": KEY } } }),
        json!({ "function_call": { "name": "f", "args": KEY } }),
        json!({ "functionCall": { "name": "f", "partialArgs": [{ "stringValue": KEY }] } }),
        json!({ "function_response": { "name": "f", "response": [[{ KEY: 1 }]] } }),
        json!({ "functionResponse": { "name": "f", "parts": [{ "text": KEY }], "extra": KEY } }),
        json!({ "toolResponse": { "response": { "a": KEY } } }),
    ];
    let system = json!({ "systemInstruction": { "role": "x", "text": KEY }, "contents": [] });
    let mut all = vec![("batchEmbedContents", batch), ("generateContent", system)];
    all.extend(counted.map(|it| ("countTokens", it)));
    all.extend(embedded.map(|it| ("embedContent", it)));
    all.extend(generated.map(|it| ("generateContent", parts(&json!([it])))));
    all
}

#[tokio::test]
async fn no_place_in_a_request_hides_a_secret() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;

    for (operation, body) in hiding() {
        let path = format!("/v1beta/models/{MODEL}:{operation}");
        let answer = gate.agent().post(&path, body.to_string()).await;
        assert_eq!(answer.header("x-hookgate-action"), "edit", "{body}");
        let sent = upstream.seen().pop().unwrap().body;
        assert!(!sent.contains(KEY), "{sent}");
        assert!(sent.contains("[REDACTED:aws_key]"), "{sent}");
    }
}

#[tokio::test]
async fn a_secret_is_known_behind_escapes_and_a_prefix() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;
    let path = format!("/s/one/v1beta/models/{MODEL}:streamGenerateContent");
    let body = r#"{"contents":[{"parts":[{"text":"\u0041KIA\u0049OSFODNN7EXAMPLE"}]}]}"#;

    gate.agent().post(&path, body).await;

    let sent = upstream.only().json();
    assert_eq!(
        sent["contents"][0]["parts"][0]["text"],
        "[REDACTED:aws_key]"
    );
}

#[tokio::test]
async fn media_signatures_and_names_stay() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;
    let media = json!({ "inlineData": { "mimeType": "image/png", "data": KEY } });
    let body = parts(&json!([
        media,
        { "functionCall": { "id": KEY, "name": KEY, "args": {} }, "thoughtSignature": KEY },
        { "functionResponse": { "id": KEY, "name": KEY, "response": {}, "parts": [media] } },
    ]));

    gate.agent().generate(MODEL, &body).await;

    assert_eq!(upstream.only().json(), body);
}

#[tokio::test]
async fn what_cannot_be_looked_into_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASK).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let deep = format!("{}\"{KEY}\"{}", "[".repeat(200), "]".repeat(200));
    let said = format!(r#"{{"parts":[{{"text":"{KEY}"}}]}}"#);

    for body in [
        format!(r#"{{"systemInstruction":"{KEY}"}}"#),
        format!(r#"{{"systemInstruction":{said},"system_instruction":{said}}}"#),
        format!(r#"{{"contents":{said}}}"#),
        format!(r#"{{"contents":["{KEY}"]}}"#),
        format!(r#"{{"contents":[{{"parts":{{"text":"{KEY}"}}}}]}}"#),
        format!(r#"{{"contents":[{{"parts":[{{"text":["{KEY}"]}}]}}]}}"#),
        format!(r#"{{"contents":[{{"parts":[{{"executableCode":"{KEY}"}}]}}]}}"#),
        format!(
            r#"{{"contents":[{{"parts":[{{"functionCall":{{"args":{{"a":1,"a":"{KEY}"}}}}}}]}}]}}"#
        ),
        format!(r#"{{"contents":[{{"parts":[{{"new":{deep}}}]}}]}}"#),
        format!("\u{feff}{{\"contents\":[{said}]}}"),
    ] {
        let answer = gate.agent().post(&path, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(!answer.text().contains(KEY), "{body}");
    }
    assert!(upstream.seen().is_empty());
}
