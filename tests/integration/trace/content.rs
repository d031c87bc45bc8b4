//! Content of calls: off by default, masked, and each view is in the decision log.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{MODEL, record, text_answer, until};
use crate::harness::{Agent, Browser, ServerProcess, TestGateway, Upstream, prompt, respond};

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const GUARD: &str = "policies: [{ policy: prompt_guard, deny: [forbidden] }, { policy: request_limits, max_calls: 500 }]\n";

/// Makes a call in session `s-1` and waits for its record. Returns its id.
async fn call(gateway: &TestGateway, text: &str) -> String {
    let agent = gateway.agent().sending("x-hookgate-session", "s-1");
    let answer = agent.generate(MODEL, &prompt(text)).await;
    let id = answer.header("x-hookgate-request-id").to_owned();
    record(gateway, &id).await;
    id
}

/// Waits for the masked content of a call.
async fn content(gateway: &TestGateway, id: &str) -> Value {
    let path = format!("/calls/{id}/content?reason=ticket+7");
    until(&gateway.operator(), &path, |found| found["id"].is_string()).await
}

#[tokio::test]
async fn content_is_not_kept_by_default() {
    let upstream = Upstream::answering(&text_answer("hello")).await;
    let gateway = TestGateway::start(&upstream, GUARD).await;

    let denied = call(&gateway, "something forbidden").await;

    let missing = gateway
        .operator()
        .get(&format!("/calls/{denied}/content"))
        .await;
    assert_eq!(missing.status, 404);
    let view = gateway.operator().get(&format!("/calls/{denied}")).await;
    assert_eq!(view.json()["has_content"], false);
    assert!(!view.text().contains("something"));
}

#[tokio::test]
async fn content_of_denied_calls_is_masked_and_each_view_is_in_the_decision_log() {
    let upstream = Upstream::answering(&text_answer("hello")).await;
    let config = format!(
        "audit: {{ path: audit.jsonl }}\ntrace: {{ content: {{ denied_or_edited: true }} }}\n{GUARD}"
    );
    let gateway = TestGateway::start(&upstream, &config).await;

    let passed = call(&gateway, "hello").await;
    let denied = call(&gateway, &format!("forbidden {KEY}")).await;
    let kept = content(&gateway, &denied).await;

    let request = kept["request"]["body"].to_string();
    assert!(request.contains("forbidden [REDACTED:aws_key]"), "{kept:#}");
    assert_eq!(kept["request"]["masked"]["aws_key"], 1);
    assert_eq!(kept["because"], "denied_or_edited");
    let missing = gateway
        .operator()
        .get(&format!("/calls/{passed}/content"))
        .await;
    assert_eq!(missing.status, 404);
    let folder = gateway.stop_and_keep_files().await;
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let viewed: Vec<Value> = lines
        .filter(|line: &Value| line["kind"] == "viewed")
        .collect();
    assert_eq!(viewed.len(), 1, "{audit}");
    assert_eq!(
        (&viewed[0]["request"], &viewed[0]["because"]),
        (&json!(denied), &json!("ticket 7"))
    );
}

#[tokio::test]
async fn content_is_kept_from_the_start_of_a_watch_and_masked() {
    let upstream = Upstream::answering(&text_answer(&format!("the key is {KEY}"))).await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let before = call(&gateway, "hello").await;
    let watch = |minutes: u64, reason: &str| {
        let body = json!({ "minutes": minutes, "reason": reason }).to_string();
        let operator = gateway.operator();
        async move { operator.post("/sessions/s-1/watch", body).await }
    };

    let refused = [
        watch(0, "x").await.status,
        watch(2000, "x").await.status,
        watch(5, " ").await.status,
    ];
    let watched = watch(5, "incident 12").await;
    let id = call(&gateway, "hello again").await;
    let kept = content(&gateway, &id).await;

    assert_eq!(refused, [400; 3]);
    assert_eq!(watched.json()["reason"], "incident 12");
    assert_eq!(kept["because"], "watched");
    assert!(kept["request"]["body"].to_string().contains("hello again"));
    assert!(
        kept["answer"]["body"]
            .to_string()
            .contains("[REDACTED:aws_key]"),
        "{kept:#}"
    );
    assert!(!kept.to_string().contains(KEY));
    let missing = gateway
        .operator()
        .get(&format!("/calls/{before}/content"))
        .await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn the_decision_log_has_the_caller_whose_session_is_watched() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "audit: { path: audit.jsonl }\n").await;

    for query in ["?caller=k1", "?caller=", ""] {
        let path = format!("/sessions/s-1/watch{query}");
        let body = json!({ "minutes": 5, "reason": "ticket 7" }).to_string();
        assert_eq!(gateway.operator().post(&path, body).await.status, 200);
    }

    let folder = gateway.stop_and_keep_files().await;
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let callers: Vec<Value> = lines
        .filter(|line: &Value| line["kind"] == "viewed")
        .map(|line| line["caller"].clone())
        .collect();
    assert_eq!(
        callers,
        [json!({ "key": "k1" }), json!({}), Value::Null],
        "{audit}"
    );
}

