//! Lines of the decision log as log records.

use serde_json::{Value, json};

use super::{attribute, collector, records, spans, telemetry};
use crate::harness::{TestGateway, Upstream, hook, prompt};

#[tokio::test]
async fn lines_are_exported_without_content_with_and_without_a_file() {
    let no = hook::saying(
        "no",
        &json!({ "decision": "deny", "reason": "a secret reason" }),
    );
    let hooks = hook::config(&[("BeforeTool", no)]);
    for audit in ["", "audit: { path: audit.jsonl, content: true }\n"] {
        let upstream = Upstream::mock().await;
        let collector = collector().await;
        let config = telemetry(&collector, "") + audit + &hooks;
        let gate = TestGateway::start(&upstream, &config).await;
        let agent = gate.agent().sending("x-goog-api-key", "a-secret-key");

        let answer = agent.generate("m", &prompt("a secret prompt")).await;
        let input = json!({ "secret": "a secret argument" });
        let event =
            json!({ "hook_event_name": "BeforeTool", "tool_name": "ls", "tool_input": input });
        agent.report(&event, "").await;
        agent.post("/v1/a-secret-path", "").await;

        let held = gate.stop_keeping().await;
        if !audit.is_empty() {
            let file = std::fs::read_to_string(held.path().join("audit.jsonl")).unwrap();
            assert!(file.contains("a secret prompt") && file.contains("a secret reason"));
            assert!(file.contains("a secret argument") && file.contains("a-secret-path"));
        }
        let records = records(&collector);
        let kinds: Vec<&str> = records
            .iter()
            .map(|it| attribute(it, "hookgate.kind"))
            .collect();
        assert_eq!(kinds, ["request", "outcome", "event", "rejected"]);
        let id = answer.header("x-hookgate-request-id");
        assert_eq!(attribute(&records[1], "hookgate.request.id"), id);
        let spans = spans(&collector);
        for record in &records[..2] {
            assert_eq!(record["traceId"], spans[0]["traceId"]);
            assert_eq!(record["spanId"], spans[0]["spanId"]);
        }
        let body = |at: usize| {
            let body = records[at]["body"]["stringValue"].as_str().unwrap();
            serde_json::from_str::<Value>(body).unwrap()
        };
        assert_eq!(body(0)["model"], "m");
        assert_eq!(body(1)["response"]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(body(2)["reason"]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(body(2)["verdict"], "deny");
        for asked in collector.seen() {
            assert!(!asked.body.contains("secret"), "{}", asked.body);
        }
    }
}

#[tokio::test]
async fn a_flood_of_rejected_requests_is_counted_and_not_exported_one_by_one() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, ", traces: false")).await;

    let agent = gate.agent();
    let knocks = (0..400).map(|_| agent.post("/nowhere", ""));
    futures_util::future::join_all(knocks).await;

    gate.stop().await;
    let records = records(&collector);
    assert!(records.len() < 400, "{}", records.len());
    assert!(spans(&collector).is_empty());
}
