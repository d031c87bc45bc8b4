//! Spans: attributes, status, parents and trace context.

use serde_json::{Value, json};

use super::{attribute, collector, only, spans, telemetry};
use crate::families::family::{Family, Part, Turn};
use crate::harness::{TestGateway, Upstream, hook, prompt, respond, send_and_read};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const AGENTS_SPAN: &str = "b7ad6b7169203331";

/// An agent's `traceparent` without the sampled flag.
fn parent() -> String {
    format!("00-{TRACE}-{AGENTS_SPAN}-00")
}

fn answer() -> Value {
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": [{ "text": "fine" }] },
            "finishReason": "STOP",
        }],
        "usageMetadata": {
            "promptTokenCount": 11,
            "candidatesTokenCount": 7,
            "totalTokenCount": 18,
        },
        "modelVersion": "gemini-2.5-pro-002",
    })
}

/// A timestamp of a span, in nanoseconds since 1970.
fn timestamp(span: &Value, field: &str) -> i128 {
    span[field].as_str().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_within(inner: &Value, outer: &Value) {
    // The monotonic and the wall clock differ slightly.
    let slack = 20_000_000;
    let (from, to) = ("startTimeUnixNano", "endTimeUnixNano");
    assert!(
        timestamp(inner, from) >= timestamp(outer, from) - slack,
        "{inner:#}"
    );
    assert!(
        timestamp(inner, to) <= timestamp(outer, to) + slack,
        "{inner:#}"
    );
    assert!(timestamp(inner, from) <= timestamp(inner, to), "{inner:#}");
    assert_eq!(inner["traceId"], outer["traceId"]);
    assert_eq!(inner["parentSpanId"], outer["spanId"]);
}

#[tokio::test]
async fn a_call_continues_the_agents_trace_and_propagates_it_upstream() {
    let upstream = Upstream::answering(&answer()).await;
    let collector = collector().await;
    let hooks = hook::config(&[("BeforeModel", hook::printing("look", &json!({})))]);
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

    let upstream_request = upstream.only_request();
    let sent = format!("00-{TRACE}-{}-01", call["spanId"].as_str().unwrap());
    assert_eq!(upstream_request.header("traceparent"), sent);
    assert_eq!(upstream_request.header("tracestate"), "vendor=1");
    let resource = &collector.requests()[0].json()["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), "gate-7");
}

#[tokio::test]
async fn a_missing_or_invalid_traceparent_starts_a_new_trace() {
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
    for (span, upstream_request) in spans.iter().zip(upstream.requests()) {
        assert_eq!(span["parentSpanId"], Value::Null);
        let id = |name: &str| span[name].as_str().unwrap().to_owned();
        let sent = format!("00-{}-{}-01", id("traceId"), id("spanId"));
        assert_eq!(upstream_request.header("traceparent"), sent);
        assert_eq!(
            upstream_request.header("tracestate"),
            "",
            "the tracestate belongs to another trace"
        );
    }
}

#[tokio::test]
async fn duplicate_traceparent_headers_start_a_new_trace() {
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

    let answer = send_and_read(gate.agents, request.as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    gate.stop().await;
    assert_ne!(spans(&collector)[0]["traceId"], TRACE);
    let upstream_request = upstream.only_request();
    assert_eq!(
        upstream_request
            .headers
            .get_all("traceparent")
            .iter()
            .count(),
        1
    );
    assert!(!upstream_request.header("traceparent").contains(TRACE));
}

#[tokio::test]
async fn without_spans_the_agents_traceparent_is_forwarded_unchanged() {
    for config in [
        String::new(),
        telemetry(&collector().await, ", traces: false"),
    ] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        let agent = gate.agent().sending("traceparent", parent());

        agent.generate("m", &prompt("hi")).await;

        assert_eq!(upstream.only_request().header("traceparent"), parent());
        gate.stop().await;
    }
}

#[tokio::test]
async fn denied_calls_upstream_errors_and_failed_hooks_set_the_span_status() {
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
    let blocking = only(&spans, "hook says-no");
    assert_eq!(attribute(blocking, "hookgate.hook.status"), "block");
    assert_eq!(blocking["status"], Value::Null);
    let failed = only(&spans, "generate_content failing");
    assert_eq!(attribute(failed, "error.type"), "503");
    assert_eq!(
        attribute(failed, "hookgate.method"),
        "streamGenerateContent"
    );
    let failing: Vec<_> = spans
        .iter()
        .filter(|span| span["name"] == "hook falls")
        .collect();
    assert_eq!(failing.len(), 2);
    assert!(failing.iter().all(|span| span["status"]["code"] == 2));
}

#[tokio::test]
async fn a_denial_before_the_model_api_has_no_model_of_a_response() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "no"))]);
    let config = telemetry(&collector, "") + &hooks;
    let gateway = Family::Anthropic.gateway(&upstream, &config).await;

    let turns = [Turn::User("hi")];
    let answer = Family::Anthropic.ask(&gateway, false, &turns).await;

    assert!(answer.json()["model"].is_string(), "{}", answer.text());
    gateway.stop().await;
    let spans = spans(&collector);
    let is_call = |span: &&Value| attribute(span, "gen_ai.operation.name") == "chat";
    let call = spans.iter().find(is_call).unwrap();
    assert_eq!(attribute(call, "hookgate.rounds"), "0");
    assert_eq!(attribute(call, "gen_ai.response.model"), "");
}

