//! Admin API: health, metrics, the list of hooks, access control and response headers.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{Browser, TestGateway, Upstream, assert_refused, hook, prompt};

const MODEL: &str = "gemini-2.5-pro";

#[tokio::test]
async fn health_and_readiness_are_reported() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    for path in ["/healthz", "/readyz"] {
        let answer = gate.operator().get(path).await;

        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({ "status": "ok" }))
        );
    }
}

#[tokio::test]
async fn each_listener_serves_its_own_paths_only() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let mut refused = Vec::new();

    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/hooks",
        "/coverage",
        "/",
    ] {
        refused.push(gate.agent().get(path).await);
    }
    refused.push(gate.operator().get("/v1beta/models").await);
    refused.push(gate.operator().post("/hookgate/v1/events", "{}").await);

    for answer in refused {
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert_eq!(
            answer.json()["error"]["details"][0]["reason"],
            "UNKNOWN_PATH"
        );
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn an_unknown_path_is_counted() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    gate.agent().get("/v1beta/folders").await;

    let answer = gate.operator().get("/metrics").await;
    let line = "hookgate_requests_total{operation=\"unknown\",status=\"403\",action=\"error\"} 1";
    assert!(answer.text().contains(line), "{}", answer.text());
}

#[tokio::test]
async fn the_hooks_of_the_config_are_listed_in_order() {
    let upstream = Upstream::mock().await;
    let mut guard = hook::command("guard", "exit 2");
    guard["timeout"] = json!(500);
    guard["on_failure"] = json!("closed");
    let mut look = hook::command("look", "true");
    look["mode"] = json!("observe");
    let nameless = json!({ "command": "cat" });
    let hooks = [
        ("BeforeModel", guard),
        ("BeforeModel", look),
        ("SessionEnd", nameless),
    ];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;

    let listed = gate.operator().get("/hooks").await.json();

    let hook = |event, name, timeout, on_failure, mode| {
        json!({
            "event": event, "name": name, "type": "command", "protocol": "gemini",
            "timeout_ms": timeout, "on_failure": on_failure, "mode": mode,
        })
    };
    assert_eq!(
        listed,
        json!([
            hook("BeforeModel", "guard", 500, "closed", "enforce"),
            hook("BeforeModel", "look", 60_000, "open", "observe"),
            hook("SessionEnd", "cat", 60_000, "open", "enforce"),
        ])
    );
}

#[tokio::test]
async fn metrics_hooks_and_coverage_require_the_token() {
    let upstream = Upstream::mock().await;
    let config = "admin: { listen: 127.0.0.1:0, token: { file: token } }";
    let gate = TestGateway::with_files(&upstream, config, &[("token", "s3cret\n")]).await;

    for path in ["/metrics", "/hooks", "/coverage"] {
        for authorization in ["", "Bearer", "Bearer wrong", "Bearer s3cret2", "s3cret"] {
            let operator = gate.operator().sending("authorization", authorization);
            let refused = operator.get(path).await;
            assert_eq!(refused.status, 401, "{authorization}");
            let error = &refused.json()["error"];
            assert_eq!(error["details"][0]["reason"], "UNAUTHENTICATED");
            assert!(!refused.text().contains("s3cret"));
        }
        assert_eq!(gate.operator().get(path).await.status, 401);
        let operator = gate.operator().sending("authorization", "Bearer s3cret");
        assert_eq!(operator.get(path).await.status, 200);
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(gate.operator().get(path).await.status, 200);
    }
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_with_413() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let large = "a".repeat(3 * 1024 * 1024);

    for path in ["/config/promote", "/sessions/s1/watch", "/try", "/shadow"] {
        let refused = gate.operator().post(path, large.clone()).await;

        assert_eq!(refused.status, 413, "{path}: {}", refused.text());
        let error = &refused.json()["error"];
        assert_eq!(error["details"][0]["reason"], "BODY_TOO_LARGE", "{path}");
        assert_eq!(error["message"], "body larger than 2 MiB", "{path}");
    }
    let browser = Browser::at(&gate);
    let page = browser
        .post("/console/try", &[("input", &large.repeat(3))])
        .await;
    assert_eq!(page.status, 413);
    assert!(
        page.html.contains("body larger than 2 MiB"),
        "{}",
        page.html
    );
}

#[tokio::test]
async fn a_posted_config_that_is_no_text_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    let refused = gate.operator().post("/shadow", vec![0xff]).await;

    assert_eq!(refused.status, 400, "{}", refused.text());
    let error = &refused.json()["error"];
    assert_eq!(error["details"][0]["reason"], "BAD_CONFIG", "{error}");
}

