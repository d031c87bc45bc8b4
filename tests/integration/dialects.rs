//! The three model APIs: whatever hooks do on one, they do on all.

mod code_assist;
mod rehearsed;
mod vertex;

use serde_json::{Value, json};

use crate::harness::{Answer, Asked, TestGateway, Upstream, assert_refused, hook, prompt};

/// A model API, as an agent calls it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Gemini,
    Express,
    Project,
    CodeAssist,
}

const WAYS: [Way; 4] = [Way::Gemini, Way::Express, Way::Project, Way::CodeAssist];

/// How an answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Unary,
    Events,
    Array,
}

const FORMS: [Form; 3] = [Form::Unary, Form::Events, Form::Array];

impl Way {
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

    /// A request of the Gemini API as it is sent here.
    fn wrapped(self, model: &str, request: &Value) -> Value {
        match self {
            Self::CodeAssist => json!({
                "model": model, "project": "p-1", "user_prompt_id": "u", "request": request,
            }),
            _ => request.clone(),
        }
    }

    /// What of a request or an answer is that of the Gemini API.
    #[track_caller]
    fn inner(self, field: &str, document: &Value) -> Value {
        match self {
            Self::CodeAssist => {
                assert!(document[field].is_object(), "{document}");
                document[field].clone()
            }
            _ => document.clone(),
        }
    }

    async fn ask(self, gate: &TestGateway, form: Form, request: &Value) -> Answer {
        self.ask_model(gate, form, "m", request).await
    }

    async fn ask_model(
        self,
        gate: &TestGateway,
        form: Form,
        model: &str,
        request: &Value,
    ) -> Answer {
        let method = match form {
            Form::Unary => "generateContent",
            Form::Events => "streamGenerateContent?alt=sse",
            Form::Array => "streamGenerateContent",
        };
        let body = self.wrapped(model, request).to_string();
        gate.agent().post(&self.path(model, method), body).await
    }

    /// The chunks of an answer, as the Gemini API has them.
    #[track_caller]
    fn chunks(self, form: Form, answer: &Answer) -> Vec<Value> {
        let chunks = match form {
            Form::Unary => vec![answer.json()],
            Form::Events => answer.events(),
            Form::Array => answer.json().as_array().unwrap().clone(),
        };
        chunks.iter().map(|it| self.inner("response", it)).collect()
    }

    /// The text of an answer.
    #[track_caller]
    fn text(self, form: Form, answer: &Answer) -> String {
        let chunks = self.chunks(form, answer);
        let parts = chunks.iter().flat_map(|it| {
            let parts = it["candidates"][0]["content"]["parts"].as_array();
            parts.cloned().unwrap_or_default()
        });
        parts
            .filter_map(|it| it["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// The model that was asked for.
    fn model(self, asked: &Asked) -> String {
        if self == Self::CodeAssist {
            return asked.json()["model"].as_str().unwrap().to_owned();
        }
        let (_, rest) = asked.path.rsplit_once("/models/").unwrap();
        rest.split_once(':').unwrap().0.to_owned()
    }
}

/// Every way and every form.
fn each() -> impl Iterator<Item = (Way, Form)> {
    WAYS.into_iter()
        .flat_map(|way| FORMS.map(|form| (way, form)))
}

#[tokio::test]
async fn what_no_hook_listens_to_passes_byte_for_byte() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &prompt("hello")).await;
        assert_eq!(way.text(form, &answer), "You said: hello", "{way:?}");
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.json(), way.wrapped("m", &prompt("hello")));
    }
}

