//! Hooks and policies on the Gemini API, Vertex AI and Code Assist: each API behaves the same.

mod code_assist;
mod continuations;
mod derived_events;
mod explain_and_test;
mod single_objects;
mod vertex;

use serde_json::{Value, json};

use crate::harness::{
    Answer, ReceivedRequest, TestGateway, Upstream, assert_refused, hook, prompt,
};

/// Model API, with the form of its paths.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Api {
    Gemini,
    Express,
    Project,
    CodeAssist,
}

const APIS: [Api; 4] = [Api::Gemini, Api::Express, Api::Project, Api::CodeAssist];

/// Framing of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Framing {
    Unary,
    Sse,
    Array,
}

const FRAMINGS: [Framing; 3] = [Framing::Unary, Framing::Sse, Framing::Array];

impl Api {
    fn path(self, model: &str, method: &str) -> String {
        match self {
            Self::Gemini => format!("/v1beta/models/{model}:{method}"),
            Self::Express => format!("/v1beta1/publishers/google/models/{model}:{method}"),
            Self::Project => {
                format!(
                    "/v1/projects/p-1/locations/us-central1/publishers/google/models/{model}:{method}"
                )
            }
            Self::CodeAssist => format!("/v1internal:{method}"),
        }
    }

    /// Puts a request of the Gemini API into the envelope of this API, if it has one.
    fn wrap(self, model: &str, request: &Value) -> Value {
        match self {
            Self::CodeAssist => json!({
                "model": model, "project": "p-1", "user_prompt_id": "u", "request": request,
            }),
            _ => request.clone(),
        }
    }

    /// Takes a request or an answer out of the envelope.
    #[track_caller]
    fn unwrap_envelope(self, field: &str, document: &Value) -> Value {
        match self {
            Self::CodeAssist => {
                assert!(document[field].is_object(), "{document}");
                document[field].clone()
            }
            _ => document.clone(),
        }
    }

    async fn send(self, gate: &TestGateway, framing: Framing, request: &Value) -> Answer {
        self.send_to_model(gate, framing, "m", request).await
    }

    async fn send_to_model(
        self,
        gate: &TestGateway,
        framing: Framing,
        model: &str,
        request: &Value,
    ) -> Answer {
        let method = match framing {
            Framing::Unary => "generateContent",
            Framing::Sse => "streamGenerateContent?alt=sse",
            Framing::Array => "streamGenerateContent",
        };
        let body = self.wrap(model, request).to_string();
        gate.agent().post(&self.path(model, method), body).await
    }

    /// Chunks of an answer without their envelopes.
    #[track_caller]
    fn chunks(self, framing: Framing, answer: &Answer) -> Vec<Value> {
        let chunks = match framing {
            Framing::Unary => vec![answer.json()],
            Framing::Sse => answer.events(),
            Framing::Array => answer.json().as_array().unwrap().clone(),
        };
        chunks
            .iter()
            .map(|chunk| self.unwrap_envelope("response", chunk))
            .collect()
    }

    /// Text of an answer.
    #[track_caller]
    fn text(self, framing: Framing, answer: &Answer) -> String {
        let chunks = self.chunks(framing, answer);
        let parts = chunks.iter().flat_map(|chunk| {
            let parts = chunk["candidates"][0]["content"]["parts"].as_array();
            parts.cloned().unwrap_or_default()
        });
        parts
            .filter_map(|part| part["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// Model that a request names.
    fn model(self, request: &ReceivedRequest) -> String {
        if self == Self::CodeAssist {
            return request.json()["model"].as_str().unwrap().to_owned();
        }
        let (_, rest) = request.path.rsplit_once("/models/").unwrap();
        rest.split_once(':').unwrap().0.to_owned()
    }
}

/// Every API with every framing.
fn each() -> impl Iterator<Item = (Api, Framing)> {
    APIS.into_iter()
        .flat_map(|api| FRAMINGS.map(|framing| (api, framing)))
}

#[tokio::test]
async fn a_call_without_hooks_passes_unchanged() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &prompt("hello")).await;
        assert_eq!(api.text(framing, &answer), "You said: hello", "{api:?}");
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.json(), api.wrap("m", &prompt("hello")));
    }
}

