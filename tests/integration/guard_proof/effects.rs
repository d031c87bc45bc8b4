//! Side effects of proofs: none on sessions, upstreams, the decision log, metrics and quotas.

use std::fs;

use serde_json::json;

use super::{GUARD, ProofGateway};
use crate::harness::{TEST_TIMEOUT, eventually, prompt};

const CONFIG: &str = "\
proof: { every: 50ms }
audit: { path: decisions.jsonl, mode: durable }
policies:
  - policy: request_limits
    max_calls: 1
    must_allow: [{ prompt: hello }]
  - policy: tool_guard
    deny: [mcp_*]
    must_deny: [{ tool_call: { name: mcp_x } }]
hooks:
  BeforeModel:
    - hooks:
        - { name: words, command: bash guard.sh, must_deny: [{ prompt: rm -rf / }], must_allow: [{ prompt: hello }] }
  AfterModel:
    - hooks:
        - { name: answers, command: bash guard.sh, must_deny: [{ answer: rm -rf / }] }
  BeforeTool:
    - hooks:
        - name: shell
          command: bash guard.sh
          context: true
          must_deny:
            - tool_call: { name: run_shell_command, args: { command: rm -rf / } }
            - event: { hook_event_name: BeforeTool, tool_name: x, tool_input: { command: rm -rf / } }
  AfterTool:
    - hooks:
        - { name: results, command: bash guard.sh, must_deny: [{ tool_result: { name: read_file, result: rm -rf / } }] }
";

#[tokio::test]
async fn proofs_affect_no_session_upstream_decision_log_metric_or_quota() {
    let gateway = ProofGateway::start(CONFIG, &[("guard.sh", GUARD)]).await;
    eventually("many proofs", TEST_TIMEOUT, || gateway.runs().len() > 30).await;

    assert_eq!(gateway.upstream.requests().len(), 0);
    let sessions = gateway.operator.get("/sessions").await;
    assert_eq!(
        sessions.json()["sessions"],
        json!([]),
        "{}",
        sessions.text()
    );
    let metrics = gateway.operator.get("/metrics").await;
    for name in [
        "hookgate_requests_total{",
        "hookgate_hook_runs_total{",
        "hookgate_hook_duration_seconds_count{",
        "hookgate_denials_total{",
        "hookgate_session_lookups_total{",
        "hookgate_caller_requests_total{",
    ] {
        let mut lines = metrics.text().lines();
        let is_counted = |line: &str| line.starts_with(name) && !line.ends_with(" 0");
        assert!(!lines.any(is_counted), "{name}\n{}", metrics.text());
    }
    assert!(
        metrics.text().contains("hookgate_chunks_total 0"),
        "{}",
        metrics.text()
    );
    let path = gateway.folder.path().join("decisions.jsonl");
    let log = fs::read_to_string(path).unwrap_or_default();
    for kind in ["exchange", "event", "denied", "rejected"] {
        assert!(!log.contains(&format!("\"kind\":\"{kind}\"")), "{log}");
    }
    assert!(!log.contains("hookgate-proof"), "{log}");
    for name in [
        "words",
        "answers",
        "shell",
        "results",
        "tool_guard",
        "request_limits",
    ] {
        gateway.wait_for_proof(name, true).await;
    }

    // The session's quota of one call is unused.
    let called = gateway.agent.generate("m", &prompt("hello")).await;
    assert!(called.text().contains("You said"), "{}", called.text());
    assert_eq!(gateway.upstream.requests().len(), 1);
}

#[tokio::test]
async fn proofs_have_a_session_id_with_a_prefix_and_no_transcript() {
    let gateway = ProofGateway::start(CONFIG, &[("guard.sh", GUARD)]).await;
    eventually("proofs", TEST_TIMEOUT, || !gateway.runs().is_empty()).await;

    for input in gateway.runs() {
        let session = input["session_id"].as_str().unwrap();
        assert!(session.starts_with("hookgate-proof-"), "{input}");
        assert_eq!(input["transcript_path"], "");
    }
}