#[tokio::test]
async fn a_denial_has_the_form_of_the_api() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &deny).await;
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let chunks = way.chunks(form, &answer);
        assert_eq!(chunks.len(), 1, "{way:?} {form:?}");
        assert_eq!(way.text(form, &answer), "not today");
        assert_eq!(chunks[0]["candidates"][0]["finishReason"], "STOP");
        assert_eq!(chunks[0]["modelVersion"], "m");
        let seen = &gate.json("guard.json")["llm_request"];
        assert_eq!(seen["model"], "m");
        let said = json!([{ "role": "user", "content": "hello" }]);
        assert_eq!(seen["messages"], said);
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_denial_is_an_error_of_no_api() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &format!("{deny}denials: error\n")).await;
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &prompt("hello")).await;
        assert_refused(&answer, 403, "POLICY_DENIED");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_hook_answers_in_the_words_of_the_api() {
    let upstream = Upstream::mock().await;
    let said = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let answering = hook::saying("answer", &hook::response(&said));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", answering)])).await;
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &prompt("hello")).await;
        assert_eq!(way.text(form, &answer), "from a hook", "{way:?} {form:?}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_hook_and_a_policy_choose_another_model() {
    let swap = hook::saying("swap", &hook::request(&json!({ "model": "other" })));
    for config in [
        hook::config(&[("BeforeModel", swap)]),
        "policies: [{ policy: model_swap, swap: { m: other } }]\n".to_owned(),
    ] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        for (way, form) in each() {
            let answer = way.ask(&gate, form, &prompt("hello")).await;
            assert_eq!(way.text(form, &answer), "You said: hello");
            let asked = upstream.seen().pop().unwrap();
            assert_eq!(way.model(&asked), "other", "{way:?} {form:?}");
            let expected = way.wrapped("other", &prompt("hello"));
            assert_eq!(asked.body, expected.to_string());
        }
    }
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_refused() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: [m] }]\ndenials: error\n";
    let gate = TestGateway::start(&upstream, config).await;
    for (way, form) in each() {
        let answer = way.ask_model(&gate, form, "other", &prompt("hello")).await;
        assert_refused(&answer, 403, "POLICY_DENIED");
        let answer = way.ask(&gate, form, &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(upstream.seen().len(), WAYS.len() * FORMS.len());
}

#[tokio::test]
async fn a_whitelist_leaves_its_tools() {
    let upstream = Upstream::mock().await;
    let selection = json!({ "mode": "AUTO", "allowedFunctionNames": ["read"] });
    let tools = hook::saying("tools", &hook::tools(&selection));
    let gate =
        TestGateway::start(&upstream, &hook::config(&[("BeforeToolSelection", tools)])).await;
    let mut request = prompt("hello");
    request["tools"] =
        json!([{ "functionDeclarations": [{ "name": "read" }, { "name": "write" }] }]);
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &request).await;
        assert_eq!(
            way.text(form, &answer),
            "You said: hello",
            "{}",
            answer.text()
        );
        let asked = upstream.seen().pop().unwrap().json();
        let inner = way.inner("request", &asked);
        let declared = &inner["tools"][0]["functionDeclarations"];
        assert_eq!(*declared, json!([{ "name": "read" }]), "{way:?} {form:?}");
        assert_eq!(asked.get("tools").is_some(), inner == asked);
    }
}

