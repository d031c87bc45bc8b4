//! What spans hold, and how they hang together.

use serde_json::{Value, json};

use super::{attribute, collector, only, spans, telemetry};
use crate::harness::{TestGateway, Upstream, exchange, hook, prompt, respond};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const AGENTS_SPAN: &str = "b7ad6b7169203331";

/// An agent's `traceparent`, which says that it is not sampled.
fn parent() -> String {
    format!("00-{TRACE}-{AGENTS_SPAN}-00")
}

fn answer() -> Value {
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": [{ "text": "fine" }] },
            "finishReason": "STOP",
        }],
        "usageMetadata": { "promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18 },
        "modelVersion": "gemini-2.5-pro-002",
    })
}

/// Nanoseconds since 1970.
fn time(span: &Value, end: &str) -> i128 {
    span[end].as_str().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_within(inner: &Value, outer: &Value) {
    // Clocks that run and clocks that are set are not the same.
    let slack = 20_000_000;
    let (from, to) = ("startTimeUnixNano", "endTimeUnixNano");
    assert!(time(inner, from) >= time(outer, from) - slack, "{inner:#}");
    assert!(time(inner, to) <= time(outer, to) + slack, "{inner:#}");
    assert!(time(inner, from) <= time(inner, to), "{inner:#}");
    assert_eq!(inner["traceId"], outer["traceId"]);
    assert_eq!(inner["parentSpanId"], outer["spanId"]);
}

#[tokio::test]
async fn a_call_goes_on_with_the_agents_trace_and_so_does_upstream() {
    let upstream = Upstream::answering(&answer()).await;
    let collector = collector().await;
    let hooks = hook::config(&[("BeforeModel", hook::saying("look", &json!({})))]);
    let config = telemetry(&collector, ", service_name: gate-7") + &hooks;
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("traceparent", parent());
    let agent = agent.sending("tracestate", "vendor=1");
    let agent = agent.sending("x-hookgate-session", "my-session");

    let answer = agent.generate("gemini-2.5-pro", &prompt("hi")).await;

    gate.stop().await;
    let spans = spans(&collector);
    let call = only(&spans, "generate_content gemini-2.5-pro");
    assert_eq!(call["traceId"], TRACE);
    assert_eq!(call["parentSpanId"], AGENTS_SPAN);
    assert_eq!(call["kind"], 3);
    assert_eq!(call["status"], Value::Null);
    let id = answer.header("x-hookgate-request-id");
    let expected = [
        ("gen_ai.operation.name", "generate_content"),
        ("gen_ai.provider.name", "gcp.gemini"),
        ("gen_ai.request.model", "gemini-2.5-pro"),
        ("gen_ai.response.model", "gemini-2.5-pro-002"),
        ("gen_ai.usage.input_tokens", "11"),
        ("gen_ai.usage.output_tokens", "7"),
        ("gen_ai.conversation.id", "my-session"),
        ("http.response.status_code", "200"),
        ("error.type", ""),
        ("hookgate.action", "pass"),
        ("hookgate.request.id", id),
        ("hookgate.session.id", "my-session"),
        ("hookgate.rounds", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(attribute(call, name), value, "{name}: {call:#}");
    }
    let event = only(&spans, "BeforeModel");
    assert_within(event, call);
    assert_eq!(attribute(event, "hookgate.verdict"), "proceed");
    let hook = only(&spans, "hook look");
    assert_within(hook, event);
    assert_eq!(attribute(hook, "hookgate.hook.status"), "ok");
    assert_eq!(spans.len(), 3);

    let asked = upstream.only();
    let sent = format!("00-{TRACE}-{}-01", call["spanId"].as_str().unwrap());
    assert_eq!(asked.header("traceparent"), sent);
    assert_eq!(asked.header("tracestate"), "vendor=1");
    let resource = &collector.seen()[0].json()["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), "gate-7");
}

#[tokio::test]
async fn what_is_no_trace_begins_one() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, "")).await;
    let agents = [
        gate.agent(),
        gate.agent().sending("traceparent", "00-CANARY-CANARY-01"),
    ];

    for agent in agents {
        let agent = agent.sending("tracestate", "vendor=1");
        agent.generate("m", &prompt("hi")).await;
    }

    gate.stop().await;
    let spans = spans(&collector);
    assert_eq!(spans.len(), 2);
    assert_ne!(spans[0]["traceId"], spans[1]["traceId"]);
    for (span, asked) in spans.iter().zip(upstream.seen()) {
        assert_eq!(span["parentSpanId"], Value::Null);
        let id = |name: &str| span[name].as_str().unwrap().to_owned();
        let sent = format!("00-{}-{}-01", id("traceId"), id("spanId"));
        assert_eq!(asked.header("traceparent"), sent);
        assert_eq!(asked.header("tracestate"), "", "it was of another trace");
    }
}

