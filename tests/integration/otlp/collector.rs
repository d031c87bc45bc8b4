//! A collector that is slow, away or ill, and one that changes.

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
use tempfile::TempDir;

use super::{collector, spans, telemetry};
use crate::harness::{Agent, PATIENCE, Served, TestGateway, Upstream, eventually, prompt, respond};

/// Waits until the metrics hold a line.
async fn counted(operator: &Agent, line: &str) {
    let deadline = Instant::now() + PATIENCE;
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
async fn a_collector_that_hangs_or_is_away_costs_nothing() {
    let hanging = Upstream::raw(|_, socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    })
    .await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = free.local_addr().unwrap();
    drop(free);
    for addr in [hanging.addr, away] {
        let upstream = Upstream::mock().await;
        let config = format!("telemetry: {{ otlp: {{ endpoint: \"http://{addr}\" }} }}\n");
        let gate = TestGateway::start(&upstream, &config).await;
        call(&gate.agent(), 1).await;
        if addr == hanging.addr {
            eventually("it is asked", PATIENCE, || hanging.connections() == 2).await;
        }
        let started = Instant::now();

        call(&gate.agent(), 20).await;

        let waited = started.elapsed();
        assert!(waited < Duration::from_secs(5), "{waited:?}");

        let started = Instant::now();
        gate.stop().await;
        let waited = started.elapsed();
        assert!(waited < Duration::from_secs(4), "{waited:?}");
    }
}

#[tokio::test]
async fn what_a_collector_puts_off_comes_later() {
    let asked = Arc::new(AtomicUsize::new(0));
    let collector = Upstream::with(move |_| {
        let status = [503, 200][asked.fetch_add(1, Ordering::Relaxed).min(1)];
        respond(status, "application/json", "{}")
    })
    .await;
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &telemetry(&collector, ", logs: false")).await;

    call(&gate.agent(), 3).await;

    let line = r#"hookgate_otlp_items_total{signal="traces",outcome="sent"} 3"#;
    counted(&gate.operator(), line).await;
    gate.stop().await;
    let bodies: Vec<String> = collector.seen().into_iter().map(|it| it.body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1], "nothing is lost or told twice");
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted() {
    let refusing = Upstream::with(|_| respond(401, "application/json", "{}")).await;
    let partial = r#"{"partialSuccess":{"rejectedSpans":"2"}}"#;
    let picking = Upstream::with(move |_| respond(200, "application/json", partial)).await;
    let leading = Upstream::with(|_| {
        let mut answer = respond(307, "text/plain", "");
        let elsewhere = "http://127.0.0.1:9/".parse().unwrap();
        answer.headers_mut().insert("location", elsewhere);
        answer
    })
    .await;
    for (collector, dropped) in [(&refusing, 3), (&picking, 2), (&leading, 3)] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &telemetry(collector, ", logs: false")).await;

        call(&gate.agent(), 3).await;

        let line =
            format!(r#"hookgate_otlp_items_total{{signal="traces",outcome="dropped"}} {dropped}"#);
        counted(&gate.operator(), &line).await;
        gate.stop().await;
        assert_eq!(collector.seen().len(), 1);
    }
}

// The collector must hear while this test waits for the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_goes_on_with_the_same_collector_and_tells_another_from_then_on() {
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
    let mut served = Served::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));

    call(&agent, 1).await;
    write(&first, "debug");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    call(&agent, 1).await;
    write(&second, "debug");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    call(&agent, 1).await;

    served.terminate();
    let (ended, log) = served.ended(PATIENCE);
    assert!(ended.success(), "{log}");
    assert_eq!((spans(&first).len(), spans(&second).len()), (2, 1));
    let instances: Vec<_> = first
        .seen()
        .iter()
        .map(|it| it.json()["resourceSpans"][0]["resource"].clone())
        .collect();
    assert!(
        instances.windows(2).all(|it| it[0] == it[1]),
        "{instances:?}"
    );
    for asked in first.seen().iter().chain(&second.seen()) {
        assert_eq!(asked.header("authorization"), "Bearer of-the-collector");
        assert_eq!(asked.header("content-type"), "application/json");
    }
    assert!(!log.contains("of-the-collector"));
}

#[test]
fn a_config_that_cannot_be_meant_is_refused_with_its_place() {
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
            "a secret never stands",
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
