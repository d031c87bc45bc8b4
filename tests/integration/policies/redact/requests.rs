//! Secrets in unusual fields and forms of requests.

use serde_json::{Value, json};

use super::{KEY, MASK, MODEL};
use crate::harness::{TestGateway, Upstream, hook};

fn request_with(parts: &Value) -> Value {
    json!({ "contents": [{ "role": "user", "parts": parts }] })
}

/// Operations and request bodies that contain the key in an unusual field.
fn requests_with_the_key() -> Vec<(&'static str, Value)> {
    let contents = json!([{ "role": "user", "parts": [{ "text": KEY }] }]);
    let content = json!({ "parts": [{ "text": "a" }] });
    let counted = [
        json!({ "generateContentRequest": null, "contents": contents }),
        json!({ "generateContentRequest": { "contents": [] }, "contents": contents }),
        json!({ "generate_content_request": { "system_instruction": contents[0] } }),
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
        json!({ "text": "a", "videoMetadata": { "startOffset": "1s", "x": KEY } }),
    ];
    let system = json!({ "systemInstruction": { "role": "x", "text": KEY }, "contents": [] });
    let mut all = vec![("batchEmbedContents", batch), ("generateContent", system)];
    all.extend(counted.map(|body| ("countTokens", body)));
    all.extend(embedded.map(|body| ("embedContent", body)));
    all.extend(generated.map(|part| ("generateContent", request_with(&json!([part])))));
    all
}

#[tokio::test]
async fn secrets_in_any_field_of_a_request_are_masked() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;

    for (operation, body) in requests_with_the_key() {
        let path = format!("/v1beta/models/{MODEL}:{operation}");
        let answer = gateway.agent().post(&path, body.to_string()).await;
        assert_eq!(answer.header("x-hookgate-action"), "edit", "{body}");
        let sent = upstream.requests().pop().unwrap().body;
        assert!(!sent.contains(KEY), "{sent}");
        assert!(sent.contains("[REDACTED:aws_key]"), "{sent}");
    }
}

#[tokio::test]
async fn a_field_whose_name_is_a_secret_is_removed_or_denied() {
    let message = json!([{ "role": "user", "content": "a" }]);
    let contents = json!([{ "role": "user", "parts": [{ "text": "a" }] }]);
    let generate = "/v1beta/models/m:generateContent";
    let call = json!({ "name": "f", "args": {}, KEY: "x" });
    for (path, body) in [
        (
            generate,
            json!({ "contents": contents, "labels": { KEY: "x", "a": "b" } }),
        ),
        (
            generate,
            json!({ "contents": [{ KEY: "x", "parts": [{ "text": "a" }] }] }),
        ),
        (generate, request_with(&json!([{ KEY: "x", "text": "a" }]))),
        (generate, request_with(&json!([{ "functionCall": call }]))),
        (
            "/v1/messages",
            json!({ "model": "m", "max_tokens": 9, "messages": message, KEY: "x" }),
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": message, KEY: "x" }),
        ),
        (
            "/v1/responses",
            json!({ "model": "m", "input": message, "store": false, KEY: "x" }),
        ),
        (
            "/v1/embeddings",
            json!({ "model": "m", "input": "a", KEY: "x" }),
        ),
        (
            "/v1/moderations",
            json!({ "model": "m", "input": "a", KEY: "x" }),
        ),
    ] {
        for (action, count) in [("mask", 1), ("deny", 0)] {
            let upstream = Upstream::mock().await;
            let config = format!(
                "upstreams: {{ gemini: {{ url: \"{{upstream}}\" }}, \
                 anthropic: {{ url: \"{{upstream}}\" }}, openai: {{ url: \"{{upstream}}\" }} }}\n\
                 policies: [{{ policy: redact, action: {action} }}]\n"
            );
            let gateway = TestGateway::start(&upstream, &config).await;

            let answer = gateway.agent().post(path, body.to_string()).await;

            let requests = upstream.requests();
            assert_eq!(requests.len(), count, "{path} {body}: {}", answer.text());
            assert!(
                requests.iter().all(|request| !request.body.contains(KEY)),
                "{path} {body}"
            );
        }
    }
}

#[tokio::test]
async fn a_secret_in_json_escapes_is_masked_under_a_session_prefix() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let path = format!("/s/one/v1beta/models/{MODEL}:streamGenerateContent");
    let body = r#"{"contents":[{"parts":[{"text":"\u0041KIA\u0049OSFODNN7EXAMPLE"}]}]}"#;

    gateway.agent().post(&path, body).await;

    let sent = upstream.only_request().json();
    assert_eq!(
        sent["contents"][0]["parts"][0]["text"],
        "[REDACTED:aws_key]"
    );
}

#[tokio::test]
async fn a_secret_around_a_thought_of_the_model_is_found() {
    let upstream = Upstream::mock().await;
    let parts = |texts: [&str; 4]| {
        let [start, hm, end, hint] = texts;
        let thought = |text: &str| json!({ "text": text, "thought": true });
        json!([{ "text": start }, thought(hm), { "text": end }, thought(hint)])
    };
    let body = |texts: [&str; 4]| {
        let content = json!({ "role": "model", "parts": parts(texts) });
        json!({ "contents": [content, { "role": "user", "parts": [{ "text": "go" }] }] })
    };
    let asked = body(["mail jo@exam", "it is AKIAIOSF", "ple.com", "ODNN7EXAMPLE"]);
    let gateway = TestGateway::start(&upstream, MASK).await;
    let denied = "policies: [{ policy: redact, detect: [email], action: deny }]\n";
    let strict = TestGateway::start(&upstream, denied).await;

    gateway.agent().generate(MODEL, &asked).await;
    strict.agent().generate(MODEL, &asked).await;

    let masked = body(["mail [REDACTED:email]", "it is [REDACTED:aws_key]", "", ""]);
    assert_eq!(upstream.only_request().json(), masked);
}