/// Waits until the metrics have this line, and returns them. An exchange is counted after its
/// last byte is sent, which may be after the agent has read it.
async fn metrics_with(gate: &TestGateway, line: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = gate.operator().get("/metrics").await.text().to_owned();
        if text.lines().any(|metric| metric == line) {
            return text;
        }
        assert!(Instant::now() < deadline, "no {line} in\n{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn calls_hook_runs_and_denials_are_counted() {
    let upstream = Upstream::mock().await;
    let guard = "grep -q secret && { echo no >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[
        ("BeforeModel", hook::command("guard", guard)),
        ("AfterModel", hook::printing("after", &json!({}))),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let agent = gate.agent();

    agent.generate(MODEL, &prompt("hello")).await;
    agent.generate(MODEL, &prompt("a secret")).await;
    agent.stream(MODEL, &prompt("hello")).await;

    let text = metrics_with(
        &gate,
        r#"hookgate_requests_total{operation="streamGenerateContent",status="200",action="pass"} 1"#,
    )
    .await;
    let counted: Vec<&str> = text
        .lines()
        .filter(|line| {
            !line.starts_with('#') && !line.contains("_bucket") && !line.contains("_sum")
        })
        .collect();
    let expected = [
        r#"hookgate_requests_total{operation="generateContent",status="200",action="pass"} 1"#,
        r#"hookgate_requests_total{operation="generateContent",status="200",action="deny"} 1"#,
        r#"hookgate_hook_runs_total{event="BeforeModel",hook="guard",status="ok"} 2"#,
        r#"hookgate_hook_runs_total{event="BeforeModel",hook="guard",status="block"} 1"#,
        r#"hookgate_hook_runs_total{event="AfterModel",hook="after",status="ok"} 4"#,
        r#"hookgate_denials_total{event="BeforeModel"} 1"#,
        "hookgate_hook_processes 0",
    ];
    for line in expected {
        assert!(
            counted.contains(&line),
            "no {line} in\n{}",
            counted.join("\n")
        );
    }
}

/// Returns the names, types and descriptions of all metrics, after a denied call.
async fn described_metrics() -> String {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "no"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let line =
        r#"hookgate_requests_total{operation="generateContent",status="200",action="deny"} 1"#;
    let text = metrics_with(&gate, line).await;
    let answer = gate.operator().get("/metrics").await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), kind);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("# ")).collect();
    lines.join("\n")
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a list")]
async fn metrics_have_these_names() {
    assert_snapshot!(described_metrics().await, @"
    # HELP hookgate_requests Requests answered, by operation, status and action.
    # TYPE hookgate_requests counter
    # HELP hookgate_request_duration_seconds Time from a request's head to the end of its response.
    # TYPE hookgate_request_duration_seconds histogram
    # HELP hookgate_errors Errors of hookgate's own that agents received, by reason.
    # TYPE hookgate_errors counter
    # HELP hookgate_hook_runs Hook runs, by event, hook and status.
    # TYPE hookgate_hook_runs counter
    # HELP hookgate_hook_duration_seconds Duration of hook runs, by event and hook.
    # TYPE hookgate_hook_duration_seconds histogram
    # HELP hookgate_chunks Response chunks handed to hooks.
    # TYPE hookgate_chunks counter
    # HELP hookgate_denials Events that hooks denied or stopped.
    # TYPE hookgate_denials counter
    # HELP hookgate_config_info Version of the config in use.
    # TYPE hookgate_config_info gauge
    # HELP hookgate_config_reloads Config reloads, by outcome.
    # TYPE hookgate_config_reloads counter
    # HELP hookgate_config_last_reload_successful Result of the last config reload: 1 if it succeeded, 0 if it was rejected.
    # TYPE hookgate_config_last_reload_successful gauge
    # HELP hookgate_in_flight Requests in flight, once they are authenticated and their body is received.
    # TYPE hookgate_in_flight gauge
    # HELP hookgate_receiving Requests that are being authenticated, or whose body is being received.
    # TYPE hookgate_receiving gauge
    # HELP hookgate_buffered_bytes Bytes of requests and responses that are buffered.
    # TYPE hookgate_buffered_bytes gauge
    # HELP hookgate_connections Open connections on all listeners.
    # TYPE hookgate_connections gauge
    # HELP hookgate_connections_rejected Connections rejected or closed early, by reason.
    # TYPE hookgate_connections_rejected counter
    # HELP hookgate_hook_processes Hook processes that are running.
    # TYPE hookgate_hook_processes gauge
    # HELP hookgate_session_lookups Session lookups, by result and by how the session is identified.
    # TYPE hookgate_session_lookups counter
    # HELP hookgate_sessions Sessions held by this process.
    # TYPE hookgate_sessions gauge
    # HELP hookgate_session_store_failures Failed requests to the shared session store.
    # TYPE hookgate_session_store_failures counter
    # HELP hookgate_limits_shared Scope of the limits of callers: 1 if counted in Redis for all replicas, 0 if counted in this process.
    # TYPE hookgate_limits_shared gauge
    # HELP hookgate_fleet_store_failures Failed requests to the Redis of shared limits and heartbeats.
    # TYPE hookgate_fleet_store_failures counter
    # HELP hookgate_auth_failures Requests rejected because authentication failed, by reason.
    # TYPE hookgate_auth_failures counter
    # HELP hookgate_audit_lines Records written to the decision log.
    # TYPE hookgate_audit_lines counter
    # HELP hookgate_audit_dropped_lines Records missing from the decision log because it could not be written.
    # TYPE hookgate_audit_dropped_lines counter
    # HELP hookgate_audit_failing State of the decision log: 1 if writing it fails, 0 otherwise.
    # TYPE hookgate_audit_failing gauge
    # HELP hookgate_audit_sink_lines Lines of the decision log for its HTTP sink, by outcome.
    # TYPE hookgate_audit_sink_lines counter
    # HELP hookgate_audit_sink_lag_lines Written lines of the decision log that its HTTP sink has not sent yet.
    # TYPE hookgate_audit_sink_lag_lines gauge
    # HELP hookgate_audit_sink_failures Failed attempts of the decision log's HTTP sink, by reason.
    # TYPE hookgate_audit_sink_failures counter
    # HELP hookgate_recording_exchanges Exchanges written to recordings.
    # TYPE hookgate_recording_exchanges counter
    # HELP hookgate_recording_dropped Exchanges missing from recordings, for lack of memory or because writing failed.
    # TYPE hookgate_recording_dropped counter
    # HELP hookgate_recording_failures Failures to write recordings or to remove old ones.
    # TYPE hookgate_recording_failures counter
    # HELP hookgate_otlp_items Spans and log records for the OTLP collector, by signal and outcome.
    # TYPE hookgate_otlp_items counter
    # HELP hookgate_circuit_breaker_open State of the circuit breaker of an upstream: 1 if open, 0 if closed.
    # TYPE hookgate_circuit_breaker_open gauge
    # HELP hookgate_upstream_failures Failures of upstreams, by reason.
    # TYPE hookgate_upstream_failures counter
    # HELP hookgate_trace_lost_rows Records of the live trace that slow subscribers lost.
    # TYPE hookgate_trace_lost_rows counter
    # HELP hookgate_trace_dropped_details Details of calls that the live trace did not keep for lack of memory.
    # TYPE hookgate_trace_dropped_details counter
    # HELP hookgate_trace_dropped_records Calls that the live trace did not keep for lack of memory.
    # TYPE hookgate_trace_dropped_records counter
    # HELP hookgate_rollout_share_percent Share of the sessions under the config that is rolled out, in percent.
    # TYPE hookgate_rollout_share_percent gauge
    # HELP hookgate_rollout_calls Calls and reported events during a rollout, by config.
    # TYPE hookgate_rollout_calls counter
    # HELP hookgate_rollout_aborts Rollouts that a difference of the two configs has ended.
    # TYPE hookgate_rollout_aborts counter
    # HELP hookgate_shadow_running State of the shadow: 1 if it is running, 0 otherwise.
    # TYPE hookgate_shadow_running gauge
    # HELP hookgate_shadow_dropped Exchanges that the shadow did not evaluate, because its queue or memory was full.
    # TYPE hookgate_shadow_dropped counter
    # HELP hookgate_shadow_ends Ends of shadows, by reason.
    # TYPE hookgate_shadow_ends counter
    # HELP hookgate_trace_bytes Bytes that the live trace holds, exchanges in flight included.
    # TYPE hookgate_trace_bytes gauge
    # EOF
    ");
}

#[tokio::test]
async fn metrics_contain_no_values_chosen_by_agents() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    let agent = gate
        .agent()
        .sending("x-hookgate-session", "made-up-session");
    agent
        .generate("made-up-model", &prompt("made-up-prompt"))
        .await;
    gate.agent().get("/made-up-path").await;

    let line =
        r#"hookgate_requests_total{operation="generateContent",status="200",action="pass"} 1"#;
    let text = metrics_with(&gate, line).await;
    assert!(!text.contains("made-up"), "{text}");
}