#[tokio::test]
async fn all_chunks_of_a_stream_are_one_span() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let hooks = hook::config(&[("AfterModel", hook::printing("after", &json!({})))]);
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
async fn a_reported_event_is_a_span_in_the_agents_trace() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let hooks = hook::config(&[("BeforeTool", hook::printing("look", &json!({})))]);
    let gate = TestGateway::start(&upstream, &(telemetry(&collector, "") + &hooks)).await;
    let agent = gate.agent().sending("traceparent", parent());
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "ls", "tool_input": {} });

    let reported = agent.report(&event, "").await;

    assert_eq!(reported.status, 200);
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
async fn other_apis_and_operations_have_their_own_span_names() {
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

#[tokio::test]
async fn a_model_behind_long_instructions_is_the_model_of_the_response() {
    for is_stream in [false, true] {
        let upstream = Upstream::with(move |_| {
            let instructions = "be kind. ".repeat(4000);
            let response = format!(
                r#"{{"id":"resp_1","object":"response","status":"completed","instructions":"{instructions}","model":"gpt-x","output":[]}}"#
            );
            if is_stream {
                let event = r#"{"type":"response.completed","sequence_number":0,"response":"#;
                let events = format!("event: response.completed\ndata: {event}{response}}}\n\n");
                respond(200, "text/event-stream", events)
            } else {
                respond(200, "application/json", response)
            }
        })
        .await;
        let collector = collector().await;
        let config = telemetry(&collector, "");
        let gateway = Family::Responses.gateway(&upstream, &config).await;

        let body = json!({ "model": "m", "input": "hi", "stream": is_stream });
        let agent = gateway.agent();
        agent.post("/v1/responses", body.to_string()).await;

        gateway.stop().await;
        let spans = spans(&collector);
        let call = only(&spans, "chat");
        assert_eq!(attribute(call, "gen_ai.response.model"), "gpt-x");
    }
}

#[tokio::test]
async fn spans_of_anthropic_and_openai_calls_have_their_provider_and_model() {
    for (family, provider) in [
        (Family::Anthropic, "anthropic"),
        (Family::Responses, "openai"),
        (Family::Chat, "openai"),
    ] {
        for is_stream in [false, true] {
            let upstream = family.upstream(vec![vec![Part::text(&["fine"])]]).await;
            let collector = collector().await;
            let gateway = family.gateway(&upstream, &telemetry(&collector, "")).await;

            family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            gateway.stop().await;
            let spans = spans(&collector);
            // Without hooks the request is not read, so its model is not part of the name.
            let call = only(&spans, "chat");
            assert_eq!(attribute(call, "gen_ai.provider.name"), provider);
            assert_eq!(attribute(call, "gen_ai.operation.name"), "chat");
            let model = attribute(call, "gen_ai.response.model");
            assert!(!model.is_empty(), "{family:?}: {call:#}");
        }
    }
}
