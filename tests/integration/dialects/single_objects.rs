//! Objects in the place of lists, which Google's APIs read as lists of one.

use serde_json::{Value, json};

use super::{APIS, Api, Framing};
use crate::harness::{TestGateway, Upstream, hook, respond};

const REDACT: &str =
    "policies: [{ policy: redact, detect: [], patterns: { ticket: \"TCK-[0-9]{6}\" } }]\n";

/// A model API that accepts such requests.
async fn upstream() -> Upstream {
    Upstream::with(|request| match request.query.as_str() {
        "alt=sse" => respond(200, "text/event-stream", "data: {}\n\n"),
        _ => respond(200, "application/json", "{}"),
    })
    .await
}

/// A request without any list.
fn request(instruction: &str, prompt: &str) -> Value {
    json!({
        "system_instruction": { "parts": { "text": instruction } },
        "contents": { "parts": { "text": prompt } },
        "tools": { "functionDeclarations": { "name": "look" } },
    })
}

#[tokio::test]
async fn unedited_requests_keep_their_bytes() {
    let upstream = upstream().await;
    let hooks = hook::config(&[
        ("BeforeModel", hook::command("seen", "cat > seen.json")),
        ("AfterAgent", hook::command("end", "cat > /dev/null")),
    ]);
    for config in [
        REDACT,
        &hooks,
        "policies: [{ policy: tool_guard, deny: [rm] }]\n",
    ] {
        let gate = TestGateway::start(&upstream, config).await;
        for api in APIS {
            let request = request("be a cat", "hello");

            let answer = api.send(&gate, Framing::Sse, &request).await;

            assert_eq!(answer.status, 200, "{config}: {}", answer.text());
            let sent = upstream.requests().pop().unwrap();
            assert_eq!(sent.body, api.wrap("m", &request).to_string());
        }
        if config == hooks {
            let messages = json!([{ "role": "user", "content": "hello" }]);
            assert_eq!(gate.json("seen.json")["llm_request"]["messages"], messages);
        }
    }
}

#[tokio::test]
async fn every_text_is_masked() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, REDACT).await;
    for api in APIS {
        let request = request("keep TCK-123456", "read TCK-123456");

        let answer = api.send(&gate, Framing::Unary, &request).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = upstream.requests().pop().unwrap().body;
        assert_eq!(sent.matches("[REDACTED:ticket]").count(), 2, "{sent}");
        assert!(!sent.contains("TCK-123456"), "{sent}");
    }
}

#[tokio::test]
async fn texts_to_embed_and_results_of_tools_are_masked() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, REDACT).await;
    let text = json!({ "parts": { "text": "TCK-123456" } });
    let result = json!({ "name": "look", "response": {}, "parts": { "text": "TCK-123456" } });
    for (method, request) in [
        (
            "batchEmbedContents",
            json!({ "requests": { "model": "models/m", "content": text } }),
        ),
        (
            "countTokens",
            json!({ "generateContentRequest": { "model": "models/m", "contents": text } }),
        ),
        (
            "generateContent",
            json!({ "contents": { "parts": { "functionResponse": result } } }),
        ),
    ] {
        let path = Api::Gemini.path("m", method);

        gate.agent().post(&path, request.to_string()).await;

        let sent = upstream.requests().pop().unwrap().body;
        assert!(sent.contains("[REDACTED:ticket]"), "{method}: {sent}");
        assert!(!sent.contains("TCK-123456"), "{method}: {sent}");
    }
}

#[tokio::test]
async fn tools_are_withheld() {
    let upstream = upstream().await;
    let config = "policies: [{ policy: tool_guard, deny: [look, googleSearch] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    for api in APIS {
        for tools in [
            json!({ "functionDeclarations": { "name": "look" } }),
            json!({ "googleSearch": {} }),
            json!([{ "functionDeclarations": { "name": "look" } }]),
            json!({ "functionDeclarations": [{ "name": "look" }] }),
        ] {
            let mut request = request("be a cat", "hello");
            request["tools"] = tools;

            let answer = api.send(&gate, Framing::Unary, &request).await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            let sent = upstream.requests().pop().unwrap().body;
            let has_tool = sent.contains("look") || sent.contains("googleSearch");
            assert!(!has_tool, "{sent}");
        }
    }
}

#[tokio::test]
async fn edits_of_hooks_are_applied() {
    let upstream = upstream().await;
    let messages = json!([
        { "role": "system", "content": "be brief" }, { "role": "user", "content": "bye" },
    ]);
    let edit = hook::printing("edit", &hook::request(&json!({ "messages": messages })));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", edit)])).await;

    let request = request("be a cat", "hello");
    let answer = Api::Gemini.send(&gate, Framing::Unary, &request).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let sent = upstream.only_request().json();
    let texts = json!([{ "text": "be a cat" }, { "text": "be brief" }]);
    assert_eq!(sent["system_instruction"]["parts"], texts);
    assert_eq!(sent["contents"][0]["parts"], json!([{ "text": "bye" }]));
}

#[tokio::test]
async fn fields_of_hookgate_itself_are_refused() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, REDACT).await;
    let part = json!({ "text": "a", "hookgateSource": "TCK-123456" });

    let request = json!({ "contents": { "parts": part } });
    let answer = Api::Gemini.send(&gate, Framing::Unary, &request).await;

    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(upstream.requests().is_empty());
}
