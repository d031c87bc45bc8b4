//! `BeforeModel` hooks: denials, stops and synthetic responses.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, prompt};

/// Framing of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Framing {
    Unary,
    Sse,
    Array,
}

const FRAMINGS: [Framing; 3] = [Framing::Unary, Framing::Sse, Framing::Array];

impl Framing {
    async fn send(self, agent: &Agent, body: &Value) -> Answer {
        match self {
            Self::Unary => agent.generate(MODEL, body).await,
            Self::Sse => agent.stream(MODEL, body).await,
            Self::Array => agent.array(MODEL, body).await,
        }
    }

    /// Single document of a synthetic response.
    fn document(self, answer: &Answer) -> Value {
        let mut chunks = match self {
            Self::Unary => vec![answer.json()],
            Self::Sse => answer.events(),
            Self::Array => answer.json().as_array().unwrap().clone(),
        };
        assert_eq!(chunks.len(), 1, "{}", answer.text());
        chunks.remove(0)
    }
}

/// Asserts that an answer is a synthetic response with this text.
#[track_caller]
fn assert_synthetic_response(framing: Framing, answer: &Answer, text: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let media_type = match framing {
        Framing::Sse => "text/event-stream",
        Framing::Unary | Framing::Array => "application/json; charset=UTF-8",
    };
    assert_eq!(answer.header("content-type"), media_type);
    let mut document = framing.document(answer);
    let id = document.as_object_mut().unwrap().shift_remove("responseId");
    assert!(id.is_some_and(|value| value.as_str().is_some_and(|id| id.len() > 8)));
    let expected = json!({
        "candidates": [{
            "content": { "role": "model", "parts": [{ "text": text }] },
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": { "promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0 },
        "modelVersion": MODEL,
    });
    assert_eq!(document, expected);
}

#[track_caller]
fn assert_denial_error(answer: &Answer, reason: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    let id = answer.header("x-hookgate-request-id");
    assert!(!id.is_empty());
    let expected = json!({ "error": {
        "code": 403,
        "message": reason,
        "status": "PERMISSION_DENIED",
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "POLICY_DENIED",
            "domain": "hookgate",
            "metadata": { "request_id": id },
        }],
    } });
    assert_eq!(answer.json(), expected);
}

async fn start(output: &Value, more: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::printing("guard", output))]);
    let gate = TestGateway::start(&upstream, &(hooks + more)).await;
    (upstream, gate)
}

fn denial() -> Value {
    json!({ "decision": "deny", "reason": "not today" })
}

#[tokio::test]
async fn a_denial_is_a_message_of_the_model() {
    let (upstream, gate) = start(&denial(), "").await;
    for framing in FRAMINGS {
        let answer = framing.send(&gate.agent(), &prompt("hello")).await;

        assert_synthetic_response(framing, &answer, "not today");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denial_is_an_error_if_configured() {
    let (upstream, gate) = start(&denial(), "denials: error").await;
    for framing in FRAMINGS {
        let answer = framing.send(&gate.agent(), &prompt("hello")).await;

        assert_denial_error(&answer, "not today");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denied_call_for_json_output_gets_an_error() {
    let (upstream, gate) = start(&denial(), "").await;
    let json_options = [
        json!({ "generationConfig": { "responseMimeType": "application/json" } }),
        json!({ "generation_config": { "response_schema": { "type": "OBJECT" } } }),
        json!({ "generationConfig": { "responseJsonSchema": { "type": "object" } } }),
    ];
    for options in json_options {
        let mut body = prompt("hello");
        body.as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        for framing in FRAMINGS {
            let answer = framing.send(&gate.agent(), &body).await;

            assert_denial_error(&answer, "not today");
        }
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denied_helper_call_of_gemini_cli_gets_an_error() {
    let (_upstream, gate) = start(&denial(), "").await;
    let agent = gate
        .agent()
        .sending("user-agent", "GeminiCLI/0.61.0/x (linux; x64)");
    let mut with_tools = prompt("hello");
    with_tools["tools"] = json!([{ "functionDeclarations": [{ "name": "f" }] }]);

    let helper = agent.generate(MODEL, &prompt("hello")).await;
    let streamed = agent.stream(MODEL, &prompt("hello")).await;
    let subagent = agent.generate(MODEL, &with_tools).await;

    assert_denial_error(&helper, "not today");
    assert_synthetic_response(Framing::Sse, &streamed, "not today");
    assert_synthetic_response(Framing::Unary, &subagent, "not today");
}

#[tokio::test]
async fn a_stop_is_answered_with_its_stop_reason() {
    let stop = json!({ "continue": false, "stopReason": "enough", "reason": "other" });
    let (upstream, gate) = start(&stop, "").await;
    for framing in FRAMINGS {
        let answer = framing.send(&gate.agent(), &prompt("hello")).await;

        assert_synthetic_response(framing, &answer, "enough");
        assert_eq!(answer.header("x-hookgate-action"), "stop");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denial_without_a_reason_has_a_default_reason() {
    let (_upstream, gate) = start(&json!({ "decision": "block" }), "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_synthetic_response(Framing::Unary, &answer, "No reason provided");
}

#[tokio::test]
async fn a_hook_can_supply_a_synthetic_response() {
    let output = hook::response(&json!({ "candidates": [{ "content": { "parts": ["cached"] } }] }));
    let (upstream, gate) = start(&output, "denials: error").await;
    for framing in FRAMINGS {
        let answer = framing.send(&gate.agent(), &prompt("hello")).await;

        assert_synthetic_response(framing, &answer, "cached");
        assert_eq!(answer.header("x-hookgate-action"), "respond");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_synthetic_response_with_a_denial_is_sent_and_reported_as_a_denial() {
    let mut output = hook::response(&json!({ "text": "an answer" }));
    output["decision"] = json!("deny");
    output["reason"] = json!("a reason");
    let (upstream, gate) = start(&output, "denials: error").await;
    for framing in FRAMINGS {
        let answer = framing.send(&gate.agent(), &prompt("hello")).await;

        assert_synthetic_response(framing, &answer, "an answer");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_stop_takes_precedence_over_a_synthetic_response() {
    let mut output = hook::response(&json!({ "text": "an answer" }));
    output["continue"] = json!(false);
    output["stopReason"] = json!("enough");
    let (_upstream, gate) = start(&output, "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_synthetic_response(Framing::Unary, &answer, "enough");
}

#[tokio::test]
async fn a_malformed_synthetic_response_does_not_cancel_a_denial() {
    for malformed in [json!(5), json!({}), json!({ "candidates": "x" })] {
        let mut output = hook::response(&malformed);
        output["decision"] = json!("deny");
        output["reason"] = json!("not today");
        let (_upstream, gate) = start(&output, "").await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_synthetic_response(Framing::Unary, &answer, "not today");
    }
}

#[tokio::test]
async fn a_malformed_synthetic_response_is_ignored() {
    let (upstream, gate) = start(&hook::response(&json!({ "candidates": "x" })), "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(upstream.only_request().json(), prompt("hello"));
}