#[tokio::test]
async fn media_signatures_ids_and_names_are_not_masked() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let media = json!({ "inlineData": { "mimeType": "image/png", "data": KEY } });
    let body = request_with(&json!([
        media,
        { "functionCall": { "id": KEY, "name": KEY, "args": {} }, "thoughtSignature": KEY },
        { "functionResponse": { "id": KEY, "name": KEY, "response": {}, "parts": [media] } },
    ]));

    gateway.agent().generate(MODEL, &body).await;

    assert_eq!(upstream.only_request().json(), body);
}

#[tokio::test]
async fn a_request_that_cannot_be_inspected_is_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let deep = format!("{}\"{KEY}\"{}", "[".repeat(200), "]".repeat(200));
    let content = format!(r#"{{"parts":[{{"text":"{KEY}"}}]}}"#);

    for body in [
        format!(r#"{{"systemInstruction":"{KEY}"}}"#),
        format!(r#"{{"systemInstruction":{content},"system_instruction":{content}}}"#),
        format!(r#"{{"contents":[[{content}]]}}"#),
        format!(r#"{{"contents":["{KEY}"]}}"#),
        format!(r#"{{"contents":[{{"parts":"{KEY}"}}]}}"#),
        format!(r#"{{"contents":[{{"parts":[{{"text":["{KEY}"]}}]}}]}}"#),
        format!(r#"{{"contents":[{{"parts":[{{"executableCode":"{KEY}"}}]}}]}}"#),
        format!(
            r#"{{"contents":[{{"parts":[{{"functionCall":{{"args":{{"a":1,"a":"{KEY}"}}}}}}]}}]}}"#
        ),
        format!(r#"{{"contents":[{{"parts":[{{"new":{deep}}}]}}]}}"#),
        format!("\u{feff}{{\"contents\":[{content}]}}"),
    ] {
        let answer = gateway.agent().post(&path, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(!answer.text().contains(KEY), "{body}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_second_policy_masks_what_the_first_one_edited() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - { policy: redact, detect: [email] }
  - { policy: redact, detect: [aws_key] }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let path = format!("/v1beta/models/{MODEL}:embedContent");
    let content = json!({ "parts": [{ "text": "a" }] });
    let body = json!({ "title": format!("jo@example.com {KEY}"), "content": content });

    gateway.agent().post(&path, body.to_string()).await;

    let sent = upstream.only_request().json();
    assert_eq!(sent["title"], "[REDACTED:email] [REDACTED:aws_key]");
}

#[tokio::test]
async fn system_texts_of_a_reported_model_call_are_masked_where_they_are() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let report = async |more: Value| {
        let mut llm_request = json!({ "model": MODEL, "config": {} });
        let fields = llm_request.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let event = json!({ "hook_event_name": "BeforeModel", "llm_request": llm_request });
        let answer = gateway.agent().report(&event, "").await.json();
        answer["hookSpecificOutput"]["llm_request"].clone()
    };
    let (system, user) = (
        |text: &str| json!({ "role": "system", "content": text }),
        |text: &str| json!({ "role": "user", "content": text }),
    );
    let secret = format!("use {KEY}");
    let masked = "use [REDACTED:aws_key]";

    let alone = report(json!({ "messages": [system(&secret), user("hi")] })).await;
    assert_eq!(alone, json!({ "messages": [system(masked), user("hi")] }));
    let both = report(json!({ "messages": [system(&secret), user(&secret)] })).await;
    assert_eq!(both, json!({ "messages": [system(masked), user(masked)] }));
    let kept = report(json!({ "messages": [system("be kind"), user(&secret)] })).await;
    assert_eq!(
        kept,
        json!({ "messages": [system("be kind"), user(masked)] })
    );
    let apart = report(json!({ "systemInstruction": secret, "messages": [user("hi")] })).await;
    assert_eq!(apart, json!({ "systemInstruction": masked }));
}

#[tokio::test]
async fn a_system_text_that_a_hook_adds_to_a_reported_model_call_is_masked() {
    let upstream = Upstream::mock().await;
    let added = json!({ "messages": [{ "role": "system", "content": KEY }] });
    let hooks = hook::config(&[("BeforeModel", hook::printing("add", &hook::request(&added)))]);
    let gateway = TestGateway::start(&upstream, &format!("{MASK}{hooks}")).await;
    let messages = json!([{ "role": "user", "content": format!("my {KEY}") }]);
    let event = hook::reported_request(&messages);

    let answer = gateway.agent().report(&event, "").await.json();

    let edited = &answer["hookSpecificOutput"]["llm_request"];
    let expected = json!([
        { "role": "system", "content": "[REDACTED:aws_key]" },
        { "role": "user", "content": "my [REDACTED:aws_key]" },
    ]);
    assert_eq!(edited["messages"], expected, "{answer}");
}

#[tokio::test]
async fn keys_of_results_and_labels_may_differ_in_case_or_underscores() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let body = |secret: &str| {
        let list = json!([{ "type": "text", "text": secret }, { "type": "text", "text": " and" }]);
        let response =
            json!({ "user_ids": [1], "userIds": list, "Items": secret, "items": [secret] });
        let result = json!({ "functionResponse": { "name": "f", "response": response } });
        let mut body = request_with(&json!([result]));
        body["labels"] = json!({ "Team": secret, "team": "a" });
        body
    };

    let answer = gateway.agent().generate(MODEL, &body(KEY)).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let expected = body("[REDACTED:aws_key]");
    assert_eq!(upstream.only_request().json(), expected);
}
