//! Collectors that hang, are unreachable, reject exports or are replaced by a reload.

use std::{
    fs,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hookgate::{config::Config, hook as hooks};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{collector, spans, telemetry};
use crate::harness::{
    Agent, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, eventually, prompt, respond,
};
use crate::trace::until;

/// Waits until the metrics contain this text.
async fn until_metric(operator: &Agent, line: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let metrics = operator.get("/metrics").await;
        if metrics.text().contains(line) {
            return;
        }
        assert!(Instant::now() < deadline, "{}", metrics.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn call(agent: &Agent, times: usize) {
    for _ in 0..times {
        let answer = agent.generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn a_hanging_or_unreachable_collector_blocks_neither_calls_nor_shutdown() {
    let hanging = Upstream::raw(|_, socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    })
    .await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = free.local_addr().unwrap();
    drop(free);
    for addr in [hanging.addr, unreachable] {
        let upstream = Upstream::mock().await;
        let config = format!("telemetry: {{ otlp: {{ endpoint: \"http://{addr}\" }} }}\n");
        let gate = TestGateway::start(&upstream, &config).await;
        call(&gate.agent(), 1).await;
        if addr == hanging.addr {
            eventually("the collector is called", TEST_TIMEOUT, || {
                hanging.connections() == 2
            })
            .await;
        }
        let started = Instant::now();

        call(&gate.agent(), 20).await;

        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");

        let started = Instant::now();
        gate.stop().await;
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    }
}

#[tokio::test]
async fn an_export_is_retried_after_a_503_response() {
    let requests = Arc::new(AtomicUsize::new(0));
    let collector = Upstream::with(move |_| {
        let status = [503, 200][requests.fetch_add(1, Ordering::Relaxed).min(1)];
        respond(status, "application/json", "{}")
    })
    .await;
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, ", logs: false")).await;

    call(&gate.agent(), 3).await;

    let line = r#"hookgate_otlp_items_total{signal="traces",outcome="sent"} 3"#;
    until_metric(&gate.operator(), line).await;
    gate.stop().await;
    let bodies: Vec<String> = collector
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1], "the retry has the same spans");
}

#[tokio::test]
async fn rejected_spans_are_counted_as_dropped_and_not_retried() {
    let unauthorized = Upstream::with(|_| respond(401, "application/json", "{}")).await;
    let partial_body = r#"{"partialSuccess":{"rejectedSpans":"2"}}"#;
    let partial_success =
        Upstream::with(move |_| respond(200, "application/json", partial_body)).await;
    let redirecting = Upstream::with(|_| {
        let mut answer = respond(307, "text/plain", "");
        let location = "http://127.0.0.1:9/".parse().unwrap();
        answer.headers_mut().insert("location", location);
        answer
    })
    .await;
    for (collector, dropped) in [(&unauthorized, 3), (&partial_success, 2), (&redirecting, 3)] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &telemetry(collector, ", logs: false")).await;

        call(&gate.agent(), 3).await;

        let line =
            format!(r#"hookgate_otlp_items_total{{signal="traces",outcome="dropped"}} {dropped}"#);
        until_metric(&gate.operator(), &line).await;
        gate.stop().await;
        assert_eq!(collector.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_overview_has_what_the_collector_received_and_refused() {
    let collector = Upstream::with(|_| respond(401, "application/json", "{}")).await;
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, ", logs: false")).await;
    let operator = gate.operator();

    call(&gate.agent(), 2).await;
    let line = r#"hookgate_otlp_items_total{signal="traces",outcome="dropped"} 2"#;
    until_metric(&operator, line).await;

    let overview = operator.get("/overview").await.json();
    let [traces] = overview["otlp"].as_array().unwrap().as_slice() else {
        panic!("{overview:#}");
    };
    assert_eq!(
        (&traces["signal"], &traces["sent"], &traces["dropped"]),
        (&json!("traces"), &json!(0), &json!(2))
    );
    let failure = &traces["last_failure"];
    assert_eq!(failure["is_current"], json!(true));
    assert!(
        failure["error"].as_str().unwrap().contains("401"),
        "{failure}"
    );
    let page = Browser::at(&gate).get("/console/").await.html;
    assert!(page.contains("2 traces dropped"), "{page}");
}

