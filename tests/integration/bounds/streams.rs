//! Streams: what is held back of them, and their text, count against limits.

use serde_json::{Value, json};

use super::{SSE, until_metric};
use crate::harness::{End, TestGateway, Upstream, assert_refused, prompt, read_to_end, respond};

pub const BEFORE_TOOL: &str =
    "hooks: { BeforeTool: [{ hooks: [{ command: cat > /dev/null }] }] }\n";
const AFTER_AGENT: &str = "hooks: { AfterAgent: [{ hooks: [{ command: cat > /dev/null }] }] }\n";
const GUARD: &str = "policies: [{ policy: tool_guard, deny: [bad] }]\n";

fn candidate(index: usize, part: &Value) -> Value {
    json!({ "content": { "role": "model", "parts": [part] }, "index": index })
}

pub fn text_chunk(text: &str) -> Value {
    json!({ "candidates": [candidate(0, &json!({ "text": text }))] })
}

/// The end of an answer, with a field of this size.
fn end(size: usize) -> Value {
    let candidate = json!({ "finishReason": "STOP", "index": 0 });
    json!({ "candidates": [candidate], "responseId": "x".repeat(size) })
}

/// Starts an upstream that answers with this stream.
async fn upstream(chunks: &[Value]) -> Upstream {
    let chunks = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n"));
    let body: String = chunks.collect();
    Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await
}

#[tokio::test]
async fn the_held_part_of_a_stream_is_bounded() {
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": {} } });
    let texts = vec![text_chunk(&"x".repeat(1024)); 32];
    let behind_a_call = [
        vec![json!({ "candidates": [candidate(0, &call("good"))] })],
        texts,
    ];
    let mut denied = json!({ "candidates": [candidate(1, &call("bad"))] });
    denied["responseId"] = "x".repeat(1024).into();
    let cases = [
        (BEFORE_TOOL, behind_a_call.concat()),
        (GUARD, behind_a_call.concat()),
        (GUARD, vec![denied; 32]),
        (AFTER_AGENT, vec![end(1024); 32]),
    ];
    for (config, mut chunks) in cases {
        chunks.push(end(0));
        let upstream = upstream(&chunks).await;
        let config = format!("limits: {{ response: 16KiB }}\n{config}");
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = gate.agent().post(SSE, prompt("hello").to_string()).await;

        assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    }
}

#[tokio::test]
async fn a_text_may_be_longer_than_a_buffered_response() {
    let text = text_chunk(&"x".repeat(1024));
    // Some models set a finish reason in every chunk.
    let mut finished = text.clone();
    finished["candidates"][0]["finishReason"] = "STOP".into();
    for (config, chunk) in [
        (BEFORE_TOOL, &text),
        (AFTER_AGENT, &text),
        (AFTER_AGENT, &finished),
    ] {
        let mut chunks = vec![chunk.clone(); 64];
        chunks.push(end(0));
        let upstream = upstream(&chunks).await;
        let config = format!("limits: {{ response: 16KiB }}\n{config}");
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = gate.agent().post(SSE, prompt("hello").to_string()).await;

        assert_eq!(answer.events(), chunks, "{config}");
    }
}

#[tokio::test]
async fn the_text_of_a_stream_is_buffered_memory() {
    let mut chunks = vec![text_chunk(&"x".repeat(64 << 10)); 64];
    chunks.push(end(0));
    let upstream = upstream(&chunks).await;
    let config = format!("limits: {{ body: 1MiB, memory: 2MiB }}\n{BEFORE_TOOL}");
    let gate = TestGateway::start(&upstream, &config).await;

    let mut answer = gate.agent().open(SSE, prompt("hello").to_string()).await;

    let (_, end) = read_to_end(&mut answer).await;
    assert_eq!(end, End::Broken);
    until_metric(&gate, "hookgate_buffered_bytes 0").await;
}

#[tokio::test]
async fn the_events_of_a_json_answer_to_a_request_for_a_stream_are_buffered_memory() {
    let answer = |text: &str| {
        let block = json!({ "type": "output_text", "text": text, "annotations": [] });
        let item = json!({ "id": "msg_1", "type": "message", "role": "assistant",
            "status": "completed", "content": [block] });
        json!({ "id": "resp_1", "object": "response", "status": "completed", "output": [item] })
    };
    for mode in ["chunk", "buffered"] {
        for (size, is_admitted) in [(128 << 10, true), (512 << 10, false)] {
            let upstream = Upstream::answering(&answer(&"x".repeat(size))).await;
            let limits = "limits: { body: 1MiB, memory: 2MiB }";
            let upstreams = "upstreams: { openai: { url: \"{upstream}\" } }";
            let config = format!("{upstreams}\n{limits}\nafter_model: {mode}\n{BEFORE_TOOL}");
            let gate = TestGateway::start(&upstream, &config).await;
            let body = json!({ "model": "m", "input": "hello", "stream": true });

            let mut answer = gate.agent().open("/v1/responses", body.to_string()).await;

            let (events, _) = read_to_end(&mut answer).await;
            let is_complete = events.contains("response.completed");
            assert_eq!(is_complete, is_admitted, "{mode} {size}");
            until_metric(&gate, "hookgate_buffered_bytes 0").await;
        }
    }
}

#[tokio::test]
async fn an_event_takes_memory_however_small_it_is() {
    let call = json!({ "functionCall": { "name": "good", "args": {} } });
    let call = json!({ "candidates": [candidate(0, &call)] });
    let behind_a_call = format!("data: {call}\n\n{}", "data:{}\n\n".repeat(4096));
    for (limits, status, reason) in [
        ("body: 1MiB, memory: 2MiB", 503, "OVERLOADED"),
        ("response: 2MiB", 502, "UPSTREAM_UNREADABLE"),
    ] {
        for mode in ["chunk", "buffered"] {
            let body = behind_a_call.clone();
            let upstream =
                Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
            let config = format!("limits: {{ {limits} }}\nafter_model: {mode}\n{BEFORE_TOOL}");
            let gate = TestGateway::start(&upstream, &config).await;

            let answer = gate.agent().post(SSE, prompt("hello").to_string()).await;

            assert_refused(&answer, status, reason);
            until_metric(&gate, "hookgate_buffered_bytes 0").await;
        }
    }
}
