//! Answers that the model continues in the next response, by a token.

use serde_json::{Value, json};

use super::{APIS, Api, Framing};
use crate::harness::{TestGateway, Upstream, assert_refused, hook, prompt, respond};

const TOKEN: &str = "VE9LRU4=";

/// Name of the token in `coverage.allow`.
fn name_of(api: Api) -> &'static str {
    match api {
        Api::Gemini => "models.continuation",
        Api::Express | Api::Project => "publishers.models.continuation",
        Api::CodeAssist => "v1internal.continuation",
    }
}

/// A request that continues an answer.
fn continuing(field: &str) -> Value {
    let mut request = prompt("hi");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "rm" }] }]);
    request[field] = TOKEN.into();
    request
}

fn answer_of(part: &Value) -> Value {
    json!({ "candidates": [{
        "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0,
    }] })
}

#[tokio::test]
async fn a_continuation_token_is_refused_where_requests_are_read_unless_its_name_is_allowed() {
    let hooks = hook::config(&[("BeforeModel", hook::command("quiet", "cat > /dev/null"))]);
    for api in APIS {
        for field in ["continuationToken", "continuation_token"] {
            let (request, name) = (continuing(field), name_of(api));
            let upstream = Upstream::answering(&answer_of(&json!({ "text": "ok" }))).await;
            let gate = TestGateway::start(&upstream, &hooks).await;
            let answer = api.send(&gate, Framing::Unary, &request).await;
            assert_refused(&answer, 400, "BAD_DOCUMENT");
            assert!(answer.text().contains(name), "{}", answer.text());
            assert!(upstream.requests().is_empty(), "{api:?}");

            let config = format!("{hooks}coverage: {{ allow: [{name}] }}\n");
            let gate = TestGateway::start(&upstream, &config).await;
            api.send(&gate, Framing::Unary, &request).await;
            assert_eq!(upstream.only_request().json(), api.wrap("m", &request));
        }
    }
}

#[tokio::test]
async fn an_answer_that_the_model_continues_does_not_end_the_turn() {
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = hook::config(&[("AfterAgent", hook::printing("seen", &deny))]);
    let mut part = answer_of(&json!({ "text": "part one" }));
    part["candidates"][0]["finishReason"] = "CONTINUATION".into();
    part["candidates"][0]["continuationToken"] = TOKEN.into();
    for framing in [Framing::Unary, Framing::Sse] {
        let upstream = Upstream::answering(&part).await;
        let gate = TestGateway::start(&upstream, &hooks).await;

        let answer = Api::Gemini.send(&gate, framing, &prompt("hi")).await;

        let chunks = Api::Gemini.chunks(framing, &answer);
        assert_eq!(chunks, [part.clone()], "{framing:?}");
        assert_eq!(upstream.requests().len(), 1, "{framing:?}");
        assert_eq!(gate.file("seen.json"), "", "{framing:?}");
    }
}

#[tokio::test]
async fn a_model_that_is_asked_again_for_a_denied_call_gets_no_token() {
    let hooks = hook::config(&[("BeforeTool", hook::denying("guard", "no"))]);
    let config = format!("{hooks}coverage: {{ allow: [models.continuation] }}\n");
    let upstream = Upstream::with(|asked| {
        let part = if asked.body.contains(TOKEN) {
            json!({ "functionCall": { "name": "rm", "args": {} } })
        } else {
            json!({ "text": "second" })
        };
        respond(200, "application/json", answer_of(&part).to_string())
    })
    .await;
    let gate = TestGateway::start(&upstream, &config).await;

    let request = continuing("continuationToken");
    let answer = Api::Gemini.send(&gate, Framing::Unary, &request).await;

    assert_eq!(Api::Gemini.text(Framing::Unary, &answer), "second");
    assert_eq!(upstream.requests().len(), 2);
}