#[tokio::test]
async fn errors_of_the_admin_api_have_the_google_error_format() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    let answer = gate.operator().post("/healthz", "").await;

    assert_eq!(answer.status, 405);
    let error: Value = answer.json()["error"].clone();
    assert_eq!(error["code"], 405);
    assert_eq!(error["details"][0]["reason"], "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn admin_and_event_responses_have_the_nosniff_header() {
    let upstream = Upstream::mock().await;
    let config = "admin: { listen: 127.0.0.1:0, token: { file: token } }";
    let gateway = TestGateway::with_files(&upstream, config, &[("token", "s3cret\n")]).await;
    let operator = gateway.operator();
    let authorized = operator.clone().sending("authorization", "Bearer s3cret");
    let cross_origin = authorized
        .clone()
        .sending("origin", "https://other.example");
    let agent = gateway.agent();
    let event = json!({ "hook_event_name": "SessionEnd", "reason": "other" });

    let answers = [
        (200, operator.get("/healthz").await),
        (200, authorized.get("/metrics").await),
        (200, authorized.get("/sessions").await),
        (401, operator.get("/metrics").await),
        (403, operator.get("/nowhere").await),
        (403, cross_origin.get("/metrics").await),
        (404, authorized.get("/sessions/none").await),
        (405, operator.post("/healthz", "").await),
        (200, agent.report(&event, "wait=1").await),
        (202, agent.report(&event, "").await),
        (400, agent.report(&json!([]), "").await),
        (405, agent.get("/hookgate/v1/events").await),
        (
            403,
            agent
                .clone()
                .sending("origin", "https://other.example")
                .report(&event, "")
                .await,
        ),
    ];

    for (status, answer) in answers {
        assert_eq!(answer.status, status, "{}", answer.text());
        let header = answer.header("x-content-type-options");
        assert_eq!(header, "nosniff", "{status} {}", answer.text());
    }
}

