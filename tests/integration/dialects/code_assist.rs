//! Code Assist: the envelope of requests and answers, and the session id in requests.

use axum::response::Response;
use http::{HeaderValue, header};
use serde_json::{Value, json};

use super::{Api, Framing};
use crate::harness::{TestGateway, Upstream, assert_refused, hook, prompt, respond};

const GENERATE: &str = "/v1internal:generateContent";
const STREAM: &str = "/v1internal:streamGenerateContent?alt=sse";

/// Config with hooks that save their input and change nothing.
fn saving_hooks() -> String {
    let save = |name: &str| hook::command(name, &format!("cat > {name}.json"));
    hook::config(&[
        ("BeforeModel", save("before")),
        ("AfterModel", save("after")),
    ])
}

/// Three chunks with unusual whitespace and order of fields.
const CHUNKS: [&str; 3] = [
    r#"{ "traceId":"t1" ,"response" : {"candidates":[{"content":{"role":"model","parts":[{"text":"one "}]}}] } }"#,
    r#"{"response":{"candidates":[ {"content":{"role":"model","parts":[{"text":"two "}]}}]},"traceId":"t2","remainingCredits":[{"creditAmount":"1e3"}]}"#,
    r#"{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"three"}]},"finishReason":"STOP"}]},"traceId":"t3"}"#,
];

async fn upstream() -> Upstream {
    Upstream::with(|request| match request.query.as_str() {
        "alt=sse" => {
            let events = CHUNKS.map(|chunk| format!("data: {chunk}\r\n\r\n"));
            respond(200, "text/event-stream", events.concat())
        }
        _ if request.path.contains("stream") => {
            let array = format!("[{}]", CHUNKS.join(",\r\n"));
            respond(200, "application/json", array)
        }
        _ => respond(200, "application/json", CHUNKS[1]),
    })
    .await
}

