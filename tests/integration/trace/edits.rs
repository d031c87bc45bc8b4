//! Edits in records: pointers, kinds, sizes, and invalidated bytes of the prompt cache.

use serde_json::{Value, json};

use super::{MODEL, calls, event, record, rule, text_answer, until};
use crate::{
    callers::auth,
    harness::{TestGateway, Upstream, hook, prompt, respond},
};

const REDACT: &str = "policies: [{ policy: redact, detect: [aws_key] }]\n";
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

/// Returns the pointer and the kind of each change.
fn pointers_and_kinds(diff: &Value) -> Vec<(String, String)> {
    let changes = diff["changes"].as_array().unwrap();
    let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    changes
        .iter()
        .map(|change| (text(change, "pointer"), text(change, "kind")))
        .collect()
}

#[tokio::test]
async fn edits_of_requests_and_answers_are_recorded_with_pointers_and_sizes() {
    let upstream = Upstream::answering(&text_answer(&format!("your key is {KEY}"))).await;
    let gateway = TestGateway::start(&upstream, REDACT).await;

    let answer = gateway
        .agent()
        .generate(MODEL, &prompt(&format!("use {KEY}")))
        .await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let detail = &record["detail"];
    let request = &detail["request_diff"];
    let changed = |pointer: &str| vec![(pointer.to_owned(), "changed".to_owned())];
    assert_eq!(
        pointers_and_kinds(request),
        changed("/contents/0/parts/0/text")
    );
    assert!(request["before_bytes"].as_u64() != request["after_bytes"].as_u64());
    let pointer = "/0/candidates/0/content/parts/0/text";
    assert_eq!(pointers_and_kinds(&detail["answer_diff"]), changed(pointer));
    assert_eq!(
        rule(event(&record, "BeforeModel"), "redact")["edited"],
        true
    );
    assert!(!record.to_string().contains("AKIA"), "{record:#}");
    assert_eq!(record["action"], "edit");
}

