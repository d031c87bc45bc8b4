//! Hooks refuse, stop, or answer in place of the model.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, prompt};

/// How an answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Unary,
    Events,
    Array,
}

const FORMS: [Form; 3] = [Form::Unary, Form::Events, Form::Array];

impl Form {
    async fn ask(self, agent: &Agent, body: &Value) -> Answer {
        match self {
            Self::Unary => agent.generate(MODEL, body).await,
            Self::Events => agent.stream(MODEL, body).await,
            Self::Array => agent.array(MODEL, body).await,
        }
    }

    /// The one document of an answer that hooks made.
    fn document(self, answer: &Answer) -> Value {
        let mut chunks = match self {
            Self::Unary => vec![answer.json()],
            Self::Events => answer.events(),
            Self::Array => answer.json().as_array().unwrap().clone(),
        };
        assert_eq!(chunks.len(), 1, "{}", answer.text());
        chunks.remove(0)
    }
}

/// An answer in place of the model's.
#[track_caller]
fn check_denial(form: Form, answer: &Answer, text: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let kind = match form {
        Form::Events => "text/event-stream",
        Form::Unary | Form::Array => "application/json; charset=UTF-8",
    };
    assert_eq!(answer.header("content-type"), kind);
    let mut told = form.document(answer);
    let id = told.as_object_mut().unwrap().shift_remove("responseId");
    assert!(id.is_some_and(|it| it.as_str().is_some_and(|it| it.len() > 8)));
    let expected = json!({
        "candidates": [{
            "content": { "role": "model", "parts": [{ "text": text }] },
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": { "promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0 },
        "modelVersion": MODEL,
    });
    assert_eq!(told, expected);
}

#[track_caller]
fn check_error(answer: &Answer, reason: &str) {
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
    let hooks = hook::config(&[("BeforeModel", hook::saying("guard", output))]);
    let gate = TestGateway::start(&upstream, &(hooks + more)).await;
    (upstream, gate)
}

fn denial() -> Value {
    json!({ "decision": "deny", "reason": "not today" })
}

#[tokio::test]
async fn a_denial_is_a_message_of_the_model() {
    let (upstream, gate) = start(&denial(), "").await;
    for form in FORMS {
        let answer = form.ask(&gate.agent(), &prompt("hello")).await;

        check_denial(form, &answer, "not today");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_denial_is_an_error_if_the_config_says_so() {
    let (upstream, gate) = start(&denial(), "denials: error").await;
    for form in FORMS {
        let answer = form.ask(&gate.agent(), &prompt("hello")).await;

        check_error(&answer, "not today");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_call_that_wants_json_is_refused_by_an_error() {
    let (upstream, gate) = start(&denial(), "").await;
    let wishes = [
        json!({ "generationConfig": { "responseMimeType": "application/json" } }),
        json!({ "generation_config": { "response_schema": { "type": "OBJECT" } } }),
        json!({ "generationConfig": { "responseJsonSchema": { "type": "object" } } }),
    ];
    for wish in wishes {
        let mut body = prompt("hello");
        body.as_object_mut()
            .unwrap()
            .extend(wish.as_object().unwrap().clone());
        for form in FORMS {
            let answer = form.ask(&gate.agent(), &body).await;

            check_error(&answer, "not today");
        }
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_helper_call_of_gemini_cli_is_refused_by_an_error() {
    let (_upstream, gate) = start(&denial(), "").await;
    let agent = gate
        .agent()
        .sending("user-agent", "GeminiCLI/0.61.0/x (linux; x64)");
    let mut with_tools = prompt("hello");
    with_tools["tools"] = json!([{ "functionDeclarations": [{ "name": "f" }] }]);

    let helper = agent.generate(MODEL, &prompt("hello")).await;
    let talk = agent.stream(MODEL, &prompt("hello")).await;
    let subagent = agent.generate(MODEL, &with_tools).await;

    check_error(&helper, "not today");
    check_denial(Form::Events, &talk, "not today");
    check_denial(Form::Unary, &subagent, "not today");
}

#[tokio::test]
async fn a_stop_has_a_message_of_its_own() {
    let stop = json!({ "continue": false, "stopReason": "enough", "reason": "other" });
    let (upstream, gate) = start(&stop, "").await;
    for form in FORMS {
        let answer = form.ask(&gate.agent(), &prompt("hello")).await;

        check_denial(form, &answer, "enough");
        assert_eq!(answer.header("x-hookgate-action"), "stop");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_refusal_without_words_has_some() {
    let (_upstream, gate) = start(&json!({ "decision": "block" }), "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    check_denial(Form::Unary, &answer, "No reason provided");
}

#[tokio::test]
async fn a_hook_answers_in_place_of_the_model() {
    let output = hook::response(&json!({ "candidates": [{ "content": { "parts": ["cached"] } }] }));
    let (upstream, gate) = start(&output, "denials: error").await;
    for form in FORMS {
        let answer = form.ask(&gate.agent(), &prompt("hello")).await;

        check_denial(form, &answer, "cached");
        assert_eq!(answer.header("x-hookgate-action"), "respond");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn an_answer_with_a_denial_is_sent_and_counts_as_a_denial() {
    let mut output = hook::response(&json!({ "text": "an answer" }));
    output["decision"] = json!("deny");
    output["reason"] = json!("a reason");
    let (upstream, gate) = start(&output, "denials: error").await;
    for form in FORMS {
        let answer = form.ask(&gate.agent(), &prompt("hello")).await;

        check_denial(form, &answer, "an answer");
        assert_eq!(answer.header("x-hookgate-action"), "deny");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_stop_outranks_an_answer() {
    let mut output = hook::response(&json!({ "text": "an answer" }));
    output["continue"] = json!(false);
    output["stopReason"] = json!("enough");
    let (_upstream, gate) = start(&output, "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    check_denial(Form::Unary, &answer, "enough");
}

#[tokio::test]
async fn a_malformed_answer_weakens_no_denial() {
    for malformed in [json!(5), json!({}), json!({ "candidates": "x" })] {
        let mut output = hook::response(&malformed);
        output["decision"] = json!("deny");
        output["reason"] = json!("not today");
        let (_upstream, gate) = start(&output, "").await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        check_denial(Form::Unary, &answer, "not today");
    }
}

#[tokio::test]
async fn a_malformed_answer_alone_changes_nothing() {
    let (upstream, gate) = start(&hook::response(&json!({ "candidates": "x" })), "").await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(upstream.only().json(), prompt("hello"));
}
