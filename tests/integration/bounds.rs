//! Resource limits and timeouts: connections, slow clients, bodies, requests in flight.

mod http2;
mod load;
mod process;
mod streams;
mod uploads;
mod values;

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::harness::{
    Agent, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, chunked_head, eventually, prompt,
    send_and_read, wait_for_signal, wait_until_closed, write_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const HOOKED: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

/// Waits until the metrics contain this line.
async fn until_metric(gate: &TestGateway, line: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let text = gate.operator().get("/metrics").await.text().to_owned();
        if text.lines().any(|metric| metric == line) {
            return;
        }
        assert!(Instant::now() < deadline, "no {line} in\n{text}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Writes a byte every 50 ms until the connection is closed.
async fn trickle(writing: &mut (impl AsyncWriteExt + Unpin)) {
    while writing.write_all(b" ").await.is_ok() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Responds with an endless event stream; signals when its reader has disconnected.
async fn flood(mut socket: TcpStream, ended: mpsc::UnboundedSender<()>) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let event = format!("data: {}\r\n\r\n", "x".repeat(65_536));
    while write_chunk(&mut socket, event.as_bytes()).await.is_ok() {}
    ended.send(()).unwrap();
}

/// A complete request with `connection: close`.
fn request() -> String {
    let body = prompt("hello").to_string();
    format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_connection_over_the_limit_is_refused_at_once() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { connections: 2 }").await;
    let first = TcpStream::connect(gate.agents).await.unwrap();
    let second = TcpStream::connect(gate.agents).await.unwrap();
    until_metric(&gate, "hookgate_connections 3").await;

    let answer = send_and_read(gate.agents, request().as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("\r\nx-hookgate-request-id: "), "{answer}");
    assert!(answer.contains("\"OVERLOADED\""), "{answer}");
    until_metric(
        &gate,
        r#"hookgate_connections_rejected_total{reason="limit"} 1"#,
    )
    .await;
    assert!(upstream.requests().is_empty());
    drop(first);
    until_metric(&gate, "hookgate_connections 2").await;
    let answer = send_and_read(gate.agents, request().as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(second);
}

#[tokio::test]
async fn a_thousand_connections_over_the_limit_are_closed() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { connections: 1 }").await;
    let _first = TcpStream::connect(gate.agents).await.unwrap();
    until_metric(&gate, "hookgate_connections 2").await;

    let mut excess = Vec::new();
    for _ in 0..1000 {
        excess.push(TcpStream::connect(gate.agents).await.unwrap());
    }

    until_metric(
        &gate,
        r#"hookgate_connections_rejected_total{reason="limit"} 1000"#,
    )
    .await;
    // Refused connections are closed although their clients keep them open and send nothing.
    until_metric(&gate, "hookgate_connections 2").await;
}

#[tokio::test]
async fn a_slowloris_request_head_ends_at_the_header_timeout() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "timeouts: { header: 300ms }").await;
    let mut sockets = Vec::new();
    for _ in 0..100 {
        let mut socket = TcpStream::connect(gate.agents).await.unwrap();
        socket.write_all(b"POST / HTTP/1.1\r\n").await.unwrap();
        sockets.push(socket);
    }
    let begun = Instant::now();

    while begun.elapsed() < Duration::from_millis(250) {
        for socket in &mut sockets {
            socket.write_all(b"x: y\r\n").await.ok();
        }
        sleep(Duration::from_millis(20)).await;
    }

    for socket in &mut sockets {
        timeout(TEST_TIMEOUT, wait_until_closed(socket))
            .await
            .unwrap();
    }
    until_metric(
        &gate,
        r#"hookgate_connections_rejected_total{reason="header_timeout"} 100"#,
    )
    .await;
}

#[tokio::test]
async fn a_slowloris_body_below_the_minimum_rate_is_refused() {
    let upstream = Upstream::mock().await;
    let bounds = "timeouts: { body: 300ms }\nlimits: { body_rate: 1KiB }";
    let event = "/hookgate/v1/events";
    for (hooks, path) in [(HOOKED, GENERATE), ("", GENERATE), ("", event)] {
        let gate = TestGateway::start(&upstream, &format!("{bounds}\n{hooks}")).await;
        let mut socket = TcpStream::connect(gate.agents).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n\
             content-type: application/json\r\ncontent-length: 99999\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let begun = Instant::now();

        // Each byte arrives within the body timeout, but below the minimum rate.
        let (mut reading, mut writing) = socket.into_split();
        let trickle = tokio::spawn(async move { trickle(&mut writing).await });
        let mut answer = [0; 12];
        let read = timeout(TEST_TIMEOUT, reading.read_exact(&mut answer)).await;
        read.unwrap().unwrap();

        assert_eq!(&answer, b"HTTP/1.1 408", "{path} {hooks}");
        assert!(begun.elapsed() < Duration::from_secs(3));
        trickle.abort();
    }
}

#[tokio::test]
async fn a_body_above_the_minimum_rate_may_outlast_the_body_timeout() {
    let upstream = Upstream::mock().await;
    let bounds = "timeouts: { body: 400ms }\nlimits: { body_rate: 100B }";
    let gate = TestGateway::start(&upstream, &format!("{bounds}\n{HOOKED}")).await;
    let body = prompt(&"x".repeat(1000)).to_string();
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    let head = format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();

    for piece in body.as_bytes().chunks(200) {
        socket.write_all(piece).await.unwrap();
        sleep(Duration::from_millis(150)).await;
    }

    let mut answer = String::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_disconnected_at_the_write_timeout() {
    for hooks in ["", HOOKED] {
        let (ended, mut endings) = mpsc::unbounded_channel();
        let upstream = Upstream::raw(move |_, socket| flood(socket, ended.clone())).await;
        let gate =
            TestGateway::start(&upstream, &format!("timeouts: {{ write: 300ms }}\n{hooks}")).await;
        let mut socket = TcpStream::connect(gate.agents).await.unwrap();
        let request = request().replace(GENERATE, SSE);

        socket.write_all(request.as_bytes()).await.unwrap();

        wait_for_signal(&mut endings, "the end of the call to upstream").await;
        until_metric(
            &gate,
            r#"hookgate_connections_rejected_total{reason="write_timeout"} 1"#,
        )
        .await;
        until_metric(&gate, "hookgate_in_flight 0").await;
    }
}

#[tokio::test]
async fn an_agent_that_is_still_sending_receives_an_early_error() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let length = 8 << 20;
    let head = format!("POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();

    let body = vec![b' '; length];
    socket.write_all(&body).await.unwrap();

    let mut answer = String::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn an_agent_that_never_stops_sending_is_disconnected() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();

    while write_chunk(&mut socket, b" ").await.is_ok() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the connection stays open");
        sleep(Duration::from_millis(20)).await;
    }

    until_metric(&gate, "hookgate_connections 1").await;
}

#[tokio::test]
async fn versions_before_http_1_1_are_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let old = request().replace("HTTP/1.1", "HTTP/1.0");

    let answer = send_and_read(gate.agents, old.as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.0 505 "), "{answer}");
    assert!(answer.contains("\"HTTP_VERSION\""), "{answer}");
    let upgrade = request().replace(
        "connection: close",
        "connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\n\
         http2-settings: AAMAAABkAAQAAP__",
    );
    let answer = send_and_read(gate.agents, upgrade.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(upstream.requests().len(), 1);
    // The admin API accepts HTTP/1.0, which old health checks use.
    let health_check = b"GET /healthz HTTP/1.0\r\n\r\n";
    let answer = send_and_read(gate.operators, health_check).await;
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
}

/// Starts a call that hangs, because upstream does not respond.
fn hanging_call(gate: &TestGateway) -> tokio::task::JoinHandle<u16> {
    let agent: Agent = gate.agent();
    tokio::spawn(async move { agent.generate("m", &prompt("hello")).await.status })
}

#[tokio::test]
async fn a_request_over_the_in_flight_limit_is_refused_before_it_is_read() {
    let upstream =
        Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await }).await;
    let gate = TestGateway::start(&upstream, "limits: { in_flight: 2 }").await;
    let calls = [hanging_call(&gate), hanging_call(&gate)];
    eventually("both calls are in flight", TEST_TIMEOUT, || {
        upstream.requests().len() == 2
    })
    .await;

    let answer = gate.agent().post(GENERATE, "no JSON at all").await;
    let event = json!({ "hook_event_name": "Notification" });
    let reported = gate.agent().report(&event, "").await;

    for refused in [answer, reported] {
        assert_refused(&refused, 503, "OVERLOADED");
        assert_eq!(refused.header("retry-after"), "1");
    }
    let errors = r#"hookgate_errors_total{reason="OVERLOADED"}"#;
    assert_eq!(gate.operator().metric(errors).await, 2);
    assert_eq!(gate.operator().get("/healthz").await.status, 200);
    for call in calls {
        call.abort();
    }
    until_metric(&gate, "hookgate_in_flight 0").await;
}