#[tokio::test]
async fn edits_of_chunks_of_code_assist_are_recorded_without_envelopes() {
    // From the second one on, they differ from an earlier chunk in nothing but their text.
    let text = json!({ "role": "model", "parts": [{ "text": "old" }] });
    let chunk = json!({ "response": { "candidates": [{ "content": text }] }, "traceId": "t" });
    let body = format!("data: {chunk}\r\n\r\n").repeat(3);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
    let pointers = [0, 1, 2].map(|number| format!("/{number}/candidates/0/content/parts/0/text"));
    for (text, edited) in [("old", &pointers[..0]), ("new", &pointers[..])] {
        let edit = hook::printing("edit", &hook::response(&json!({ "text": text })));
        let config = format!(
            "trace: {{ content: {{ sample: 1.0 }} }}\n{}",
            hook::config(&[("AfterModel", edit)])
        );
        let gateway = TestGateway::start(&upstream, &config).await;
        let path = "/v1internal:streamGenerateContent?alt=sse";
        let request = json!({ "model": MODEL, "request": prompt("hi") });

        let answer = gateway.agent().post(path, request.to_string()).await;

        let id = answer.header("x-hookgate-request-id");
        let record = record(&gateway, id).await;
        let diff = &record["detail"]["answer_diff"];
        let changes = diff["changes"].as_array().into_iter().flatten();
        let found: Vec<&str> = changes
            .map(|change| change["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(found, edited, "{text}: {diff:#}");
        let path = format!("/calls/{id}/content");
        let kept = until(&gateway.operator(), &path, |found| found["id"].is_string()).await;
        assert_eq!(
            kept["agent_answer"].is_null(),
            edited.is_empty(),
            "{kept:#}"
        );
        for answer in ["answer", "agent_answer"] {
            let chunks = kept[answer]["body"].as_array().into_iter().flatten();
            for chunk in chunks {
                assert!(chunk["candidates"].is_array(), "{kept:#}");
            }
        }
    }
}

#[tokio::test]
async fn an_unedited_call_has_no_diff() {
    let upstream = Upstream::answering(&text_answer("hello")).await;
    let gateway = TestGateway::start(&upstream, REDACT).await;

    let answer = gateway.agent().generate(MODEL, &prompt("hi")).await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let detail = &record["detail"];
    assert_eq!(
        (&detail["request_diff"], &detail["answer_diff"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(detail["events"][0]["event"], "BeforeModel");
    assert_eq!(
        (&detail["chunks"]["chunks"], &detail["chunks"]["edited"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn the_record_of_a_stream_counts_chunks_and_held_back_bytes() {
    let chunk = |text: &str| json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }] });
    let mut events: Vec<Value> = (0..200)
        .map(|number| chunk(&format!("word {number} ")))
        .collect();
    // The start of a key is held back until the next chunk.
    events.insert(100, chunk("AKIAIOSFODNN7"));
    events.insert(101, chunk("EXAMPLE and more"));
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let body = format!("data: {}\r\n\r\n", events.join("\r\n\r\ndata: "));
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
    let gateway = TestGateway::start(&upstream, REDACT).await;

    let answer = gateway.agent().stream(MODEL, &prompt("hi")).await;

    assert!(!answer.text().contains("AKIA"));
    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let chunks = &record["detail"]["chunks"];
    assert_eq!(chunks["chunks"], 202);
    assert!(chunks["spans"].as_array().unwrap().len() <= 64);
    assert!(chunks["max_held_bytes"].as_u64().unwrap() >= 13, "{chunks}");
    assert!(chunks["edited"].as_u64().unwrap() >= 2, "{chunks}");
    let after = event(&record, "AfterModel");
    assert_eq!(after["chunks"], 202);
    assert_eq!(rule(after, "redact")["runs"], 202);
    assert!(
        record["detail"]["answer_diff"]["changes"]
            .as_array()
            .unwrap()
            .len()
            <= 32
    );
}

#[tokio::test]
async fn an_edit_of_an_earlier_message_invalidates_the_prompt_cache() {
    let upstream = Upstream::answering(&text_answer("hello")).await;
    // The hook rewrites the first message only once there are three.
    let command = r#"grep -q third && echo '{"hookSpecificOutput":{"llm_request":{"messages":[{"role":"user","content":"rewritten"},{"role":"model","content":"hello"},{"role":"user","content":"third"}]}}}'; exit 0"#;
    let hooks = hook::config(&[("BeforeModel", hook::command("rewriter", command))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let agent = gateway.agent().sending("x-hookgate-session", "s-1");
    let message = |role: &str, text: &str| json!({ "role": role, "parts": [{ "text": text }] });
    let first = json!({ "contents": [message("user", "the first message")] });
    let third = json!({ "contents": [message("user", "the first message"),
        message("model", "hello"), message("user", "third")] });

    let unedited = agent.generate(MODEL, &first).await;
    let edited = agent.generate(MODEL, &third).await;

    let unedited = record(&gateway, unedited.header("x-hookgate-request-id")).await;
    assert_eq!(unedited["detail"]["prompt_cache"], Value::Null);
    let edited = record(&gateway, edited.header("x-hookgate-request-id")).await;
    let cache = &edited["detail"]["prompt_cache"];
    assert!(cache["prefix_bytes"].as_u64().unwrap() > 40, "{edited:#}");
    assert!(cache["invalidated_bytes"].as_u64().unwrap() > 10, "{cache}");
    assert!(
        cache["invalidated_percent"].as_u64().unwrap() > 20,
        "{cache}"
    );
}

#[tokio::test]
async fn a_call_whose_request_derived_events_change_is_edited() {
    let context = json!({ "hookSpecificOutput": { "additionalContext": "noted" } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "read a" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "read", "args": {} } }] },
        { "role": "user", "parts": [{ "functionResponse":
            { "name": "read", "response": { "output": "text" } } }] },
    ] });
    let cases = [
        (
            "AfterTool",
            hook::denying("rule", "hidden"),
            "deny",
            "denied",
        ),
        (
            "AfterTool",
            hook::printing("rule", &context),
            "proceed",
            "edited",
        ),
        (
            "SessionStart",
            hook::printing("rule", &context),
            "proceed",
            "edited",
        ),
    ];
    for (name, hook, verdict, kind) in cases {
        let upstream = Upstream::answering(&text_answer("done")).await;
        let config = format!(
            "trace: {{ content: {{ denied_or_edited: true }} }}\n\
             record: {{ path: recordings, what: {{ only: [{kind}] }} }}\n{}",
            hook::config(&[(name, hook)])
        );
        let gateway = TestGateway::start(&upstream, &config).await;
        let agent = gateway.agent().sending("x-hookgate-session", "s-1");

        let answer = agent.generate(MODEL, &body).await;
        let again = agent.generate(MODEL, &body).await;

        let actions = [&answer, &again].map(|answer| answer.header("x-hookgate-action"));
        assert_eq!(actions, ["edit", "edit"], "{name}");
        let id = answer.header("x-hookgate-request-id");
        let record = record(&gateway, id).await;
        assert_eq!(event(&record, name)["verdict"], verdict);
        assert_eq!(record["action"], "edit", "{record:#}");
        let path = format!("/calls/{id}/content");
        until(&gateway.operator(), &path, |found| found["id"].is_string()).await;
        let folder = gateway.stop_and_keep_files().await;
        let recorded = hookgate::recording::read(&folder.path().join("recordings"), None).unwrap();
        let recorded: Vec<String> = recorded.map(|exchange| exchange.unwrap().id).collect();
        assert!(
            recorded.iter().any(|recorded| recorded == id),
            "{name} {kind}: {recorded:?}"
        );
    }
}

#[tokio::test]
async fn the_prompt_cache_of_a_session_is_that_of_its_caller() {
    let upstream = Upstream::answering(&text_answer("hello")).await;
    let config = auth(&[("one", ""), ("two", "")]) + REDACT;
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "shared");
    let mut effects = Vec::new();

    for key in ["one-key", "two-key", "one-key"] {
        let agent = agent.clone().sending("x-hookgate-key", key);
        let answer = agent.generate(MODEL, &prompt("hello")).await;
        let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
        effects.push(record["detail"]["prompt_cache"].is_object());
    }

    assert_eq!(effects, [false, false, true]);
}

#[tokio::test]
async fn a_reported_event_that_a_hook_leaves_as_it_is_is_not_edited() {
    let upstream = Upstream::mock().await;
    for (context, action) in [("", "pass"), ("noted", "edit")] {
        let output = json!({ "hookSpecificOutput": { "additionalContext": context } });
        let hooks = hook::config(&[("AfterTool", hook::printing("look", &output))]);
        let gateway = TestGateway::start(&upstream, &hooks).await;
        let event = json!({ "hook_event_name": "AfterTool", "session_id": "s",
            "tool_name": "shell", "tool_input": {}, "tool_response": { "llmContent": "a" } });

        gateway.agent().report(&event, "").await;

        let listed = calls(&gateway, "", 1).await;
        assert_eq!(listed["calls"][0]["action"], action, "{listed:#}");
    }
}