#[tokio::test]
async fn content_fields_beside_the_request_are_refused() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;
    for field in [
        "contents",
        "systemInstruction",
        "system_instruction",
        "tools",
        "tool_config",
        "generationConfig",
        "cachedContent",
    ] {
        let mut body = json!({ "model": "m", "request": prompt("hi") });
        body[field] = json!([]);
        let answer = gate.agent().post(GENERATE, body.to_string()).await;
        assert_refused(&answer, 400, "BAD_DOCUMENT");
        let text = answer.text();
        assert!(text.contains("` must be inside `request`"), "{text}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_model_in_the_request_must_match_that_beside_it() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;

    let body = r#"{"model":"m","request":{"model":"x","contents":[]}}"#;
    let answer = gate.agent().post(GENERATE, body).await;

    assert_refused(&answer, 400, "AMBIGUOUS");
    let message = "`model` does not match the model beside `request`";
    assert!(answer.text().contains(message), "{}", answer.text());
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn unedited_content_keeps_its_bytes() {
    let upstream = upstream().await;
    let body = r#"{ "project":"p" , "model" : "models/m","request":{ "contents" : [ {"role":"user","parts":[{"text":"h\u0069"}]}], "n":1.0e2 },"user_prompt_id":"u" }"#;
    for more in ["", "after_model: buffered\n"] {
        let gate = TestGateway::start(&upstream, &(saving_hooks() + more)).await;

        let answer = gate.agent().post(GENERATE, body).await;
        assert_eq!(answer.text(), CHUNKS[1]);
        assert_eq!(upstream.requests().pop().unwrap().body, body);
        assert_eq!(gate.json("before.json")["llm_request"]["model"], "m");

        let answer = gate.agent().post(STREAM, body).await;
        assert_eq!(
            answer.text(),
            CHUNKS
                .map(|chunk| format!("data: {chunk}\r\n\r\n"))
                .concat()
        );
        assert_eq!(upstream.requests().pop().unwrap().body, body);

        let answer = gate
            .agent()
            .post("/v1internal:streamGenerateContent", body)
            .await;
        assert_eq!(answer.text(), format!("[{}]", CHUNKS.join(",\r\n")));
    }
}

#[tokio::test]
async fn an_edit_is_spliced_into_its_envelope() {
    let upstream = upstream().await;
    let swap = hook::printing("swap", &hook::request(&json!({ "model": "other" })));
    let mask = hook::printing("mask", &hook::response(&json!({ "text": "x" })));
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", swap), ("AfterModel", mask)]),
    )
    .await;
    let body = r#"{ "project":"p" , "model" : "models/m","request":{ "contents" : [ {"role":"user","parts":[{"text":"h\u0069"}]}] } }"#;

    let answer = gate.agent().post(STREAM, body).await;

    assert_eq!(
        upstream.only_request().body,
        body.replace("models/m", "models/other")
    );
    let events = crate::harness::event_data(answer.text());
    let expected = CHUNKS.map(|chunk| {
        chunk
            .replace("one ", "x")
            .replace("two ", "x")
            .replace("three", "x")
            .replace("[ {", "[{")
    });
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_merged_answer_keeps_the_envelope_of_its_last_chunk() {
    let upstream = upstream().await;
    let mask = hook::printing("mask", &hook::response(&json!({ "text": "x" })));
    let config = hook::config(&[("AfterModel", mask)]) + "after_model: buffered\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Api::CodeAssist
        .send(&gate, Framing::Sse, &prompt("hi"))
        .await;

    let events = answer.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["traceId"], "t3");
    assert_eq!(Api::CodeAssist.text(Framing::Sse, &answer), "x");
}

/// Answers with a secret beside the response: whole ones as one document, others as events.
fn secrets_beside_the_response() -> Vec<(&'static str, Vec<Value>)> {
    let response = |text: &str, finish_reason: Value| {
        let content = json!({ "role": "model", "parts": [{ "text": text }] });
        let candidate = json!({ "content": content, "finishReason": finish_reason });
        json!({ "candidates": [candidate] })
    };
    let first = response("a", Value::Null);
    let last = response("z", json!("STOP"));
    let error = json!({ "error": { "code": 500, "message": "TCK-123456" } });
    vec![
        (
            GENERATE,
            vec![json!({ "response": last, "note": "TCK-123456" })],
        ),
        (STREAM, vec![json!({ "response": first }), error.clone()]),
        (STREAM, vec![error]),
        (
            STREAM,
            vec![
                json!({ "response": first, "note": ["TCK-123456"] }),
                json!({ "response": first, "note": ["TCK-123456"] }),
                json!({ "response": last }),
            ],
        ),
        (
            STREAM,
            vec![
                json!({ "response": first }),
                json!({ "response": last, "content": { "a": "see TCK-123456" } }),
            ],
        ),
    ]
}

#[tokio::test]
async fn secrets_beside_the_response_are_masked_or_denied() {
    let body = Api::CodeAssist.wrap("m", &prompt("hi")).to_string();
    for (path, answer) in secrets_beside_the_response() {
        let events = answer.iter().map(|event| format!("data: {event}\n\n"));
        let events: String = events.collect();
        let upstream = Upstream::with(move |_| match path {
            GENERATE => respond(200, "application/json", answer[0].to_string()),
            _ => respond(200, "text/event-stream", events.clone()),
        })
        .await;
        for mode in ["chunk", "buffered"] {
            for action in ["mask", "deny"] {
                let config = format!(
                    "after_model: {mode}\npolicies: [{{ policy: redact, detect: [], patterns: {{ ticket: \"TCK-[0-9]{{6}}\" }}, action: {action}, reason: no }}]\n"
                );
                let gate = TestGateway::start(&upstream, &config).await;

                let answer = gate.agent().post(path, body.clone()).await;

                let text = answer.text();
                assert_eq!(answer.status, 200, "{mode} {action}: {text}");
                assert!(!text.contains("TCK-123456"), "{mode} {action}: {text}");
                let label = text.contains("[REDACTED:ticket]");
                assert_eq!(label, action == "mask", "{mode} {action}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn the_session_id_in_the_body_applies_unless_path_or_header_set_one() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;
    let mut request = prompt("hi");
    request["session_id"] = json!("5d2f-11");
    let body = Api::CodeAssist.wrap("m", &request).to_string();

    let by_body = gate.agent().post(GENERATE, body.clone()).await;
    assert_eq!(by_body.header("x-hookgate-session"), "5d2f-11");
    assert_eq!(gate.json("before.json")["session_id"], "5d2f-11");
    let session = gate.operator().get("/sessions/5d2f-11").await.json();
    assert_eq!(session["source"], "code_assist", "{session}");

    let agent = gate.agent().sending("x-hookgate-session", "by-header");
    let by_header = agent.post(GENERATE, body.clone()).await;
    assert_eq!(by_header.header("x-hookgate-session"), "by-header");
    let by_path = gate
        .agent()
        .post(&format!("/s/by-path{GENERATE}"), body)
        .await;
    assert_eq!(by_path.header("x-hookgate-session"), "by-path");

    request["session_id"] = json!("no name / at all");
    let body = Api::CodeAssist.wrap("m", &request).to_string();
    let unnamed = gate.agent().post(GENERATE, body).await;
    assert_eq!(unnamed.status, 200);
    assert!(!unnamed.header("x-hookgate-session").contains(' '));
}

#[tokio::test]
async fn policies_apply_to_the_model_of_a_token_count() {
    let upstream = Upstream::answering(&json!({ "totalTokens": 7 })).await;
    let config = "policies: [{ policy: model_allow, models: [m, other] }, { policy: model_swap, swap: { m: other } }]\n";
    let gate = TestGateway::start(&upstream, &(saving_hooks() + config)).await;
    let mut request = prompt("count me");
    request["model"] = json!("models/m");
    let body = json!({ "request": request }).to_string();

    let answer = gate
        .agent()
        .post("/v1internal:countTokens", body.clone())
        .await;

    assert_eq!(answer.json(), json!({ "totalTokens": 7 }));
    assert_eq!(
        upstream.only_request().body,
        body.replace("models/m", "models/other")
    );
    let seen = gate.json("before.json");
    assert_eq!(seen["llm_request"]["messages"][0]["content"], "count me");

    request["model"] = json!("models/forbidden");
    let body = json!({ "request": request }).to_string();
    let answer = gate.agent().post("/v1internal:countTokens", body).await;
    assert_refused(&answer, 403, "POLICY_DENIED");
}

#[tokio::test]
async fn invalid_and_ambiguous_envelopes_are_refused() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;
    for (body, reason) in [
        (r#"{"model":"m"}"#, "BAD_DOCUMENT"),
        (r#"{"model":"m","request":[]}"#, "BAD_DOCUMENT"),
        (r#"{"request":{"contents":[]}}"#, "BAD_DOCUMENT"),
        (
            r#"{"model":"a/b","request":{"contents":[]}}"#,
            "BAD_DOCUMENT",
        ),
        (r#"{"model":5,"request":{"contents":[]}}"#, "BAD_DOCUMENT"),
        (
            r#"{"model":"m","request":{"model":"n","contents":[]}}"#,
            "AMBIGUOUS",
        ),
        (
            r#"{"model":"m","request":{"contents":[]},"request":{"contents":[]}}"#,
            "AMBIGUOUS",
        ),
        (
            r#"{"model":"m","request":{"contents":[],"contents":[]}}"#,
            "AMBIGUOUS",
        ),
        (
            r#"{"model":"m","model":"n","request":{"contents":[]}}"#,
            "AMBIGUOUS",
        ),
        (
            r#"{"model":"m","request":{"session_id":"a","sessionId":"b","contents":[]}}"#,
            "AMBIGUOUS",
        ),
    ] {
        for path in [GENERATE, STREAM, "/v1internal:countTokens"] {
            let answer = gate.agent().post(path, body).await;
            assert_refused(&answer, 400, reason);
        }
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn an_answer_without_an_envelope_is_an_upstream_error() {
    let bare = r#"{"candidates":[{"content":{"parts":[{"text":"psst"}]}}]}"#;
    let upstream = Upstream::with(move |request| match request.query.as_str() {
        "alt=sse" => respond(200, "text/event-stream", format!("data: {bare}\r\n\r\n")),
        _ => respond(200, "application/json", bare),
    })
    .await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;
    for path in [GENERATE, STREAM] {
        let body = Api::CodeAssist.wrap("m", &prompt("hi")).to_string();
        let answer = gate.agent().post(path, body).await;
        assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    }
}

#[tokio::test]
async fn upstream_errors_pass_without_an_envelope() {
    let error =
        json!({ "error": { "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED" } });
    let text = error.to_string();
    let upstream = Upstream::with(move |_| respond(429, "application/json", text.clone())).await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;

    let answer = Api::CodeAssist
        .send(&gate, Framing::Sse, &prompt("hi"))
        .await;

    assert_eq!((answer.status, answer.json()), (429, error));
}

#[tokio::test]
async fn startup_requests_of_gemini_cli_pass_without_hooks() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &saving_hooks()).await;
    for (method, verb) in [
        ("POST", "loadCodeAssist"),
        ("POST", "onboardUser"),
        ("POST", "retrieveUserQuota"),
        ("POST", "listExperiments"),
        ("POST", "fetchAdminControls"),
        ("GET", "getCodeAssistGlobalUserSetting"),
        ("POST", "setCodeAssistGlobalUserSetting"),
        ("POST", "recordCodeAssistMetrics"),
    ] {
        let body = if method == "POST" {
            r#"{ "project": "p" }"#
        } else {
            ""
        };
        let answer = gate
            .agent()
            .ask(method, &format!("/v1internal:{verb}"), body)
            .await;
        assert_eq!(answer.status, 200, "{verb}: {}", answer.text());
        assert_eq!(upstream.requests().pop().unwrap().body, body);
    }
    assert_eq!(
        gate.agent().get("/v1internal/operations/mock").await.json()["done"],
        true
    );
    assert_eq!(gate.file("before.json"), "");
    let answer = gate.agent().post("/v1internal:completeCode", "{}").await;
    assert_refused(&answer, 403, "UNKNOWN_PATH");
}

#[tokio::test]
async fn conditions_use_the_facts_of_the_inner_request() {
    let upstream = Upstream::mock().await;
    let when = |name: &str, condition: &str| {
        let mut hook = hook::denying(name, "no");
        hook["when"] = json!(condition);
        hook
    };
    let condition = "request.model == \"m\" && request.contents == 1 && \"read\" in request.tools && request.stream";
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", when("guard", condition))]),
    )
    .await;
    let mut request: Value = prompt("hi");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);

    let denied = Api::CodeAssist.send(&gate, Framing::Sse, &request).await;
    assert_eq!(Api::CodeAssist.text(Framing::Sse, &denied), "no");
    let other = Api::CodeAssist
        .send_to_model(&gate, Framing::Sse, "n", &request)
        .await;
    assert_eq!(Api::CodeAssist.text(Framing::Sse, &other), "You said: hi");
}

/// A model API whose first answer has a text and a denied call. `second` is the next one.
async fn denied_call_then(
    second: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (Upstream, TestGateway) {
    let call = json!({ "functionCall": { "name": "rm", "args": {} } });
    let parts = json!([{ "text": "let me see" }, call]);
    let candidate = json!({ "content": { "role": "model", "parts": parts } });
    let first = json!({ "response": { "candidates": [candidate] }, "traceId": "t1" });
    let upstream = Upstream::with(move |request| {
        if request.body.contains("functionResponse") {
            second()
        } else if request.query == "alt=sse" {
            respond(200, "text/event-stream", format!("data: {first}\n\n"))
        } else {
            respond(200, "application/json", first.to_string())
        }
    })
    .await;
    let config = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    (upstream, gate)
}

#[tokio::test]
async fn an_error_behind_a_denied_call_takes_the_place_of_the_answer() {
    let body = Api::CodeAssist.wrap("m", &prompt("hi")).to_string();
    let error = json!({ "error": { "code": 429, "message": "slow down" } });
    for (path, status) in [(GENERATE, 200), (GENERATE, 429), (STREAM, 429)] {
        let text = error.to_string();
        let (upstream, gate) = denied_call_then(move || {
            let mut answer = respond(status, "application/json", text.clone());
            let after = HeaderValue::from_static("9");
            answer.headers_mut().insert(header::RETRY_AFTER, after);
            answer
        })
        .await;

        let answer = gate.agent().post(path, body.clone()).await;

        assert_eq!((answer.status, answer.json()), (status, error.clone()));
        assert_eq!(answer.header("retry-after"), "9");
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_behind_a_denied_call_keeps_its_envelope() {
    let (_upstream, gate) = denied_call_then(|| respond(200, "application/json", CHUNKS[2])).await;
    let body = Api::CodeAssist.wrap("m", &prompt("hi")).to_string();

    let answer = gate.agent().post(GENERATE, body).await.json();

    assert_eq!(answer["traceId"], "t3");
    let parts = &answer["response"]["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!([{ "text": "let me see\n\nthree" }]));
}