/// Returns the chunks of a stream with this text each.
fn text_chunks(texts: &[&str]) -> String {
    let events = texts
        .iter()
        .map(|text| format!("data: {}\n\n", text_answer(text)));
    events.collect()
}

#[tokio::test]
async fn content_of_a_stream_has_no_secret_that_its_chunks_split() {
    let chunks = text_chunks(&["the key is AKIAIOS", "FODNN7EXA", "MPLE ok?"]);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", chunks.clone())).await;
    let config = format!("trace: {{ content: {{ sample: 1.0 }} }}\n{GUARD}");
    let gateway = TestGateway::start(&upstream, &config).await;

    let answer = gateway.agent().stream(MODEL, &prompt("hello")).await;
    let id = answer.header("x-hookgate-request-id").to_owned();
    let kept = content(&gateway, &id).await;

    assert_eq!(kept["answer"]["masked"]["aws_key"], 1, "{kept:#}");
    assert!(!kept.to_string().contains("FODNN7EXA"), "{kept:#}");
}

#[tokio::test]
async fn an_answer_is_kept_as_a_whole_or_not_at_all() {
    for (size, is_kept) in [(600_000, true), (800_000, false)] {
        let large = "x".repeat(size);
        let chunks = text_chunks(&[&large, &large, &large, "END"]);
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", chunks.clone())).await;
        let config = format!("trace: {{ content: {{ sample: 1.0 }} }}\n{GUARD}");
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().stream(MODEL, &prompt("hello")).await;
        let id = answer.header("x-hookgate-request-id").to_owned();
        let kept = content(&gateway, &id).await;

        let answer = &kept["answer"];
        let chunks = answer["body"].as_array().map(Vec::len);
        assert_eq!(chunks, is_kept.then_some(4), "{size}");
        assert!(answer["bytes"].as_u64() > Some(3 * size as u64), "{size}");
        assert!(kept["agent_answer"].is_null(), "{size}");
    }
}

#[tokio::test]
async fn content_has_no_secret_that_parts_escapes_or_tokens_spell() {
    let texts =
        ["for ann@exa", "mple.com now"].map(|text| json!({ "type": "input_text", "text": text }));
    let tokens = ["for ann", "@exa", "mple.com now"].map(|token| json!({ "token": token }));
    let arguments = r#"{"x":"ar\u0040example.com"}"#;
    let responses = json!({ "model": "m", "store": false, "input": [
        { "type": "function_call", "call_id": "c", "name": "look", "arguments": arguments },
        { "type": "function_call_output", "call_id": "c", "output": texts },
    ] });
    let messages = json!({
        "model": "m", "max_tokens": 9, "system": texts.clone().map(|mut text| {
            text["type"] = json!("text");
            text
        }),
        "messages": [{ "role": "user", "content": "hi" }],
    });
    let mut answer = text_answer("for ann@example.com now");
    answer["candidates"][0]["logprobsResult"] = json!({ "chosenCandidates": tokens });
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"{{upstream}}\" }}, openai: {{ url: \"{{upstream}}\" }}, \
         anthropic: {{ url: \"{{upstream}}\" }} }}\n\
         trace: {{ content: {{ sample: 1.0 }} }}\n{GUARD}"
    );
    let upstream = Upstream::answering(&answer).await;
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");

    for (path, body) in [
        ("/v1/responses", responses),
        ("/v1/messages", messages),
        ("/v1beta/models/m:generateContent", prompt("hi")),
    ] {
        let answer = agent.post(path, body.to_string()).await;
        let id = answer.header("x-hookgate-request-id").to_owned();
        let kept = content(&gateway, &id).await.to_string();
        assert!(kept.contains("REDACTED"), "{path}: {kept}");
        for piece in ["ann@exa", "mple.com", "@exa", "0040"] {
            assert!(!kept.contains(piece), "{path}: {piece}: {kept}");
        }
    }
}