// The collector needs a thread while this test blocks until the gateway has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_keeps_an_unchanged_exporter_and_switches_to_a_new_collector() {
    let (upstream, first, second) = (Upstream::mock().await, collector().await, collector().await);
    let folder = TempDir::new().unwrap();
    let write = |collector: &Upstream, level: &str| {
        let more = ", logs: false, headers: { authorization: { file: key } }";
        let text = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ level: {level} }}\n{}",
            upstream.addr,
            telemetry(collector, more)
        );
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
    };
    fs::write(folder.path().join("key"), "Bearer of-the-collector\n").unwrap();
    write(&first, "info");
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));

    call(&agent, 1).await;
    write(&first, "debug");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    call(&agent, 1).await;
    write(&second, "debug");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    call(&agent, 1).await;

    served.terminate();
    let (ended, log) = served.ended(TEST_TIMEOUT);
    assert!(ended.success(), "{log}");
    assert_eq!((spans(&first).len(), spans(&second).len()), (2, 1));
    let resources: Vec<_> = first
        .requests()
        .iter()
        .map(|request| request.json()["resourceSpans"][0]["resource"].clone())
        .collect();
    assert!(
        resources.windows(2).all(|pair| pair[0] == pair[1]),
        "{resources:?}"
    );
    for request in first.requests().iter().chain(&second.requests()) {
        assert_eq!(request.header("authorization"), "Bearer of-the-collector");
        assert_eq!(request.header("content-type"), "application/json");
    }
    assert!(!log.contains("of-the-collector"));
}

#[tokio::test]
async fn a_failure_of_a_collector_is_over_once_a_reload_has_replaced_it() {
    let failing = Upstream::with(|_| respond(503, "application/json", "{}")).await;
    let (upstream, working) = (Upstream::mock().await, collector().await);
    let folder = TempDir::new().unwrap();
    let write = |collector: &Upstream| {
        let text = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{}",
            upstream.addr,
            telemetry(collector, ", logs: false")
        );
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
    };
    write(&failing);
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    call(&agent, 1).await;
    let has_failed = |overview: &Value| overview["otlp"][0]["last_failure"]["is_current"] == true;
    until(&operator, "/overview", has_failed).await;

    write(&working);
    assert_eq!(operator.post("/reload", "").await.status, 200);
    call(&agent, 1).await;

    for outcome in ["sent", "dropped"] {
        let line = format!(r#"hookgate_otlp_items_total{{signal="traces",outcome="{outcome}"}} 1"#);
        until_metric(&operator, &line).await;
    }
    let overview = operator.get("/overview").await.json();
    let failure = &overview["otlp"][0]["last_failure"];
    assert_eq!(failure["is_current"], false, "{overview:#}");
}

#[test]
fn an_invalid_otlp_config_is_refused_with_its_line() {
    let cases = [
        ("endpoint: nowhere", "/telemetry/otlp/endpoint"),
        ("endpoint: 'http://u:p@x'", "/telemetry/otlp/endpoint"),
        (
            "endpoint: 'http://x', traces: false, logs: false",
            "must be true",
        ),
        (
            "endpoint: 'http://x', headers: { 'a b': { env: PATH } }",
            "invalid header name",
        ),
        (
            "endpoint: 'http://x', headers: { host: { env: PATH } }",
            "already set",
        ),
        (
            "endpoint: 'http://x', headers: { a: { env: PATH }, A: { env: PATH } }",
            "already set",
        ),
        (
            "endpoint: 'http://x', headers: { a: plain }",
            "the config cannot contain the secret",
        ),
        (
            "endpoint: 'http://x', headers: { a: { env: NOT_THERE_AT_ALL } }",
            "is not set",
        ),
        ("endpoint: 'http://x', metrics: true", "metrics"),
        ("traces: true", "endpoint"),
    ];

    for (text, message) in cases {
        let text = format!(
            "upstreams: {{ gemini: {{ url: 'http://x' }} }}\ntelemetry: {{ otlp: {{ {text} }} }}\n"
        );
        let parsed = Config::parse(&text, "hookgate.yaml".as_ref(), &hooks::registry());
        let problems = parsed.unwrap_err().to_string();
        assert!(problems.contains("hookgate.yaml:2:"), "{text}{problems}");
        let message = message.rsplit('/').next().unwrap();
        assert!(problems.contains(message), "{text}{problems}");
    }
}
