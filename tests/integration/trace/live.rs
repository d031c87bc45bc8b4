//! The live tail of calls.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{MODEL, calls, until};
use crate::harness::{TEST_TIMEOUT, TestGateway, Upstream, next_chunk, prompt};

const GUARD: &str = "policies: [{ policy: prompt_guard, deny: [forbidden] }]\n";

/// Calls whose rows exceed what the kernel buffers for a slow reader.
const SLOW_CALLS: usize = 3_600;

/// Reads the head of the response, which arrives once the subscription is active.
async fn read_response_head(socket: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(
            timeout(TEST_TIMEOUT, socket.read_u8())
                .await
                .unwrap()
                .unwrap(),
        );
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
}

/// Reads a socket up to and including `end`.
async fn read_socket_until(socket: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    // `end` is in the last row.
    let last_bytes = |bytes: &[u8]| bytes[bytes.len().saturating_sub(16 << 10)..].to_vec();
    while !String::from_utf8_lossy(&last_bytes(&bytes)).contains(end) {
        let read = timeout(TEST_TIMEOUT, socket.read_buf(&mut bytes)).await;
        assert!(read.unwrap().unwrap() > 0, "the stream ended");
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads a response up to and including `end`.
async fn read_until(response: &mut reqwest::Response, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let piece = timeout(Duration::from_secs(10), response.chunk()).await;
        let piece = piece.unwrap_or_else(|_| panic!("no `{end}` in {text}"));
        text.push_str(str::from_utf8(&piece.unwrap().unwrap()).unwrap());
    }
    text
}

async fn subscribe(gateway: &TestGateway, query: &str) -> reqwest::Response {
    subscribe_after(gateway, query, "").await
}

/// Subscribes with the id of the last event that was received.
async fn subscribe_after(gateway: &TestGateway, query: &str, id: &str) -> reqwest::Response {
    let url = format!("http://{}/calls/stream?{query}", gateway.operators);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let request = client.build().unwrap().get(url);
    request.header("last-event-id", id).send().await.unwrap()
}

#[tokio::test]
async fn the_live_tail_applies_the_filter() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let mut tail = subscribe(&gateway, "verdict=deny").await;
    assert_eq!(tail.headers()["content-type"], "text/event-stream");

    gateway.agent().generate(MODEL, &prompt("hello")).await;
    gateway
        .agent()
        .generate(MODEL, &prompt("something forbidden"))
        .await;
    let text = read_until(&mut tail, "\"deny\"").await;

    assert!(text.starts_with("id: "), "{text}");
    assert_eq!(text.matches("event: call").count(), 1, "{text}");
    assert!(!text.contains("\"action\":\"pass\""), "{text}");
}

#[tokio::test]
async fn a_live_tail_continues_behind_the_last_event_or_the_page_before_it() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let ask = async |text: &str| {
        let answer = gateway.agent().generate(MODEL, &prompt(text)).await;
        answer.header("x-hookgate-request-id").to_owned()
    };
    let mut tail = subscribe(&gateway, "").await;
    let first = ask("hello").await;
    let text = read_until(&mut tail, &first).await;
    let (_, id) = text.rsplit_once("id: ").unwrap();
    let id = id.split_once('\n').unwrap().0;
    drop(tail);
    let listed = gateway.operator().get("/calls").await.json();
    let missed = ask("something forbidden").await;

    let mut again = subscribe_after(&gateway, "after=0", id).await;
    let after_page = format!("verdict=deny&after={}", listed["last_seq"]);
    let again = read_until(&mut again, &missed).await;
    let mut behind_page = subscribe(&gateway, &after_page).await;
    read_until(&mut behind_page, &missed).await;
    let mut from_now = subscribe(&gateway, "").await;
    let last = ask("also forbidden").await;

    assert!(
        !again.contains(&first),
        "the header is the newer one: {again}"
    );
    let from_now = read_until(&mut from_now, &last).await;
    assert!(!from_now.contains(&missed), "{from_now}");
    let wrong = subscribe(&gateway, "after=yesterday").await;
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn lost_calls_are_reported_once_also_to_a_reader_that_connects_again() {
    let upstream = Upstream::mock().await;
    let config = format!("trace: {{ exchanges: 2 }}\n{GUARD}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let ask = async |text: &str| {
        let answer = gateway.agent().generate(MODEL, &prompt(text)).await;
        answer.header("x-hookgate-request-id").to_owned()
    };
    let start = gateway.operator().get("/calls").await.json();
    let start = start["last_seq"].as_u64().unwrap();
    for _ in 0..3 {
        ask("hello").await;
    }
    let denied = ask("something forbidden").await;
    let has_ended = |calls: &Value| calls["last_seq"] == start + 4;
    until(&gateway.operator(), "/calls", has_ended).await;

    let mut tail = subscribe(&gateway, "verdict=deny&after=0").await;
    let text = read_until(&mut tail, &denied).await;
    let (_, lost) = text.split_once(&format!("id: {start}\n\n")).unwrap();
    let (lost, _) = lost.split_once("\n\n").unwrap();
    let (id, event) = lost.split_once('\n').unwrap();
    let id = id.strip_prefix("id: ").unwrap();
    let mut again = subscribe_after(&gateway, "verdict=deny", id).await;
    let again = read_until(&mut again, &denied).await;

    assert_eq!(id, (start + 3).to_string());
    assert_eq!(event, "event: lost\ndata: 2");
    assert!(!again.contains("event: lost"), "{again}");
}

