//! Faults of the model API at each stage of a response.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::{HOOKED, has_metric};
use crate::harness::{
    End, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, chunked_head, prompt, read_to_end,
    wait_until_closed, write_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const SHORT_TIMEOUTS: &str =
    "timeouts: { upstream_connect: 300ms, first_byte: 300ms, stream_idle: 300ms }";
const HOOK_CONFIGS: [&str; 2] = ["", HOOKED];
const RESPONSE_HOOK: &str = "hooks: { AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

/// Waits until no request is in flight.
async fn assert_none_in_flight(gate: &TestGateway) {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !has_metric(gate, "hookgate_in_flight 0").await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "a request is still in flight"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

/// Failure of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No more bytes are sent.
    Stall,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
}

const FAULTS: [Fault; 3] = [Fault::Stall, Fault::Close, Fault::Reset];

/// Asserts that a call gets the error for this fault, and that no request remains in flight.
async fn assert_reported(gate: &TestGateway, fault: Fault) {
    let (status, reason) = match fault {
        Fault::Stall => (504, "UPSTREAM_TIMEOUT"),
        Fault::Close | Fault::Reset => (503, "UPSTREAM_UNREACHABLE"),
    };

    let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;

    assert_refused(&answer, status, reason);
    assert_none_in_flight(gate).await;
}

/// Starts an upstream that sends these bytes after the request, and then fails.
async fn failing(bytes: &'static [u8], fault: Fault) -> Upstream {
    Upstream::raw(move |_, mut socket| async move {
        socket.write_all(bytes).await.unwrap();
        apply_fault(socket, fault).await;
    })
    .await
}

async fn apply_fault(mut socket: TcpStream, fault: Fault) {
    match fault {
        Fault::Stall => wait_until_closed(&mut socket).await,
        Fault::Close => (),
        Fault::Reset => {
            // A reset discards bytes that the other side has not read yet.
            sleep(Duration::from_millis(50)).await;
            socket.set_zero_linger().unwrap();
        }
    }
}

#[tokio::test]
async fn a_failure_before_the_end_of_the_response_headers_is_an_error() {
    let stages: [&[u8]; 3] = [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\ncontent-ty"];
    for bytes in stages {
        for fault in FAULTS {
            let upstream = failing(bytes, fault).await;
            let gate = TestGateway::start(&upstream, SHORT_TIMEOUTS).await;
            assert_reported(&gate, fault).await;
        }
    }
}

#[tokio::test]
async fn a_failure_within_a_streamed_body_breaks_the_connection_of_the_agent() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
         transfer-encoding: chunked\r\n\r\n";
    let stages = [
        String::new(),
        "9\r\ndata: {".to_owned(),
        "d\r\ndata: {}\r\n\r\n\r\n".to_owned(),
        "d\r\ndata: {}\r\n\r\n\r\n0\r\n".to_owned(),
        "d\r\ndata: {}\r\n\r\n\r\nzz\r\n".to_owned(),
    ];
    for stage in stages {
        let bytes: &[u8] = Box::leak((head.to_owned() + &stage).into_boxed_str()).as_bytes();
        for (fault, hooks) in FAULTS.into_iter().zip(HOOK_CONFIGS.into_iter().cycle()) {
            let upstream = failing(bytes, fault).await;
            let gate = TestGateway::start(&upstream, &format!("{SHORT_TIMEOUTS}\n{hooks}")).await;

            let body = prompt("x").to_string();
            let end = match gate.agent().try_open(SSE, body).await {
                Ok(mut answer) => read_to_end(&mut answer).await.1,
                // The response headers were not sent yet.
                Err(_) => End::Broken,
            };

            assert_eq!(end, End::Broken, "{stage:?} {fault:?}");
            assert_none_in_flight(&gate).await;
        }
    }
}

#[tokio::test]
async fn a_failure_within_a_buffered_response_is_an_error() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    for fault in FAULTS {
        let upstream = failing(bytes, fault).await;
        let gate =
            TestGateway::start(&upstream, &format!("{SHORT_TIMEOUTS}\n{RESPONSE_HOOK}")).await;
        assert_reported(&gate, fault).await;
    }
}

#[tokio::test]
async fn a_stalled_tls_handshake_with_upstream_times_out() {
    let upstream = Upstream::mock().await;
    // The server never responds to the TLS handshake.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"https://{}\" }} }}\n\
         timeouts: {{ upstream_connect: 300ms }}",
        silent.local_addr().unwrap()
    );
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;

    assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
    assert_none_in_flight(&gate).await;
}

#[tokio::test]
async fn endless_response_headers_are_an_error() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        let line = format!("x: {}\r\n", "y".repeat(8000));
        while socket.write_all(line.as_bytes()).await.is_ok() {}
    })
    .await;
    let gate = TestGateway::start(&upstream, "").await;

    let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;

    assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_is_forwarded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            // A response is valid only after the request has begun.
            socket.read_exact(&mut [0]).await.unwrap();
            let answer = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{}";
            socket.write_all(answer.as_bytes()).await.unwrap();
            wait_until_closed(&mut socket).await;
        }
    });
    let upstream = Upstream::mock().await;
    let url = format!("upstreams: {{ gemini: {{ url: \"http://{addr}\" }} }}");
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(&upstream, &format!("{url}\n{hooks}")).await;

        let body = prompt(&"x".repeat(8 << 20)).to_string();
        let answer = gate.agent().post(GENERATE, body).await;

        assert_eq!((answer.status, answer.text()), (400, "{}"));
        assert_none_in_flight(&gate).await;
    }
}

#[tokio::test]
async fn a_closed_idle_connection_fails_no_call_and_repeats_none() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("application/json");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"{}").await.unwrap();
        socket.write_all(b"0\r\n\r\n").await.unwrap();
        // The headers allow keep-alive, and the connection is closed at once.
    })
    .await;
    let gate = TestGateway::start(&upstream, "").await;

    for _ in 0..20 {
        let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        sleep(Duration::from_millis(10)).await;
    }

    assert_eq!(upstream.requests().len(), 20);
}