#[tokio::test]
async fn a_denial_has_the_form_of_the_api() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &deny).await;
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let chunks = api.chunks(framing, &answer);
        assert_eq!(chunks.len(), 1, "{api:?} {framing:?}");
        assert_eq!(api.text(framing, &answer), "not today");
        assert_eq!(chunks[0]["candidates"][0]["finishReason"], "STOP");
        assert_eq!(chunks[0]["modelVersion"], "m");
        let seen = &gate.json("guard.json")["llm_request"];
        assert_eq!(seen["model"], "m");
        let messages = json!([{ "role": "user", "content": "hello" }]);
        assert_eq!(seen["messages"], messages);
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denial_is_an_error_on_every_api_if_configured() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &format!("{deny}denials: error\n")).await;
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &prompt("hello")).await;
        assert_refused(&answer, 403, "POLICY_DENIED");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_synthetic_response_has_the_form_of_the_api() {
    let upstream = Upstream::mock().await;
    let response = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let synthetic = hook::printing("answer", &hook::response(&response));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", synthetic)])).await;
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &prompt("hello")).await;
        assert_eq!(
            api.text(framing, &answer),
            "from a hook",
            "{api:?} {framing:?}"
        );
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_hook_or_a_policy_can_swap_the_model() {
    let swap = hook::printing("swap", &hook::request(&json!({ "model": "other" })));
    for config in [
        hook::config(&[("BeforeModel", swap)]),
        "policies: [{ policy: model_swap, swap: { m: other } }]\n".to_owned(),
    ] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        for (api, framing) in each() {
            let answer = api.send(&gate, framing, &prompt("hello")).await;
            assert_eq!(api.text(framing, &answer), "You said: hello");
            let request = upstream.requests().pop().unwrap();
            assert_eq!(api.model(&request), "other", "{api:?} {framing:?}");
            let expected = api.wrap("other", &prompt("hello"));
            assert_eq!(request.body, expected.to_string());
        }
    }
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_refused() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: [m] }]\ndenials: error\n";
    let gate = TestGateway::start(&upstream, config).await;
    for (api, framing) in each() {
        let answer = api
            .send_to_model(&gate, framing, "other", &prompt("hello"))
            .await;
        assert_refused(&answer, 403, "POLICY_DENIED");
        let answer = api.send(&gate, framing, &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(upstream.requests().len(), APIS.len() * FRAMINGS.len());
}

#[tokio::test]
async fn tools_outside_the_selection_are_removed() {
    let upstream = Upstream::mock().await;
    let selection = json!({ "mode": "AUTO", "allowedFunctionNames": ["read"] });
    let tools = hook::printing("tools", &hook::tools(&selection));
    let gate =
        TestGateway::start(&upstream, &hook::config(&[("BeforeToolSelection", tools)])).await;
    let mut request = prompt("hello");
    request["tools"] =
        json!([{ "functionDeclarations": [{ "name": "read" }, { "name": "write" }] }]);
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &request).await;
        assert_eq!(
            api.text(framing, &answer),
            "You said: hello",
            "{}",
            answer.text()
        );
        let received = upstream.requests().pop().unwrap().json();
        let inner = api.unwrap_envelope("request", &received);
        let declared = &inner["tools"][0]["functionDeclarations"];
        assert_eq!(
            *declared,
            json!([{ "name": "read" }]),
            "{api:?} {framing:?}"
        );
        assert_eq!(received.get("tools").is_some(), inner == received);
    }
}

#[tokio::test]
async fn secrets_are_masked_in_requests_and_answers() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - { policy: redact, detect: [email], on: [request] }
  - { policy: redact, patterns: { word: \"sec-[0-9]+\" }, on: [answer] }
";
    let gate = TestGateway::start(&upstream, config).await;
    for (api, framing) in each() {
        let answer = api
            .send(
                &gate,
                framing,
                &prompt("ann@example.com says sec-12345678 and goes"),
            )
            .await;
        let text = api.text(framing, &answer);
        assert_eq!(
            text, "You said: [REDACTED:email] says [REDACTED:word] and goes",
            "{api:?} {framing:?}"
        );
        let request = upstream.requests().pop().unwrap();
        assert!(!request.body.contains("ann@"), "{}", request.body);
    }
}

#[tokio::test]
async fn every_chunk_of_an_answer_is_inspected() {
    let upstream = Upstream::mock().await;
    let count = "cat >> chunks; echo >> chunks; echo '{\"hookSpecificOutput\":{\"llm_response\":{\"text\":\"x\"}}}'";
    for after_model in ["chunk", "buffered"] {
        let config = hook::config(&[("AfterModel", hook::command("after", count))]);
        let gate =
            TestGateway::start(&upstream, &format!("{config}after_model: {after_model}\n")).await;
        for (api, framing) in each() {
            std::fs::remove_file(gate.path("chunks")).ok();
            let answer = api.send(&gate, framing, &prompt("hello")).await;
            let seen = gate
                .file("chunks")
                .lines()
                .filter(|line| !line.is_empty())
                .count();
            let whole = framing == Framing::Unary || after_model == "buffered";
            let expected = 3 - 2 * usize::from(whole);
            assert_eq!(seen, expected, "{api:?} {framing:?}");
            assert_eq!(
                api.text(framing, &answer),
                "x".repeat(seen),
                "{api:?} {framing:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_denied_chunk_ends_the_answer_with_the_reason() {
    let deny = "grep -q '\"llm_response\".*secret' && { echo 'no more' >&2; exit 2; }; exit 0";
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterModel", hook::command("after", deny))]);
    let gate = TestGateway::start(&upstream, &config).await;
    for (api, framing) in each() {
        let answer = api.send(&gate, framing, &prompt("secret")).await;
        assert!(
            api.text(framing, &answer).ends_with("no more"),
            "{api:?} {framing:?}: {}",
            answer.text()
        );
    }
}