#[tokio::test]
async fn a_live_tail_that_continues_after_a_restart_has_all_calls_since() {
    let upstream = Upstream::mock().await;
    let earlier = TestGateway::start(&upstream, GUARD).await;
    for _ in 0..3 {
        earlier.agent().generate(MODEL, &prompt("hello")).await;
    }
    let position = calls(&earlier, "", 3).await["last_seq"].to_string();
    earlier.stop().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let answer = gateway.agent().generate(MODEL, &prompt("hello")).await;
        ids.push(answer.header("x-hookgate-request-id").to_owned());
    }
    let listed = calls(&gateway, "", 5).await;

    let mut tail = subscribe_after(&gateway, "", &position).await;
    let newest = listed["calls"][0]["id"].as_str().unwrap();
    let text = read_until(&mut tail, newest).await;
    let older = calls(&gateway, &format!("cursor={position}"), 0).await;

    for id in &ids {
        assert!(text.contains(id), "{id}: {text}");
    }
    assert!(!text.contains("event: lost"), "{text}");
    assert_eq!(older["calls"], json!([]), "{older:#}");
}

#[tokio::test]
async fn a_slow_subscriber_loses_counted_rows_and_delays_no_call() {
    let upstream = Upstream::mock().await;
    // A subscriber that reads loses no rows: a batch follows the last one within 100 ms.
    let config = format!(
        "trace: {{ exchanges: 500 }}\n\
         policies: [{{ policy: prompt_guard, deny: [forbidden], reason: '{}' }}]\n",
        "\"".repeat(500)
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    // The subscriber does not read, and the kernel buffers little for it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = socket.connect(gateway.operators).await.unwrap();
    let head = "GET /calls/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    read_response_head(&mut slow).await;

    // The calls end although their rows are not read.
    let agent = gateway.agent().sending("user-agent", "\"".repeat(250));
    let model = format!("gemini-{}", "m".repeat(100));
    for _ in 0..SLOW_CALLS / 8 {
        let body = prompt("forbidden");
        let calls = (0..8).map(|_| timeout(TEST_TIMEOUT, agent.generate(&model, &body)));
        for answer in join_all(calls).await {
            assert_eq!(answer.unwrap().header("x-hookgate-action"), "deny");
        }
    }
    agent.generate(MODEL, &prompt("hello")).await;
    let text = read_socket_until(&mut slow, "\"action\":\"pass\"").await;

    let rows = text.matches("event: call").count();
    let lost = text.split("event: lost").skip(1).map(|event| {
        let (_, data) = event.split_once("data: ").unwrap();
        let end = data.find(|symbol: char| !symbol.is_ascii_digit()).unwrap();
        data[..end].parse::<usize>().unwrap()
    });
    let lost: usize = lost.sum();
    assert!(lost > 0, "{rows} rows of {} bytes, none lost", text.len());
    assert_eq!(rows + lost, SLOW_CALLS + 1);
    let metrics = gateway.operator().get("/metrics").await;
    let counted = format!("hookgate_trace_lost_rows_total {lost}");
    assert!(
        metrics.text().lines().any(|line| line == counted),
        "{counted}: {}",
        metrics.text()
    );
}

#[tokio::test]
async fn the_number_of_subscribers_is_bounded_and_shutdown_ends_them() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let mut tails = Vec::new();
    for _ in 0..32 {
        let mut tail = subscribe(&gateway, "").await;
        let begin = next_chunk(&mut tail).await;
        assert!(
            begin.starts_with("id: ") && begin.ends_with("\n\n"),
            "{begin}"
        );
        tails.push(tail);
    }

    let refused = subscribe(&gateway, "").await;
    assert_eq!(refused.status(), 503);
    gateway.stop().await;

    for mut tail in tails {
        let end = timeout(Duration::from_secs(10), tail.chunk())
            .await
            .unwrap();
        assert!(matches!(end, Ok(None) | Err(_)));
    }
}

#[tokio::test]
async fn readers_of_live_tails_leave_connections_for_health_checks() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let mut sockets = Vec::new();
    for _ in 0..64 {
        let mut socket = TcpStream::connect(gateway.operators).await.unwrap();
        let head = "GET /calls/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let status = timeout(TEST_TIMEOUT, socket.read_u8()).await;
        assert_eq!(status.unwrap().unwrap(), b'H');
        sockets.push(socket);
    }

    for path in ["/healthz", "/readyz"] {
        let answer = gateway.operator().get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}
