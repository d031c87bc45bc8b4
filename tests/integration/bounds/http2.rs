//! HTTP/2: unread streams, rapid resets, and limits of streams, headers and uploads.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::{
    Reason,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderValue, Request};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    GENERATE, HOOKED, SSE, flood,
    streams::{BEFORE_TOOL, text_chunk},
    until_metric,
};
use crate::{
    harness::{
        Agent, TEST_TIMEOUT, TestGateway, Upstream, chunked_head, prompt, wait_for_signal,
        wait_until_closed, write_chunk, write_last_chunk,
    },
    http2::connect,
};

fn request(addr: SocketAddr, path: &str) -> Request<()> {
    Request::post(format!("http://{addr}{path}"))
        .header("content-type", "application/json")
        .body(())
        .unwrap()
}

fn send(sender: &mut SendRequest<Bytes>, request: Request<()>) -> ResponseFuture {
    let (response, mut body) = sender.send_request(request, false).unwrap();
    let prompt = prompt("hello").to_string();
    body.send_data(prompt.into(), true).unwrap();
    response
}

/// Connects. Returns the sender, and the reason of the error that ends the connection.
async fn handshake(
    addr: SocketAddr,
    builder: &Builder,
) -> (SendRequest<Bytes>, JoinHandle<Option<Reason>>) {
    let socket = TcpStream::connect(addr).await.unwrap();
    let (sender, connection) = builder.handshake(socket).await.unwrap();
    let ended = tokio::spawn(async move { connection.await.err()?.reason() });
    (sender.ready().await.unwrap(), ended)
}

#[tokio::test]
async fn an_unread_stream_is_dropped_and_other_streams_continue() {
    for hooks in ["", HOOKED] {
        let (ended, mut endings) = mpsc::unbounded_channel();
        let upstream = Upstream::raw(move |_, socket| flood(socket, ended.clone())).await;
        let config = format!("timeouts: {{ write: 300ms }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let mut builder = Builder::new();
        builder.initial_window_size(1000);
        let (mut sender, _ended) = handshake(gateway.agents, &builder).await;

        let unread = send(&mut sender, request(gateway.agents, SSE))
            .await
            .unwrap();

        wait_for_signal(&mut endings, "the end of the call to upstream").await;
        let line = r#"hookgate_connections_rejected_total{reason="write_timeout"} 1"#;
        until_metric(&gateway, line).await;
        until_metric(&gateway, "hookgate_in_flight 0").await;
        let other = send(&mut sender, request(gateway.agents, "/v1/other"));
        assert_eq!(other.await.unwrap().status(), 403);
        drop(unread);
    }
}

#[tokio::test]
async fn a_response_with_a_zero_window_is_dropped_at_the_write_timeout() {
    let upstream = Upstream::mock().await;
    let config = format!("timeouts: {{ write: 300ms }}\n{HOOKED}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let mut builder = Builder::new();
    builder.initial_window_size(0);
    let (mut sender, _ended) = handshake(gateway.agents, &builder).await;

    let unread = send(&mut sender, request(gateway.agents, GENERATE));
    let unread = unread.await.unwrap();

    let line = r#"hookgate_connections_rejected_total{reason="write_timeout"} 1"#;
    until_metric(&gateway, line).await;
    until_metric(&gateway, "hookgate_in_flight 0").await;
    drop(unread);
}

#[tokio::test]
async fn a_whole_response_that_is_not_read_counts_until_the_write_timeout() {
    let upstream = Upstream::answering(&text_chunk(&"x".repeat(1 << 20))).await;
    let config = format!("timeouts: {{ write: 2s }}\n{BEFORE_TOOL}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let mut builder = Builder::new();
    builder.initial_window_size(1);
    let (mut sender, _ended) = handshake(gateway.agents, &builder).await;

    let unread = send(&mut sender, request(gateway.agents, GENERATE));
    let unread = unread.await.unwrap();

    until_metric(&gateway, "hookgate_in_flight 1").await;
    let line = r#"hookgate_connections_rejected_total{reason="write_timeout"} 1"#;
    until_metric(&gateway, line).await;
    until_metric(&gateway, "hookgate_in_flight 0").await;
    until_metric(&gateway, "hookgate_buffered_bytes 0").await;
    drop(unread);
}

#[tokio::test]
async fn reading_a_large_event_may_take_longer_than_the_write_timeout() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        for text in [&"x".repeat(1 << 20), "the end"] {
            let event = format!("data: {}\n\n", text_chunk(text));
            write_chunk(&mut socket, event.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(200)).await;
        }
        write_last_chunk(&mut socket).await;
    })
    .await;
    let config = format!("timeouts: {{ write: 700ms }}\n{BEFORE_TOOL}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let mut sender = connect(gateway.agents).await;

    let response = send(&mut sender, request(gateway.agents, SSE));
    let mut body = response.await.unwrap().into_body();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        text.extend_from_slice(&data);
        sleep(Duration::from_millis(25)).await;
        body.flow_control().release_capacity(data.len()).unwrap();
    }

    assert!(String::from_utf8(text).unwrap().contains("the end"));
}

