//! Calls over HTTP/2: bodies that the agent breaks off or does not end, and connections that are
//! lost.

use bytes::Bytes;
use futures_util::future::join_all;
use h2::server;
use http::{Request, Response};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use super::{GENERATE, HOOKED, call, has_metric, start_gateway};
use crate::{
    harness::{TEST_TIMEOUT, Upstream, assert_refused, prompt, send_and_read},
    http2::connect,
};

const HTTP2: &str = "http2: true, circuit: { failures: 1, within: 30s, open: 30s }";
const CLOSED: &str = r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#;

#[tokio::test]
async fn a_body_that_breaks_off_does_not_open_the_circuit() {
    let upstream = Upstream::mock().await;
    let bounds = "limits: { body: 64KiB }\ntimeouts: { body: 300ms }";
    let gate = start_gateway(&upstream, upstream.addr, HTTP2, bounds).await;
    let large = format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "x".repeat(70_000));
    let (malformed, stalled) = ("3\r\nabc\r\nzz\r\n", "3\r\nabc\r\n");
    for (method, path, body, status) in [
        ("POST", GENERATE, &*large, 413),
        ("POST", GENERATE, malformed, 400),
        ("GET", "/v1beta/models", malformed, 400),
        ("POST", GENERATE, stalled, 408),
    ] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{body}"
        );

        let answer = send_and_read(gate.agents, request.as_bytes()).await;

        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{method} {status}: {answer}");
        assert!(has_metric(&gate, CLOSED).await, "{method} {status}");
    }
    assert_eq!(call(&gate).await.status, 200);
}

#[tokio::test]
async fn a_body_of_the_announced_length_is_sent_without_the_end_of_its_stream() {
    let upstream = Upstream::mock().await;
    let timeouts = "timeouts: { body: 300ms }";
    let gate = start_gateway(&upstream, upstream.addr, HTTP2, timeouts).await;
    let mut sender = connect(gate.agents).await;
    let body = prompt("hello").to_string();
    let request = Request::post(format!("http://{}{GENERATE}", gate.agents))
        .header("content-type", "application/json")
        .header("content-length", body.len())
        .body(())
        .unwrap();

    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(body.into(), false).unwrap();
    let response = timeout(TEST_TIMEOUT, response).await;

    let response = response.expect("the call hangs").unwrap();
    assert_eq!(response.status(), 200);
    assert!(has_metric(&gate, CLOSED).await);
}

/// Number of calls after which [`lose_calls`] closes its connections.
const LOST_CALLS: usize = 4;

/// Receives calls, and closes the connection when all connections together have enough.
async fn lose_calls(socket: TcpStream, count: watch::Sender<usize>) {
    let mut connection = server::handshake(socket).await.unwrap();
    let mut counted = count.subscribe();
    let mut open = Vec::new();
    loop {
        let all_received = async {
            let received = counted.wait_for(|count| *count == LOST_CALLS);
            received.await.ok();
        };
        tokio::select! {
            () = all_received => return,
            accepted = connection.accept() => match accepted {
                Some(Ok(call)) => {
                    open.push(call);
                    count.send_modify(|count| *count += 1);
                }
                Some(Err(_)) | None => return,
            },
        }
    }
}

#[tokio::test]
async fn calls_on_a_lost_connection_open_the_circuit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let count = watch::Sender::new(0);
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(lose_calls(socket, count.clone()));
        }
    });
    let unused = Upstream::mock().await;
    let settings = "http2: true, circuit: { failures: 3, within: 30s, open: 30s }";
    let gate = start_gateway(&unused, addr, settings, HOOKED).await;

    let answers = join_all((0..LOST_CALLS).map(|_| call(&gate))).await;

    for answer in answers {
        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
    }
    let failures = r#"hookgate_upstream_failures_total{upstream="gemini",reason="broken"} 4"#;
    assert!(has_metric(&gate, failures).await);
    let open = r#"hookgate_circuit_breaker_open{upstream="gemini"} 1"#;
    assert!(has_metric(&gate, open).await);
}

/// Accepts one stream at a time, and does not end its response.
async fn hold_stream(socket: TcpStream) {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(1);
    let mut connection = builder.handshake::<_, Bytes>(socket).await.unwrap();
    let mut open = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let head = Response::builder().header("content-type", "text/event-stream");
        let head = head.body(()).unwrap();
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data("data: {\"n\":1}\n\n".into(), false).unwrap();
        open.push((request, body));
    }
}

#[tokio::test]
async fn calls_that_wait_for_a_stream_do_not_open_the_circuit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(hold_stream(socket));
        }
    });
    let unused = Upstream::mock().await;
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    for hooks in ["", HOOKED] {
        let more = format!("timeouts: {{ first_byte: 2s }}\n{hooks}");
        let gate = start_gateway(&unused, addr, HTTP2, &more).await;
        let mut open = Vec::new();

        // Each thread may have a connection, with one stream.
        let threads = std::thread::available_parallelism().unwrap().get();
        let mut timeouts = 0;
        for _ in 0..threads + 2 {
            let answer = gate.agent().open(path, prompt("hi").to_string()).await;
            timeouts += usize::from(answer.status() == 504);
            open.push(answer);
        }

        assert!(timeouts >= 2, "{timeouts}");
        assert!(has_metric(&gate, CLOSED).await, "{hooks}");
    }
}