#[tokio::test]
async fn secrets_are_masked_both_ways() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - { policy: redact, detect: [email], on: [request] }
  - { policy: redact, patterns: { word: \"sec-[0-9]+\" }, on: [answer] }
";
    let gate = TestGateway::start(&upstream, config).await;
    for (way, form) in each() {
        let answer = way
            .ask(
                &gate,
                form,
                &prompt("ann@example.com says sec-12345678 and goes"),
            )
            .await;
        let told = way.text(form, &answer);
        assert_eq!(
            told, "You said: [REDACTED:email] says [REDACTED:word] and goes",
            "{way:?} {form:?}"
        );
        let asked = upstream.seen().pop().unwrap();
        assert!(!asked.body.contains("ann@"), "{}", asked.body);
    }
}

#[tokio::test]
async fn every_chunk_of_an_answer_is_judged() {
    let upstream = Upstream::mock().await;
    let count = "cat >> chunks; echo >> chunks; echo '{\"hookSpecificOutput\":{\"llm_response\":{\"text\":\"x\"}}}'";
    for after_model in ["chunk", "buffered"] {
        let config = hook::config(&[("AfterModel", hook::running("after", count))]);
        let gate =
            TestGateway::start(&upstream, &format!("{config}after_model: {after_model}\n")).await;
        for (way, form) in each() {
            std::fs::remove_file(gate.path("chunks")).ok();
            let answer = way.ask(&gate, form, &prompt("hello")).await;
            let seen = gate
                .file("chunks")
                .lines()
                .filter(|it| !it.is_empty())
                .count();
            let whole = form == Form::Unary || after_model == "buffered";
            let expected = 3 - 2 * usize::from(whole);
            assert_eq!(seen, expected, "{way:?} {form:?}");
            assert_eq!(
                way.text(form, &answer),
                "x".repeat(seen),
                "{way:?} {form:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_refused_chunk_ends_the_stream_in_the_words_of_the_api() {
    let deny = "grep -q '\"llm_response\".*secret' && { echo 'no more' >&2; exit 2; }; exit 0";
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterModel", hook::running("after", deny))]);
    let gate = TestGateway::start(&upstream, &config).await;
    for (way, form) in each() {
        let answer = way.ask(&gate, form, &prompt("secret")).await;
        assert!(
            way.text(form, &answer).ends_with("no more"),
            "{way:?} {form:?}: {}",
            answer.text()
        );
    }
}

/// An event's name, and what it is about.
fn outlined(line: &str) -> (String, String) {
    let event: Value = serde_json::from_str(line).unwrap();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let about = text(&event["tool_input"]["path"]) + &text(&event["prompt"]);
    (text(&event["hook_event_name"]), about)
}

#[tokio::test]
async fn events_are_read_off_calls_of_every_api() {
    const EVENTS: [&str; 7] = [
        "SessionStart",
        "BeforeAgent",
        "BeforeModel",
        "AfterModel",
        "BeforeTool",
        "AfterTool",
        "AfterAgent",
    ];
    let log = "line=$(cat); echo \"$line\" >> log";
    let config = hook::config(&EVENTS.map(|it| (it, hook::running(it, log))));
    let mut told = Vec::new();
    for way in WAYS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &format!("{config}after_model: buffered\n")).await;
        let mut request = prompt("please read {\"path\":\"a\"}");
        request["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);
        let answer = way.ask(&gate, Form::Events, &request).await;
        let chunks = way.chunks(Form::Events, &answer);
        let content = chunks.iter().map(|it| &it["candidates"][0]["content"]);
        let content = content
            .into_iter()
            .find(|it| it.is_object())
            .unwrap()
            .clone();
        let result =
            json!({ "functionResponse": { "name": "read", "response": { "output": "hello" } } });
        let contents = request["contents"].as_array_mut().unwrap();
        contents.push(content);
        contents.push(json!({ "role": "user", "parts": [result] }));
        way.ask(&gate, Form::Events, &request).await;

        let lines = gate.file("log");
        told.push(lines.lines().map(outlined).collect::<Vec<_>>());
    }
    let names: Vec<&str> = told[0].iter().map(|it| it.0.as_str()).collect();
    assert_eq!(
        names,
        [
            "SessionStart",
            "BeforeAgent",
            "BeforeModel",
            "AfterModel",
            "BeforeTool",
            "AfterTool",
            "BeforeModel",
            "AfterModel",
            "AfterAgent",
        ]
    );
    assert!(told.iter().all(|it| *it == told[0]), "{told:?}");
}

#[tokio::test]
async fn a_denied_call_is_asked_again_in_the_form_of_the_api() {
    let upstream = Upstream::mock().await;
    let guard = hook::refusing("guard", "not that file");
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await;
    let mut request = prompt("please read {\"path\":\"a\"}");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);
    for (way, form) in each() {
        let before = upstream.seen().len();
        let answer = way.ask(&gate, form, &request).await;
        assert!(!answer.text().contains("functionCall"), "{}", answer.text());
        assert!(
            way.text(form, &answer).contains("not that file"),
            "{}",
            answer.text()
        );
        let again = upstream.seen()[before + 1].json();
        let inner = way.inner("request", &again);
        assert_eq!(inner["contents"].as_array().unwrap().len(), 3, "{inner}");
    }
}