#[tokio::test]
async fn requests_without_memory_have_their_size_and_no_body() {
    for (size, is_kept) in [(20_000, true), (40_000, false)] {
        let upstream = Upstream::answering(&text_answer("hello")).await;
        let config = "trace: { content: { sample: 1.0, memory: 64KiB } }\n\
             policies: [{ policy: tool_guard, deny: [removed_tool] }]\n";
        let gateway = TestGateway::start(&upstream, config).await;
        let mut body = prompt(&"x".repeat(size));
        body["tools"] =
            json!([{ "functionDeclarations": [{ "name": "removed_tool" }, { "name": "b" }] }]);

        let answer = gateway.agent().generate(MODEL, &body).await;
        let id = answer.header("x-hookgate-request-id").to_owned();
        let kept = content(&gateway, &id).await;

        let (request, sent) = (&kept["request"], &kept["upstream_request"]);
        assert_eq!(request["body"].is_object(), is_kept, "{size}: {kept:#}");
        assert!(request["bytes"].as_u64() > Some(size as u64), "{kept:#}");
        assert!(sent["body"].is_null(), "{size}: {kept:#}");
        assert!(sent["bytes"].as_u64() < request["bytes"].as_u64());
        assert!(sent["bytes"].as_u64() > Some(size as u64), "{kept:#}");
    }
}

#[tokio::test]
async fn content_that_does_not_fit_evicts_no_other_content() {
    let upstream = Upstream::mock().await;
    let config =
        format!("trace: {{ content: {{ denied_or_edited: true, memory: 100000 }} }}\n{GUARD}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let first = call(&gateway, "forbidden").await;
    content(&gateway, &first).await;
    let dropped = "hookgate_trace_dropped_details_total";
    let before = gateway.operator().metric(dropped).await;

    // Labels are longer than these addresses.
    let second = call(&gateway, &format!("forbidden {}", "a@b.co ".repeat(6500))).await;
    let deadline = std::time::Instant::now() + crate::harness::TEST_TIMEOUT;
    while gateway.operator().metric(dropped).await == before {
        assert!(std::time::Instant::now() < deadline, "nothing is counted");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }

    let status = async |id: &str| {
        let path = format!("/calls/{id}/content");
        gateway.operator().get(&path).await.status
    };
    assert_eq!(status(&second).await, 404);
    assert_eq!(status(&first).await, 200);
}

#[tokio::test]
async fn a_reload_shortens_the_time_of_content_and_removes_what_is_not_kept_any_more() {
    for changed in ["denied_or_edited: true, for: 1s", "denied_or_edited: false"] {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        let write = |content: &str| {
            let config = format!(
                "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\ntrace: {{ content: {{ {content} }} }}\n{GUARD}",
                upstream.addr
            );
            std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        };
        write("denied_or_edited: true");
        let mut served = ServerProcess::folder(folder.path());
        let agent = Agent::at(served.addr());
        let operator = Agent::at(served.operators());
        let answer = agent.generate(MODEL, &prompt("forbidden")).await;
        let path = format!("/calls/{}/content", answer.header("x-hookgate-request-id"));
        let kept = until(&operator, &path, |found| found["id"].is_string()).await;

        write(changed);
        assert_eq!(operator.post("/reload", "").await.status, 200);

        let is_other = |found: &Value| found["until"] != kept["until"];
        until(&operator, &path, is_other).await;
        until(&operator, &path, |found| found["error"]["code"] == 404).await;
    }
}

#[tokio::test]
async fn pages_of_content_that_is_nested_as_deep_as_possible_are_shown() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\ntrace: {{ content: {{ denied_or_edited: true }} }}\n{GUARD}",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operators = served.operators();
    let operator = Agent::at(operators);
    let nested = (0..55).fold(json!(1), |inner, _| json!([inner]));
    let call = json!({ "functionCall": { "name": "f", "args": { "at": nested } } });
    let mut body = prompt("forbidden");
    let contents = body["contents"].as_array_mut().unwrap();
    contents.insert(0, json!({ "role": "model", "parts": [call] }));
    let denied = agent.generate(MODEL, &body).await;
    let id = denied.header("x-hookgate-request-id");
    let path = format!("/calls/{id}/content");
    until(&operator, &path, |found| found["id"].is_string()).await;

    for page in [
        format!("/console/calls/{id}?content=1"),
        format!("/console/calls/{id}/test"),
        format!("/console/try?call={id}"),
    ] {
        let page = Browser::at_address(operators).get(&page).await;
        assert_eq!(page.status, 200, "{}", page.html);
    }
}

#[tokio::test]
async fn a_watch_is_refused_while_the_trace_is_off() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "trace: { exchanges: 0 }\n").await;

    let body = json!({ "minutes": 5, "reason": "ticket 7" }).to_string();
    let watched = gateway.operator().post("/sessions/ci/watch", body).await;

    assert_eq!(watched.status, 400, "{}", watched.text());
    assert!(
        watched.text().contains("trace.exchanges"),
        "{}",
        watched.text()
    );
}
