//! Token counts of calls, on each API.

use serde_json::{Value, json};

use super::{
    AUDIT,
    lines::{MODEL, stop_and_read_log},
    only,
};
use crate::{
    callers::auth,
    harness::{ReceivedRequest, TestGateway, Upstream, hook, prompt, respond},
    trace::calls,
};

const PATHS: [&str; 4] = [
    "/v1beta/models/m:generateContent",
    "/v1/messages",
    "/v1/responses",
    "/v1/chat/completions",
];

/// Answers as the API of the path does, with a prompt of 11 tokens, of which 4 come from a cache,
/// and a text of 7 tokens.
fn answer(asked: &ReceivedRequest) -> axum::response::Response {
    assert_eq!(asked.header("accept-encoding"), "identity");
    let path = asked.path.as_str();
    if path.ends_with(":streamGenerateContent") || asked.body.contains(r#""stream":true"#) {
        let events = events(path).into_iter();
        let events = events.map(|event| format!("data: {event}\n\n"));
        return respond(200, "text/event-stream", events.collect::<String>());
    }
    respond(200, "application/json", whole(path).to_string())
}

fn whole(path: &str) -> Value {
    match path {
        "/v1/messages" => json!({
            "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": "\"usage\":{\"output_tokens\":99}" }],
            "usage": {
                "input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4,
                "cache_creation": { "ephemeral_5m_input_tokens": 2 }, "output_tokens": 7,
            },
        }),
        "/v1/responses" => json!({
            "object": "response", "output": [],
            "usage": {
                "input_tokens": 11, "input_tokens_details": { "cached_tokens": 4 },
                "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 1 },
                "total_tokens": 18,
            },
            "user": null,
        }),
        "/v1/chat/completions" => json!({
            "object": "chat.completion", "choices": [],
            "usage": {
                "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
                "prompt_tokens_details": { "cached_tokens": 4 },
            },
        }),
        _ => json!({
            "candidates": [],
            "usageMetadata": {
                "promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18,
                "cachedContentTokenCount": 4,
                "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 11 }],
            },
        }),
    }
}

fn events(path: &str) -> Vec<Value> {
    let text = "x".repeat(40_000);
    match path {
        "/v1/messages" => vec![
            json!({ "type": "message_start", "message": {
                "type": "message", "role": "assistant", "model": "m", "content": [],
                "usage": {
                    "input_tokens": 5, "cache_creation_input_tokens": 2,
                    "cache_read_input_tokens": 4, "output_tokens": 1,
                },
            } }),
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": text } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                "usage": { "output_tokens": 7 } }),
            json!({ "type": "message_stop" }),
        ],
        "/v1/responses" => vec![
            json!({ "type": "response.created", "response": { "usage": null } }),
            json!({ "type": "response.output_text.delta", "delta": text }),
            json!({ "type": "response.completed", "response": whole(path) }),
        ],
        "/v1/chat/completions" => vec![
            json!({ "choices": [{ "delta": { "content": text } }], "usage": null }),
            whole(path),
        ],
        _ => vec![
            json!({ "candidates": [{ "content": { "parts": [{ "text": text }] } }],
                "usageMetadata": { "promptTokenCount": 11, "totalTokenCount": 11 } }),
            whole(path),
        ],
    }
}

#[tokio::test]
async fn an_unread_answer_of_each_api_is_logged_and_traced_with_its_tokens() {
    let upstream = Upstream::with(|asked| answer(&asked)).await;
    let upstreams = format!(
        "upstreams: {{ gemini: {{ url: \"http://{0}\" }}, anthropic: {{ url: \"http://{0}\" }}, \
         openai: {{ url: \"http://{0}\" }} }}\n",
        upstream.addr
    );
    for (path, is_streamed) in PATHS.iter().flat_map(|path| [(path, false), (path, true)]) {
        let gate = TestGateway::start(&upstream, &format!("{AUDIT}{upstreams}")).await;
        let messages = json!([{ "role": "user", "content": "hi" }]);
        let mut body = json!({ "model": "m", "messages": messages, "input": "hi" });
        let mut target = (*path).to_owned();
        if is_streamed {
            target = target.replace(":generateContent", ":streamGenerateContent?alt=sse");
            body["stream"] = true.into();
        }
        let agent = gate.agent().sending("content-type", "application/json");
        let agent = agent.sending("accept-encoding", "gzip");

        let answer = agent.post(&target, body.to_string()).await;

        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        let calls = gate.operator().get("/calls").await;
        let lines = stop_and_read_log(gate).await;
        let expected = json!({ "prompt": 11, "candidates": 7, "total": 18 });
        assert_eq!(only(&lines, "outcome")["usage"], expected, "{target}");
        assert_eq!(calls.json()["calls"][0]["tokens"], 18, "{target}");
    }
}