#[tokio::test]
async fn two_traceparents_are_none() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, "")).await;
    let body = prompt("hi").to_string();
    let request = format!(
        "POST /v1beta/models/m:generateContent HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         traceparent: {0}\r\ntraceparent: {0}\r\ncontent-length: {1}\r\n\r\n{body}",
        parent(),
        body.len()
    );

    let answer = exchange(gate.agents, request.as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    gate.stop().await;
    assert_ne!(spans(&collector)[0]["traceId"], TRACE);
    let asked = upstream.only();
    assert_eq!(asked.headers.get_all("traceparent").iter().count(), 1);
    assert!(!asked.header("traceparent").contains(TRACE));
}

#[tokio::test]
async fn without_spans_the_agents_headers_travel_unchanged() {
    for config in [
        String::new(),
        telemetry(&collector().await, ", traces: false"),
    ] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        let agent = gate.agent().sending("traceparent", parent());

        agent.generate("m", &prompt("hi")).await;

        assert_eq!(upstream.only().header("traceparent"), parent());
        gate.stop().await;
    }
}

#[tokio::test]
async fn a_refusal_an_error_and_a_failed_hook_are_different_statuses() {
    let upstream = Upstream::with(|_| respond(503, "application/json", "{}")).await;
    let collector = collector().await;
    let config = telemetry(&collector, "")
        + "denials: error
hooks:
  BeforeModel:
    - hooks:
        - { name: falls, command: exit 1 }
        - { name: says-no, command: 'exit 2', when: 'request.model == \"refused\"' }
";
    let gate = TestGateway::start(&upstream, &config).await;

    let refused = gate.agent().generate("refused", &prompt("hi")).await;
    let failed = gate.agent().stream("failing", &prompt("hi")).await;

    assert_eq!((refused.status, failed.status), (403, 503));
    gate.stop().await;
    let spans = spans(&collector);
    let refused = only(&spans, "generate_content refused");
    assert_eq!(attribute(refused, "hookgate.action"), "deny");
    assert_eq!(attribute(refused, "error.type"), "403");
    assert_eq!(attribute(refused, "gen_ai.response.model"), "");
    assert_eq!(refused["status"]["code"], 2);
    let no = only(&spans, "hook says-no");
    assert_eq!(attribute(no, "hookgate.hook.status"), "block");
    assert_eq!(no["status"], Value::Null);
    let failed = only(&spans, "generate_content failing");
    assert_eq!(attribute(failed, "error.type"), "503");
    assert_eq!(
        attribute(failed, "hookgate.method"),
        "streamGenerateContent"
    );
    let falls: Vec<_> = spans
        .iter()
        .filter(|it| it["name"] == "hook falls")
        .collect();
    assert_eq!(falls.len(), 2);
    assert!(falls.iter().all(|it| it["status"]["code"] == 2));
}

#[tokio::test]
async fn all_chunks_of_a_stream_are_one_span() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let hooks = hook::config(&[("AfterModel", hook::saying("after", &json!({})))]);
    let gate = TestGateway::start(&upstream, &(telemetry(&collector, "") + &hooks)).await;

    gate.agent().stream("m", &prompt("a b c d e f")).await;

    gate.stop().await;
    let spans = spans(&collector);
    let event = only(&spans, "AfterModel");
    let chunks: u64 = attribute(event, "hookgate.chunks").parse().unwrap();
    assert!(chunks > 1);
    assert_within(event, only(&spans, "generate_content m"));
    let hook = only(&spans, "hook after");
    assert_within(hook, event);
    assert_eq!(attribute(hook, "hookgate.hook.runs"), chunks.to_string());
}

#[tokio::test]
async fn a_reported_event_is_a_span_of_the_agents() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let hooks = hook::config(&[("BeforeTool", hook::saying("look", &json!({})))]);
    let gate = TestGateway::start(&upstream, &(telemetry(&collector, "") + &hooks)).await;
    let agent = gate.agent().sending("traceparent", parent());
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "ls", "tool_input": {} });

    let told = agent.report(&event, "").await;

    assert_eq!(told.status, 200);
    gate.stop().await;
    let spans = spans(&collector);
    let event = only(&spans, "BeforeTool");
    assert_eq!(event["traceId"], TRACE);
    assert_eq!(event["parentSpanId"], AGENTS_SPAN);
    assert_eq!(attribute(event, "hookgate.origin"), "reported");
    assert_eq!(attribute(event, "hookgate.subject"), "ls");
    assert_within(only(&spans, "hook look"), event);
}

#[tokio::test]
async fn other_apis_and_operations_have_names_of_their_own() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, "")).await;
    let agent = gate.agent();
    let vertex = "/v1/projects/p/locations/l/publishers/google/models/m:generateContent";

    agent.post(vertex, prompt("hi").to_string()).await;
    let body = json!({ "content": { "parts": [{ "text": "hi" }] } }).to_string();
    agent.post("/v1beta/models/e:embedContent", body).await;
    agent
        .post("/v1beta/models/c:countTokens", prompt("hi").to_string())
        .await;

    gate.stop().await;
    let spans = spans(&collector);
    let of_vertex = only(&spans, "generate_content m");
    assert_eq!(
        attribute(of_vertex, "gen_ai.provider.name"),
        "gcp.vertex_ai"
    );
    only(&spans, "embeddings e");
    only(&spans, "countTokens c");
}