#[tokio::test]
async fn rapid_resets_leave_the_gateway_responsive_and_leak_no_request() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, HOOKED).await;
    let (mut sender, _ended) = handshake(gateway.agents, &Builder::new()).await;
    for _ in 0..5000 {
        // The gateway may close the connection (ENHANCE_YOUR_CALM).
        let Ok(mut ready) = sender.ready().await else {
            sender = connect(gateway.agents).await;
            continue;
        };
        let sent = ready.send_request(request(gateway.agents, SSE), false);
        if let Ok((_response, mut body)) = sent {
            body.send_reset(Reason::CANCEL);
        }
        sender = ready;
    }

    let answer = Agent::at(gateway.agents).generate("m", &prompt("hi")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(sender);
    until_metric(&gateway, "hookgate_receiving 0").await;
    until_metric(&gateway, "hookgate_in_flight 0").await;
    until_metric(&gateway, "hookgate_connections 1").await;
}

#[tokio::test]
async fn a_connection_without_streams_ends_after_the_idle_timeout() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "timeouts: { idle: 300ms }").await;
    for is_reset in [false, true] {
        let (mut sender, ended) = handshake(gateway.agents, &Builder::new()).await;
        if is_reset {
            let sent = sender.send_request(request(gateway.agents, SSE), false);
            sent.unwrap().1.send_reset(Reason::CANCEL);
        } else {
            let response = send(&mut sender, request(gateway.agents, GENERATE));
            assert_eq!(response.await.unwrap().status(), 200);
        }

        let ended = timeout(TEST_TIMEOUT, ended).await;

        ended.expect("the connection stays open").unwrap();
    }
}

#[tokio::test]
async fn a_connection_without_any_stream_ends_after_the_header_timeout() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "timeouts: { header: 300ms }").await;

    let (_sender, ended) = handshake(gateway.agents, &Builder::new()).await;

    let ended = timeout(TEST_TIMEOUT, ended).await;
    ended.expect("the connection stays open").unwrap();
    let line = r#"hookgate_connections_rejected_total{reason="header_timeout"} 1"#;
    until_metric(&gateway, line).await;
}

#[tokio::test]
async fn concurrent_streams_are_limited() {
    let (called, mut calls_seen) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, mut socket| {
        called.send(()).unwrap();
        async move { wait_until_closed(&mut socket).await }
    })
    .await;
    let gateway = TestGateway::start(&upstream, "limits: { http2_streams: 3 }").await;
    let (mut sender, _ended) = handshake(gateway.agents, &Builder::new()).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(send(&mut sender, request(gateway.agents, SSE)));
        wait_for_signal(&mut calls_seen, "a call").await;
        sender = sender.ready().await.unwrap();
    }

    calls.push(send(&mut sender, request(gateway.agents, SSE)));

    until_metric(&gateway, "hookgate_in_flight 3").await;
    assert!(calls_seen.try_recv().is_err());
    drop(calls.remove(0));
    wait_for_signal(&mut calls_seen, "the waiting call").await;
}

#[tokio::test]
async fn large_headers_are_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "limits: { headers: 8KiB }").await;
    for (bytes, expected) in [(4_000, Some(200)), (20_000, Some(431)), (400_000, None)] {
        let mut sender = connect(gateway.agents).await;
        let mut large = request(gateway.agents, GENERATE);
        let value = HeaderValue::try_from("x".repeat(bytes)).unwrap();
        large.headers_mut().insert("x-large", value);

        let response = send(&mut sender, large).await;

        let status = response.map(|response| response.status().as_u16());
        assert_eq!(status.ok(), expected, "{bytes}");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_slow_upload_is_refused_and_other_streams_continue() {
    let upstream = Upstream::mock().await;
    let config = format!("timeouts: {{ body: 300ms }}\n{HOOKED}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let mut sender = connect(gateway.agents).await;
    let slow = request(gateway.agents, GENERATE);
    let (slow, mut body) = sender.send_request(slow, false).unwrap();
    body.send_data("{".into(), false).unwrap();

    let other = send(&mut sender, request(gateway.agents, GENERATE));
    let (other, slow) = (other.await.unwrap(), timeout(TEST_TIMEOUT, slow).await);

    assert_eq!(other.status(), 200);
    assert_eq!(slow.expect("the upload hangs").unwrap().status(), 408);
}

#[tokio::test]
async fn a_whole_body_counts_without_the_end_of_its_stream() {
    let upstream =
        Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await }).await;
    for hooks in ["", HOOKED] {
        let config = format!("limits: {{ in_flight: 1 }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let mut sender = connect(gateway.agents).await;
        let body = prompt("hello").to_string();
        let mut first = request(gateway.agents, GENERATE);
        let length = HeaderValue::from(body.len());
        first.headers_mut().insert("content-length", length);

        let (_hanging, mut stream) = sender.send_request(first, false).unwrap();
        stream.send_data(body.into(), false).unwrap();

        until_metric(&gateway, "hookgate_in_flight 1").await;
        until_metric(&gateway, "hookgate_receiving 0").await;
        let second = send(&mut sender, request(gateway.agents, GENERATE));
        assert_eq!(second.await.unwrap().status(), 503);
    }
}

#[tokio::test]
async fn uploads_are_limited_over_all_connections() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "limits: { connections: 4 }").await;
    let mut sender = connect(gateway.agents).await;
    let mut uploads = Vec::new();
    for _ in 0..4 {
        let sent = sender.send_request(request(gateway.agents, GENERATE), false);
        uploads.push(sent.unwrap());
        sender = sender.ready().await.unwrap();
    }
    until_metric(&gateway, "hookgate_receiving 4").await;

    let refused = send(&mut sender, request(gateway.agents, GENERATE));

    assert_eq!(refused.await.unwrap().status(), 503);
}