#[tokio::test]
async fn metrics_are_compressed_for_clients_that_accept_it() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let plain = gateway.operator().get("/metrics").await;

    let operator = gateway.operator().sending("accept-encoding", "gzip");
    let compressed = operator.get("/metrics").await;

    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert!(compressed.body.len() < plain.body.len() / 2);
}

#[tokio::test]
async fn counters_with_fixed_labels_exist_at_0_before_anything_is_counted() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::command("guard", "exit 0"))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;

    for series in [
        r#"errors_total{reason="OVERLOADED"}"#,
        r#"auth_failures_total{reason="unknown"}"#,
        r#"connections_rejected_total{reason="limit"}"#,
        r#"config_reloads_total{outcome="rejected"}"#,
        r#"denials_total{event="BeforeTool"}"#,
        r#"hook_runs_total{event="BeforeModel",hook="guard",status="failed"}"#,
        r#"upstream_failures_total{upstream="gemini",reason="timeout"}"#,
        r#"audit_sink_lines_total{outcome="lost"}"#,
        r#"audit_sink_failures_total{reason="disk"}"#,
        r#"otlp_items_total{signal="logs",outcome="dropped"}"#,
        r#"rollout_calls_total{config="candidate"}"#,
        r#"shadow_ends_total{reason="panic"}"#,
    ] {
        let series = format!("hookgate_{series}");
        assert_eq!(gateway.operator().metric(&series).await, 0, "{series}");
    }
}

#[tokio::test]
async fn no_answer_of_the_admin_port_is_stored() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "trace: { content: { sample: 1.0 } }").await;
    let answer = gate.agent().generate(MODEL, &prompt("hi")).await;
    let call = format!("/calls/{}", answer.header("x-hookgate-request-id"));

    for path in [
        "/healthz",
        "/metrics",
        "/config",
        "/sessions",
        "/calls",
        &call,
        &format!("{call}/content"),
        "/console/",
        "/nothing",
    ] {
        let answer = gate.operator().get(path).await;

        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
    }
    let style = gate.operator().get("/console/").await;
    let (_, asset) = style.text().split_once("href=\"/console/assets/").unwrap();
    let (asset, _) = asset.split_once('"').unwrap();
    let asset = gate
        .operator()
        .get(&format!("/console/assets/{asset}"))
        .await;
    let expected = "public, max-age=31536000, immutable";
    assert_eq!(asset.header("cache-control"), expected);
}

#[tokio::test]
async fn a_path_or_config_that_is_not_utf_8_is_refused_with_a_reason() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let operator = gate.operator();

    for path in ["/calls/%ff", "/calls/%ff/content", "/sessions/%ff"] {
        assert_refused(&operator.get(path).await, 403, "UNKNOWN_PATH");
    }
    let watched = operator.post("/sessions/%ff/watch", "{}").await;
    assert_refused(&watched, 403, "UNKNOWN_PATH");
    let page = operator.get("/console/calls/%ff").await;
    assert_eq!(page.status, 403);
    let shadow = operator.post("/shadow", b"a: \xff".to_vec()).await;
    assert_eq!(shadow.status, 400, "{}", shadow.text());
    let reason = &shadow.json()["error"]["details"][0]["reason"];
    assert_eq!(reason, "BAD_CONFIG");
}
