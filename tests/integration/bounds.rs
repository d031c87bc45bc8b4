//! Nothing takes more than its share: connections, bodies, waits.

mod http2;
mod load;
mod process;
mod uploads;

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::harness::{
    Agent, PATIENCE, TestGateway, Upstream, assert_refused, chunked_head, closed, eventually,
    exchange, prompt, signalled, write_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const HOOKED: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

/// Waits until a metric has this value.
async fn counted(gate: &TestGateway, line: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = gate.operator().get("/metrics").await.text().to_owned();
        if text.lines().any(|it| it == line) {
            return;
        }
        assert!(Instant::now() < deadline, "no {line} in\n{text}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A byte now and then, as long as somebody takes it.
async fn trickle(writing: &mut (impl AsyncWriteExt + Unpin)) {
    while writing.write_all(b" ").await.is_ok() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// A stream that does not end before its reader does.
async fn flood(mut socket: TcpStream, sign: mpsc::UnboundedSender<()>) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let event = format!("data: {}\r\n\r\n", "x".repeat(65_536));
    while write_chunk(&mut socket, event.as_bytes()).await.is_ok() {}
    sign.send(()).unwrap();
}

/// A whole request, after which the connection ends.
fn request() -> String {
    let body = prompt("hello").to_string();
    format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_connection_over_the_limit_is_refused_at_once() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { connections: 2 }").await;
    let first = TcpStream::connect(gate.agents).await.unwrap();
    let second = TcpStream::connect(gate.agents).await.unwrap();
    counted(&gate, "hookgate_connections 3").await;

    let answer = exchange(gate.agents, request().as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("\"OVERLOADED\""), "{answer}");
    counted(
        &gate,
        r#"hookgate_connections_rejected_total{reason="limit"} 1"#,
    )
    .await;
    assert!(upstream.seen().is_empty());
    drop(first);
    counted(&gate, "hookgate_connections 2").await;
    let answer = exchange(gate.agents, request().as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(second);
}

#[tokio::test]
async fn a_thousand_too_many_hold_nothing() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { connections: 1 }").await;
    let _first = TcpStream::connect(gate.agents).await.unwrap();
    counted(&gate, "hookgate_connections 2").await;

    let mut flood = Vec::new();
    for _ in 0..1000 {
        flood.push(TcpStream::connect(gate.agents).await.unwrap());
    }

    counted(
        &gate,
        r#"hookgate_connections_rejected_total{reason="limit"} 1000"#,
    )
    .await;
    // Those who say nothing are not waited for; with the flood still there.
    counted(&gate, "hookgate_connections 2").await;
}

#[tokio::test]
async fn a_head_that_trickles_ends() {
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
        timeout(PATIENCE, closed(socket)).await.unwrap();
    }
    counted(
        &gate,
        r#"hookgate_connections_rejected_total{reason="header_timeout"} 100"#,
    )
    .await;
}

#[tokio::test]
async fn a_body_that_trickles_ends() {
    let upstream = Upstream::mock().await;
    let bounds = "timeouts: { body: 300ms }\nlimits: { body_rate: 1KiB }";
    let event = "/hookgate/v1/events";
    for (hooks, path) in [(HOOKED, GENERATE), ("", GENERATE), ("", event)] {
        let gate = TestGateway::start(&upstream, &format!("{bounds}\n{hooks}")).await;
        let mut socket = TcpStream::connect(gate.agents).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99999\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let begun = Instant::now();

        // Each byte in time for the next piece, but few of them.
        let (mut reading, mut writing) = socket.into_split();
        let trickle = tokio::spawn(async move { trickle(&mut writing).await });
        let mut answer = [0; 12];
        let read = timeout(PATIENCE, reading.read_exact(&mut answer)).await;
        read.unwrap().unwrap();

        assert_eq!(&answer, b"HTTP/1.1 408", "{path} {hooks}");
        assert!(begun.elapsed() < Duration::from_secs(3));
        trickle.abort();
    }
}

#[tokio::test]
async fn a_body_that_is_fast_enough_may_take_its_time() {
    let upstream = Upstream::mock().await;
    let bounds = "timeouts: { body: 400ms }\nlimits: { body_rate: 100B }";
    let gate = TestGateway::start(&upstream, &format!("{bounds}\n{HOOKED}")).await;
    let body = prompt(&"x".repeat(1000)).to_string();
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    let head = format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();

    for piece in body.as_bytes().chunks(200) {
        socket.write_all(piece).await.unwrap();
        sleep(Duration::from_millis(150)).await;
    }

    let mut answer = String::new();
    let read = timeout(PATIENCE, socket.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_cut_off() {
    for hooks in ["", HOOKED] {
        let (sign, mut signs) = mpsc::unbounded_channel();
        let upstream = Upstream::raw(move |_, socket| flood(socket, sign.clone())).await;
        let gate =
            TestGateway::start(&upstream, &format!("timeouts: {{ write: 300ms }}\n{hooks}")).await;
        let mut socket = TcpStream::connect(gate.agents).await.unwrap();
        let request = request().replace(GENERATE, SSE);

        socket.write_all(request.as_bytes()).await.unwrap();

        signalled(&mut signs, "the end of the call to upstream").await;
        counted(
            &gate,
            r#"hookgate_connections_rejected_total{reason="write_timeout"} 1"#,
        )
        .await;
        counted(&gate, "hookgate_in_flight 0").await;
    }
}

#[tokio::test]
async fn an_early_error_is_heard_by_an_agent_that_still_sends() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let length = 8 << 20;
    let head = format!("POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();

    let body = vec![b' '; length];
    socket.write_all(&body).await.unwrap();

    let mut answer = String::new();
    let read = timeout(PATIENCE, socket.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn an_agent_that_never_stops_sending_is_not_listened_to_for_ever() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();

    while write_chunk(&mut socket, b" ").await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it listens on");
        sleep(Duration::from_millis(20)).await;
    }

    counted(&gate, "hookgate_connections 1").await;
}

#[tokio::test]
async fn versions_before_http_1_1_are_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let old = request().replace("HTTP/1.1", "HTTP/1.0");

    let answer = exchange(gate.agents, old.as_bytes()).await;

    assert!(answer.starts_with("HTTP/1.0 505 "), "{answer}");
    assert!(answer.contains("\"HTTP_VERSION\""), "{answer}");
    let upgrade = request().replace(
        "connection: close",
        "connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__",
    );
    let answer = exchange(gate.agents, upgrade.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(upstream.seen().len(), 1);
    // Old health checks may look on.
    let look = b"GET /healthz HTTP/1.0\r\n\r\n";
    let answer = exchange(gate.operators, look).await;
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
}

/// An agent whose call hangs until upstream is let go.
fn hanging(gate: &TestGateway) -> tokio::task::JoinHandle<u16> {
    let agent: Agent = gate.agent();
    tokio::spawn(async move { agent.generate("m", &prompt("hello")).await.status })
}

#[tokio::test]
async fn a_request_too_many_is_refused_before_it_is_read() {
    let upstream = Upstream::raw(|_, mut socket| async move { closed(&mut socket).await }).await;
    let gate = TestGateway::start(&upstream, "limits: { in_flight: 2 }").await;
    let calls = [hanging(&gate), hanging(&gate)];
    eventually("both are under way", PATIENCE, || {
        upstream.seen().len() == 2
    })
    .await;

    let answer = gate.agent().post(GENERATE, "no JSON at all").await;
    let event = json!({ "hook_event_name": "Notification" });
    let reported = gate.agent().report(&event, "").await;

    for refused in [answer, reported] {
        assert_refused(&refused, 503, "OVERLOADED");
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(gate.operator().get("/healthz").await.status, 200);
    for call in calls {
        call.abort();
    }
    counted(&gate, "hookgate_in_flight 0").await;
}