#[tokio::test]
async fn an_answer_that_is_read_but_not_inspected_is_logged_and_traced_with_its_tokens() {
    let summary = json!({
        "id": "resp_1", "object": "response.compaction", "output": [],
        "usage": { "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 },
    });
    let cache = json!({ "name": "cachedContents/1", "usageMetadata": { "totalTokenCount": 120 } });
    let mut content = prompt("hi");
    content["model"] = json!("models/m");
    let input = json!({ "model": "m", "input": "hi" });
    let config = "upstreams: { gemini: { url: \"{upstream}\" }, openai: { url: \"{upstream}\" } }\n\
                  coverage: { compaction: known, allow: [\"cachedContents.*\"] }\n\
                  policies: [{ policy: request_limits, max_input: 1MiB }]\n";
    for (path, body, answer) in [
        ("/v1/responses/compact", input, summary),
        ("/v1beta/cachedContents", content, cache),
    ] {
        let upstream = Upstream::answering(&answer).await;
        let gate = TestGateway::start(&upstream, &format!("{AUDIT}{config}")).await;

        let answer = gate.agent().post(path, body.to_string()).await;

        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let traced = calls(&gate, "", 1).await;
        assert_eq!(traced["calls"][0]["tokens"], 120, "{path}: {traced:#}");
        let lines = stop_and_read_log(gate).await;
        assert_eq!(only(&lines, "outcome")["usage"]["total"], 120, "{path}");
    }
}

#[tokio::test]
async fn a_refused_answer_is_logged_and_traced_with_its_tokens() {
    let parts = json!([{ "functionCall": { "name": "rm", "args": {} } }]);
    let upstream = Upstream::answering(&json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }],
        "usageMetadata": {
            "promptTokenCount": 11, "candidatesTokenCount": 22, "totalTokenCount": 33,
        },
    }))
    .await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let after = hook::config(&[("AfterModel", hook::denying("guard", "no"))]);
    let before = hook::config(&[("BeforeTool", hook::printing("stop", &stop))]);
    for (audit, hooks) in [
        ("", &after),
        ("", &before),
        (AUDIT, &after),
        (AUDIT, &before),
    ] {
        let gate = TestGateway::start(&upstream, &format!("{audit}{hooks}")).await;

        gate.agent().generate(MODEL, &prompt("hello")).await;

        let traced = calls(&gate, "", 1).await;
        assert_eq!(traced["calls"][0]["tokens"], 33, "{hooks}: {traced:#}");
        if audit == AUDIT {
            let lines = stop_and_read_log(gate).await;
            let expected = json!({ "prompt": 11, "candidates": 22, "total": 33 });
            assert_eq!(only(&lines, "outcome")["usage"], expected, "{hooks}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_its_tokens_are_counted_has_none() {
    let mut start = events("/v1/messages").swap_remove(0);
    start["message"]["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
    let error = json!({ "type": "overloaded_error", "message": "later" });
    let error = json!({ "type": "error", "error": error });
    let stream = format!("data: {start}\n\ndata: {error}\n\n");
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
    let upstreams = "upstreams: { anthropic: { url: \"{upstream}\" } }\n";
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let body = json!({ "model": "m", "max_tokens": 9, "messages": messages, "stream": true });
    for policies in ["", "policies: [{ policy: redact, detect: [aws_key] }]\n"] {
        let gate = TestGateway::start(&upstream, &format!("{AUDIT}{upstreams}{policies}")).await;

        gate.agent().post("/v1/messages", body.to_string()).await;

        let traced = calls(&gate, "", 1).await;
        assert_eq!(traced["calls"][0]["tokens"], Value::Null, "{traced:#}");
        let lines = stop_and_read_log(gate).await;
        assert_eq!(only(&lines, "outcome")["usage"], Value::Null, "{policies}");
    }
}

#[tokio::test]
async fn the_tokens_of_a_compaction_are_logged_and_counted() {
    let iteration = |kind: &str, input: u64| {
        json!({
            "type": kind, "input_tokens": input, "output_tokens": 100,
            "cache_creation_input_tokens": 10, "cache_read_input_tokens": 1,
            "cache_creation": { "ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0 },
        })
    };
    let mut iterations = vec![iteration("message", 1000); 19];
    iterations.insert(3, iteration("compaction", 180_000));
    // They are the sums of all iterations but that of the compaction.
    let usage = json!({
        "input_tokens": 19_000, "output_tokens": 1900,
        "cache_creation_input_tokens": 190, "cache_read_input_tokens": 19,
        "server_tool_use": { "web_search_requests": 9 }, "iterations": iterations,
    });
    let prompt = 199_000 + 200 + 20;
    let expected = json!({ "prompt": prompt, "candidates": 2000, "total": prompt + 2000 });
    let body = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [{ "type": "text", "text": "hi" }], "stop_reason": "end_turn", "usage": usage,
    });
    let mut sent = events("/v1/messages");
    sent[1] = json!({ "type": "ping" });
    sent[2]["usage"] = usage;
    let events: Vec<String> = sent
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let stream = events.concat();
    let upstream = Upstream::with(move |asked| {
        if asked.body.contains(r#""stream":true"#) {
            respond(200, "text/event-stream", stream.clone())
        } else {
            respond(200, "application/json", body.to_string())
        }
    })
    .await;
    let upstreams = "upstreams: { anthropic: { url: \"{upstream}\" } }\n";
    let callers = auth(&[("team-a", ", tokens_per_day: 1000000")]);
    let policies = "policies: [{ policy: redact, detect: [aws_key] }]\n";
    for (policies, is_streamed) in ["", policies]
        .iter()
        .flat_map(|policies| [(policies, false), (policies, true)])
    {
        let config = format!("{AUDIT}{upstreams}{callers}{policies}");
        let gate = TestGateway::start(&upstream, &config).await;
        let messages = json!([{ "role": "user", "content": "hi" }]);
        let body =
            json!({ "model": "m", "max_tokens": 9, "messages": messages, "stream": is_streamed });
        let agent = gate.agent().sending("x-hookgate-key", "team-a-key");

        let answer = agent.post("/v1/messages", body.to_string()).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let metrics = gate.operator().get("/metrics").await;
        let total = "hookgate_caller_tokens_total{caller=\"team-a\"} 201220\n";
        assert!(metrics.text().contains(total), "{}", metrics.text());
        let lines = stop_and_read_log(gate).await;
        assert_eq!(only(&lines, "outcome")["usage"], expected, "{config}");
    }
}
