//! Random bytes and documents from agents, model APIs and hooks.

use std::{
    cell::Cell,
    fs,
    sync::{Arc, Mutex},
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};

use crate::harness::{TEST_TIMEOUT, TestGateway, Upstream, respond};

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

#[test]
fn random_bytes_cause_no_5xx_response() {
    let runtime = Runtime::new().unwrap();
    let short_timeouts = "timeouts: { header: 50ms, body: 50ms, idle: 50ms }";
    let (_upstream, gate) = runtime.block_on(async {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &format!("{short_timeouts}\n{HOOKS}")).await;
        fs::write(gate.path("says"), "").unwrap();
        (upstream, gate)
    });
    let good = b"POST /v1beta/models/m:generateContent HTTP/1.1\r\nhost: x\r\n\
        content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        26\r\n{\"contents\":[{\"parts\":[{\"text\":\"\"}]}]}\r\n0\r\n\r\n";
    let edits = prop::collection::vec((0..good.len(), any::<u8>()), 1..4);
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let bytes = prop_oneof![
        1 => noise,
        3 => edits.prop_map(|edits| {
            let mut bytes = good.to_vec();
            for (at, byte) in edits {
                bytes[at] = byte;
            }
            bytes
        }),
    ];

    let outcome = runner(48).run(&bytes, |bytes| {
        let answer = runtime.block_on(send_and_read_to_end(&gate, &bytes));
        prop_assert!(
            !answer.starts_with(b"HTTP/1.1 5"),
            "{}",
            answer.escape_ascii()
        );
        Ok(())
    });

    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let whole = runtime.block_on(send_and_read_to_end(&gate, good));
    assert!(
        whole.starts_with(b"HTTP/1.1 200 "),
        "{}",
        whole.escape_ascii()
    );
}

/// Sends bytes, and returns everything that is received until the connection ends.
async fn send_and_read_to_end(gate: &TestGateway, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    // The gateway may close the connection before it has read everything.
    socket.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_end(&mut answer)).await;
    read.expect("the connection stays open").ok();
    answer
}

/// Hooks that print the file `says`.
const HOOKS: &str = "hooks:
  BeforeModel: [{ hooks: [{ command: cat says }] }]
  BeforeToolSelection: [{ hooks: [{ command: cat says }] }]
  AfterModel: [{ hooks: [{ command: cat says }] }]
  BeforeTool: [{ hooks: [{ command: cat says }] }]
";

fn request() -> Value {
    json!({
        "contents": [
            { "role": "user", "parts": [{ "text": "a" }, { "text": "b", "thought": true }] },
            { "role": "model", "parts": [{ "functionCall": { "name": "f", "args": { "x": 1 } } }] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": {} } }] },
        ],
        "systemInstruction": { "parts": [{ "text": "s" }] },
        "tools": [{ "functionDeclarations": [{ "name": "f" }, { "name": "g" }] }],
        "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["f"] } },
        "generationConfig": { "temperature": 0.5, "maxOutputTokens": 5, "stopSequences": ["x"] },
        "content": { "parts": [{ "text": "embed" }] },
        "requests": [{ "content": { "parts": [{ "text": "embed" }] } }],
    })
}

fn answer() -> Value {
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": [
                { "text": "t", "thought": true }, { "text": "a" },
                { "functionCall": { "name": "g", "args": {} } },
            ] },
            "finishReason": "STOP", "index": 0,
            "safetyRatings": [{ "category": "C", "probability": "LOW" }],
        }],
        "usageMetadata": { "promptTokenCount": 1, "totalTokenCount": 2 },
    })
}

fn output() -> Value {
    json!({
        "decision": "allow", "reason": "r", "systemMessage": "m", "continue": true,
        "hookSpecificOutput": {
            "llm_request": {
                "model": "n",
                "messages": [{ "role": "user", "content": "changed" }, { "role": "model", "content": ["x"] }],
                "config": { "temperature": 1, "topK": null },
                "toolConfig": { "mode": "AUTO", "allowedFunctionNames": ["f"] },
            },
            "llm_response": {
                "candidates": [{ "content": { "role": "model", "parts": ["x"] }, "finishReason": "STOP" }],
            },
            "toolConfig": { "mode": "AUTO", "allowedFunctionNames": ["f"] },
            "tool_input": { "x": 2 }, "additionalContext": "c",
        },
    })
}

fn event() -> Value {
    json!({
        "hook_event_name": "BeforeTool", "session_id": "s", "cwd": "/", "tool_name": "f",
        "tool_input": { "x": 1 }, "mcp_context": {}, "timestamp": "t",
    })
}

/// Documents with up to three values replaced.
fn with_random_edits(document: Value) -> impl Strategy<Value = Value> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), value()), 0..4);
    edits.prop_map(move |edits| {
        let mut document = document.clone();
        for (index, with) in edits {
            let at = Cell::new(index.index(value_count(&document)));
            replace(&mut document, &at, &with);
        }
        document
    })
}

fn value() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "deny",
        "block",
        "NONE",
        "user",
        "system",
        "STOP",
        "a\u{0}\u{feff}😀",
        "..",
        "x",
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, "x", {}])),
        Just(json!({ "text": "x", "parts": "x", "candidates": {} })),
    ]
}

/// Returns the number of values in a document, including itself.
fn value_count(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(value_count).sum(),
        Value::Object(fields) => fields.values().map(value_count).sum(),
        _ => 0,
    };
    1 + inner
}

/// Replaces the value at an index, counted from the outside in.
fn replace(value: &mut Value, at: &Cell<usize>, with: &Value) {
    let left = at.get();
    at.set(left.wrapping_sub(1));
    if left == 0 {
        *value = with.clone();
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, at, with)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, at, with)),
        _ => (),
    }
}

#[test]
fn random_documents_cause_no_internal_error() {
    let runtime = Runtime::new().unwrap();
    let upstream_body = Arc::new(Mutex::new(Value::Null));
    let served_body = Arc::clone(&upstream_body);
    let (_upstream, gate) = runtime.block_on(async {
        let upstream = Upstream::with(move |_| {
            let text = served_body.lock().unwrap().to_string();
            respond(200, "application/json", text)
        })
        .await;
        let gate = TestGateway::start(&upstream, HOOKS).await;
        (upstream, gate)
    });
    let paths = [
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "/v1beta/models/m:streamGenerateContent",
        "/v1beta/models/m:countTokens",
        "/v1beta/models/m:embedContent",
        "/v1beta/models/m:batchEmbedContents",
    ];
    let path = prop::sample::select(paths.to_vec());
    let all = (
        path,
        with_random_edits(request()),
        with_random_edits(answer()),
        with_random_edits(output()),
        with_random_edits(event()),
    );

    let outcome = runner(64).run(&all, |(path, request, answer, output, event)| {
        fs::write(gate.path("says"), output.to_string()).unwrap();
        *upstream_body.lock().unwrap() = answer;
        let (called, reported) = runtime.block_on(async {
            let agent = gate.agent();
            let called = agent.post(path, request.to_string()).await;
            (called, agent.report(&event, "explain=1&wait=1").await)
        });
        prop_assert!(
            [200, 400, 403, 502].contains(&called.status),
            "{}",
            called.text()
        );
        prop_assert!([200, 400].contains(&reported.status), "{}", reported.text());
        Ok(())
    });

    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
