//! Lines of the decision log as OTLP log records.

use serde_json::{Value, json};

use super::{attribute, collector, records, spans, telemetry};
use crate::harness::{TestGateway, Upstream, hook, prompt, run_with_input};

#[tokio::test]
async fn log_records_contain_no_content_with_and_without_a_log_file() {
    let denying = hook::printing(
        "no",
        &json!({ "decision": "deny", "reason": "a secret reason" }),
    );
    let hooks = hook::config(&[("BeforeTool", denying)]);
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

        let folder = gate.stop_and_keep_files().await;
        if !audit.is_empty() {
            let file = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
            assert!(file.contains("a secret prompt") && file.contains("a secret reason"));
            assert!(file.contains("a secret argument") && file.contains("a-secret-path"));
        }
        let records = records(&collector);
        let kinds: Vec<&str> = records
            .iter()
            .map(|record| attribute(record, "hookgate.kind"))
            .collect();
        let of_agents = ["request", "outcome", "event", "rejected"];
        // A log file adds a first and a last line about itself.
        let (records, kinds) = match audit {
            "" => (&records[..], &kinds[..]),
            _ => (&records[1..], &kinds[1..kinds.len() - 1]),
        };
        assert_eq!(kinds, of_agents);
        let id = answer.header("x-hookgate-request-id");
        assert_eq!(attribute(&records[1], "hookgate.request.id"), id);
        let spans = spans(&collector);
        let seq = if audit.is_empty() { "" } else { "2" };
        assert_eq!(attribute(&records[0], "hookgate.audit.seq"), seq);
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
        for request in collector.requests() {
            assert!(!request.body.contains("secret"), "{}", request.body);
        }
    }
}

#[tokio::test]
async fn a_flood_of_rejected_requests_is_not_exported_one_by_one() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, ", traces: false")).await;

    let agent = gate.agent();
    let requests = (0..400).map(|_| agent.post("/nowhere", ""));
    futures_util::future::join_all(requests).await;

    gate.stop().await;
    let records = records(&collector);
    assert!(records.len() < 400, "{}", records.len());
    assert!(spans(&collector).is_empty());
}

/// The log as a collector received it, one line per record.
fn exported_log(collector: &Upstream) -> String {
    let body = |record: &Value| format!("{}\n", record["body"]["stringValue"].as_str().unwrap());
    records(collector).iter().map(body).collect()
}

#[tokio::test]
async fn the_exported_log_equals_the_log_file_and_verifies() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let config = telemetry(&collector, "") + "audit: { path: audit.jsonl }\n";
    let gate = TestGateway::start(&upstream, &config).await;
    for number in 0..5 {
        gate.agent()
            .generate("m", &prompt(&format!("{number}")))
            .await;
    }
    let folder = gate.stop_and_keep_files().await;

    let exported = exported_log(&collector);

    let file = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert_eq!(exported, file);
    for (record, line) in records(&collector).iter().zip(file.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            attribute(record, "hookgate.audit.seq"),
            line["seq"].to_string()
        );
        assert_eq!(attribute(record, "hookgate.audit.prev"), line["prev"]);
        assert_eq!(attribute(record, "hookgate.audit.hash"), line["hash"]);
    }
    let verify = |text: &str| run_with_input(&["audit", "verify", "--stdin"], text);
    let (code, out, _) = verify(&exported);
    assert!(
        code == 0 && out.contains("valid: 12 lines from 1 to 12"),
        "{out}"
    );
    let lines: Vec<&str> = exported.split_inclusive('\n').collect();

    let repeated = [&lines[3..8], &lines[5..]].concat().concat();
    let (code, out, _) = verify(&repeated);
    assert!(code == 0 && out.contains("; 3 lines are repeated"), "{out}");

    let gap = [&lines[..4], &lines[6..]].concat().concat();
    let (code, _, error) = verify(&gap);
    assert!(
        code == 1 && error.contains("missing: lines 5 to 6"),
        "{error}"
    );

    let changed = exported.replacen("\"status\":200", "\"status\":201", 1);
    let (code, _, error) = verify(&changed);
    assert!(
        code == 1 && error.contains("input line 3: hash mismatch"),
        "{error}"
    );
}

#[tokio::test]
async fn an_exported_log_with_masked_fields_verifies_by_position() {
    let upstream = Upstream::mock().await;
    let collector = collector().await;
    let config = telemetry(&collector, "") + "audit: { path: audit.jsonl, content: true }\n";
    let gate = TestGateway::start(&upstream, &config).await;
    gate.agent().generate("m", &prompt("a secret prompt")).await;
    gate.stop().await;

    let exported = exported_log(&collector);

    assert!(!exported.contains("secret"), "{exported}");
    let (code, out, _) = run_with_input(&["audit", "verify", "--stdin"], &exported);
    let masked = "of 1 lines with masked fields only the place is verified";
    assert!(code == 0 && out.contains(masked), "{out}");
    let moved = exported.replacen("\"seq\":2,", "\"seq\":3,", 1);
    let (code, _, error) = run_with_input(&["audit", "verify", "--stdin"], &moved);
    assert!(code == 1 && error.contains("not intact"), "{error}");
}
