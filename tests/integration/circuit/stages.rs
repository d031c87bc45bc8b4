//! A fault of the model API at every stage of an answer.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::{HOOKED, metric};
use crate::harness::{
    End, PATIENCE, TestGateway, Upstream, assert_refused, chunked_head, closed, prompt, rest,
    write_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const QUICK: &str = "timeouts: { upstream_connect: 300ms, first_byte: 300ms, stream_idle: 300ms }";
const EACH: [&str; 2] = ["", HOOKED];
const JUDGED: &str = "hooks: { AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

/// What is left behind: nothing under way, no connection but the one that asks.
async fn assert_clean(gate: &TestGateway) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !metric(gate, "hookgate_in_flight 0").await {
        assert!(tokio::time::Instant::now() < deadline, "something is left");
        sleep(Duration::from_millis(10)).await;
    }
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing more comes.
    Stall,
    /// The connection is closed.
    Close,
    /// It is reset.
    Reset,
}

const FAULTS: [Fault; 3] = [Fault::Stall, Fault::Close, Fault::Reset];

/// Asks of such an upstream: the agent gets the error, and nothing is left.
async fn assert_reported(gate: &TestGateway, fault: Fault) {
    let (status, reason) = match fault {
        Fault::Stall => (504, "UPSTREAM_TIMEOUT"),
        Fault::Close | Fault::Reset => (503, "UPSTREAM_UNREACHABLE"),
    };

    let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;

    assert_refused(&answer, status, reason);
    assert_clean(gate).await;
}

/// Sends these bytes after the request, and goes wrong.
async fn failing(bytes: &'static [u8], fault: Fault) -> Upstream {
    Upstream::raw(move |_, mut socket| async move {
        socket.write_all(bytes).await.unwrap();
        go_wrong(socket, fault).await;
    })
    .await
}

async fn go_wrong(mut socket: TcpStream, fault: Fault) {
    match fault {
        Fault::Stall => closed(&mut socket).await,
        Fault::Close => (),
        Fault::Reset => {
            // What was sent must have been read, or it is lost with the rest.
            sleep(Duration::from_millis(50)).await;
            socket.set_zero_linger().unwrap();
        }
    }
}

#[tokio::test]
async fn before_or_in_the_head_it_is_an_error() {
    let stages: [&[u8]; 3] = [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\ncontent-ty"];
    for bytes in stages {
        for fault in FAULTS {
            let upstream = failing(bytes, fault).await;
            let gate = TestGateway::start(&upstream, QUICK).await;
            assert_reported(&gate, fault).await;
        }
    }
}

#[tokio::test]
async fn in_the_body_the_agents_connection_breaks_too() {
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
        for (fault, hooks) in FAULTS.into_iter().zip(EACH.into_iter().cycle()) {
            let upstream = failing(bytes, fault).await;
            let gate = TestGateway::start(&upstream, &format!("{QUICK}\n{hooks}")).await;

            let body = prompt("x").to_string();
            let end = match gate.agent().try_to_open(SSE, body).await {
                Ok(mut answer) => rest(&mut answer).await.1,
                // Not even its head was out.
                Err(_) => End::Broken,
            };

            assert_eq!(end, End::Broken, "{stage:?} {fault:?}");
            assert_clean(&gate).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_held_is_an_error_if_it_breaks() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    for fault in FAULTS {
        let upstream = failing(bytes, fault).await;
        let gate = TestGateway::start(&upstream, &format!("{QUICK}\n{JUDGED}")).await;
        assert_reported(&gate, fault).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_never_taken_is_given_up() {
    let upstream = Upstream::mock().await;
    // TLS is never agreed upon.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"https://{}\" }} }}\ntimeouts: {{ upstream_connect: 300ms }}",
        silent.local_addr().unwrap()
    );
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;

    assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
    assert_clean(&gate).await;
}

#[tokio::test]
async fn a_head_without_end_is_an_error() {
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
async fn an_answer_may_come_before_the_request_was_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            // An answer to a request that was not even begun is none.
            socket.read_exact(&mut [0]).await.unwrap();
            let answer = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{}";
            socket.write_all(answer.as_bytes()).await.unwrap();
            closed(&mut socket).await;
        }
    });
    let upstream = Upstream::mock().await;
    let url = format!("upstreams: {{ gemini: {{ url: \"http://{addr}\" }} }}");
    for hooks in EACH {
        let gate = TestGateway::start(&upstream, &format!("{url}\n{hooks}")).await;

        let body = prompt(&"x".repeat(8 << 20)).to_string();
        let answer = gate.agent().post(GENERATE, body).await;

        assert_eq!((answer.status, answer.text()), (400, "{}"));
        assert_clean(&gate).await;
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_costs_no_call_and_sends_none_twice() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("application/json");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"{}").await.unwrap();
        socket.write_all(b"0\r\n\r\n").await.unwrap();
        // Kept open by its word, and closed at once.
    })
    .await;
    let gate = TestGateway::start(&upstream, "").await;

    for _ in 0..20 {
        let answer = gate.agent().post(GENERATE, prompt("x").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        sleep(Duration::from_millis(10)).await;
    }

    assert_eq!(upstream.seen().len(), 20);
}
