//! Request smuggling: requests whose boundaries two servers could see differently. Upstream
//! receives only the request that hooks saw, in hookgate's own framing.

mod framings;

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::harness::{Raw, TEST_TIMEOUT, TestGateway, Upstream, send_and_read};

const MASKING_CONFIG: &str =
    "policies: [{ policy: redact, patterns: { secret: \"SECRET-[0-9]+\" }, detect: [] }]\n";
const PATHS: [&str; 3] = [
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1beta/models/m:countTokens",
];
const BODY: &str = r#"{"contents":[{"parts":[{"text":"SECRET-4711"}]}]}"#;

/// A request appended to a body, which must not reach upstream.
const SMUGGLED_REQUEST: &str =
    "GET /v1beta/models HTTP/1.1\r\nhost: x\r\nx-goog-api-key: STOLEN\r\n\r\n";

/// The required outcome of a request with ambiguous framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// An error; no upstream is called.
    Refused,
    /// One request, read as RFC 9112 prescribes; then the connection is closed.
    Forwarded,
}
use Outcome::{Forwarded, Refused};

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

async fn start_gateway() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let short_timeouts = "timeouts: { body: 500ms, idle: 500ms, header: 500ms }\n";
    let gateway = TestGateway::start(&upstream, &format!("{short_timeouts}{MASKING_CONFIG}")).await;
    (upstream, gateway)
}

fn request(path: &str, lines: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{lines}\r\n{body}"
    )
}

/// Checks that upstream received this many requests, each of them as hooks saw it.
#[track_caller]
fn assert_forwarded(upstream: &Upstream, path: &str, times: usize, case: &str) {
    let seen = upstream.requests();
    assert_eq!(seen.len(), times, "{case}: {seen:#?}");
    for request in seen {
        assert_eq!(request.path, path.split('?').next().unwrap(), "{case}");
        assert_eq!(request.header("x-goog-api-key"), "", "{case}");
        assert!(
            request.body.contains("[REDACTED:secret]"),
            "{case}: {request:?}"
        );
        assert!(!request.body.contains("SECRET-4711"), "{case}: {request:?}");
        assert_eq!(request.header("transfer-encoding"), "", "{case}");
        assert_eq!(
            request.header("content-length"),
            request.body.len().to_string(),
            "{case}"
        );
    }
}

#[tokio::test]
async fn ambiguous_framing_is_refused_or_read_as_rfc_9112_prescribes() {
    for path in PATHS {
        for (case, lines, body, outcome) in framings::ambiguous_framings() {
            let (upstream, gateway) = start_gateway().await;

            let response =
                send_and_read(gateway.agents, request(path, &lines, &body).as_bytes()).await;

            let case = format!("{case}: {path}");
            let (times, status) = match outcome {
                Forwarded => (1, 200),
                Refused => (0, 400),
            };
            assert_forwarded(&upstream, path, times, &case);
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status} ")),
                "{case}: {response}"
            );
            assert_eq!(
                response.matches("HTTP/1.1 ").count(),
                1,
                "{case}: {response}"
            );
        }
    }
}

#[tokio::test]
async fn invalid_chunks_are_refused_and_close_the_connection() {
    for (case, body) in framings::invalid_chunks() {
        let (upstream, gateway) = start_gateway().await;
        let lines = "transfer-encoding: chunked\r\n";
        let bytes = request(PATHS[0], lines, &(body + SMUGGLED_REQUEST));

        let response = send_and_read(gateway.agents, bytes.as_bytes()).await;

        assert_forwarded(&upstream, PATHS[0], 0, case);
        assert!(response.starts_with("HTTP/1.1 4"), "{case}: {response}");
        // This one ends with a timeout.
        if case != "an unfinished trailer" {
            let message = "malformed chunks in the request body";
            assert!(response.contains(message), "{case}: {response}");
        }
        assert_eq!(
            response.matches("HTTP/1.1 ").count(),
            1,
            "{case}: {response}"
        );
    }
}

#[tokio::test]
async fn chunk_extensions_and_trailers_are_ignored() {
    let (upstream, gateway) = start_gateway().await;
    let size = format!("{:x}", BODY.len());
    let lines = "connection: close\r\ntransfer-encoding: chunked\r\ntrailer: x-goog-api-key\r\n";
    let body = format!(
        "{size};a=b;c=\"d\"\r\n{BODY}\r\n0\r\nx-goog-api-key: STOLEN\r\ncontent-type: text/plain\r\n\r\n"
    );

    let response = send_and_read(gateway.agents, request(PATHS[0], lines, &body).as_bytes()).await;

    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_forwarded(&upstream, PATHS[0], 1, "trailers");
}

#[tokio::test]
async fn pipelined_requests_are_answered_one_by_one() {
    let (upstream, gateway) = start_gateway().await;
    let length = format!("content-length: {}\r\n", BODY.len());
    let one = request(PATHS[0], &length, BODY);
    let last = request(PATHS[0], &(length + "connection: close\r\n"), BODY);

    let response = send_and_read(gateway.agents, [&*one, &*one, &*last].concat().as_bytes()).await;

    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 3, "{response}");
    assert_forwarded(&upstream, PATHS[0], 3, "pipelined");
}

#[tokio::test]
async fn a_refused_request_with_an_unread_body_closes_the_connection() {
    let (upstream, gateway) = start_gateway().await;
    for refused in [
        // The body is not read, so the start of the next request is unknown.
        request("/nowhere", "content-length: 1000\r\n", SMUGGLED_REQUEST),
        request(
            PATHS[0],
            "content-type: text/plain\r\ncontent-length: 1000\r\n",
            SMUGGLED_REQUEST,
        ),
        request(
            PATHS[0],
            "x-method-override: GET\r\ncontent-length: 1000\r\n",
            SMUGGLED_REQUEST,
        ),
    ] {
        let response = send_and_read(gateway.agents, refused.as_bytes()).await;

        assert!(response.starts_with("HTTP/1.1 4"), "{response}");
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn other_http_versions_and_protocols_are_refused() {
    let (upstream, gateway) = start_gateway().await;
    let length = BODY.len();
    for bytes in [
        format!("POST {}\r\n\r\n", PATHS[0]),
        format!(
            "POST {} HTTP/0.9\r\ncontent-length: {length}\r\n\r\n{BODY}",
            PATHS[0]
        ),
        format!(
            "POST {} HTTP/2.0\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{BODY}",
            PATHS[0]
        ),
        format!(
            "POST {} HTTP/1.2\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{BODY}",
            PATHS[0]
        ),
        format!(
            "POST {} http/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{BODY}",
            PATHS[0]
        ),
        format!(
            "POST {} HTTP/1.0\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{}",
            PATHS[0],
            chunked(BODY)
        ),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_owned(),
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03".to_owned(),
    ] {
        let response = send_and_read(gateway.agents, bytes.as_bytes()).await;

        assert!(!response.starts_with("HTTP/1.1 2"), "{bytes}: {response}");
        assert!(!response.starts_with("HTTP/1.1 5"), "{bytes}: {response}");
        assert!(upstream.requests().is_empty(), "{bytes}");
    }
}

#[tokio::test]
async fn a_protocol_upgrade_is_ignored() {
    for lines in [
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n",
        "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
    ] {
        let (upstream, gateway) = start_gateway().await;
        let lines = format!("{lines}content-length: {}\r\n", BODY.len());

        let response =
            send_and_read(gateway.agents, request(PATHS[0], &lines, BODY).as_bytes()).await;

        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert_forwarded(&upstream, PATHS[0], 1, lines.as_str());
        assert_eq!(upstream.only_request().header("upgrade"), "");
    }
}

#[tokio::test]
async fn an_http_1_0_request_is_refused() {
    let (upstream, gateway) = start_gateway().await;
    let length = BODY.len();
    let bytes = format!(
        "POST {} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n\
         {BODY}{SMUGGLED_REQUEST}",
        PATHS[0]
    );

    let response = send_and_read(gateway.agents, bytes.as_bytes()).await;

    assert_eq!(response.matches("HTTP_VERSION").count(), 1, "{response}");
    assert_forwarded(&upstream, PATHS[0], 0, "HTTP/1.0");
}

#[tokio::test]
async fn expect_100_continue_is_granted_only_to_an_accepted_request() {
    let (upstream, gateway) = start_gateway().await;
    let expect = "connection: close\r\nexpect: 100-continue\r\n";
    let head = |more: &str| {
        let length = BODY.len();
        request(
            PATHS[0],
            &format!("{expect}{more}content-length: {length}\r\n"),
            "",
        )
    };
    let mut socket = TcpStream::connect(gateway.agents).await.unwrap();
    socket.write_all(head("").as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    let read = timeout(TEST_TIMEOUT, socket.read_exact(&mut interim)).await;
    read.expect("no 100 Continue").unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(BODY.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    timeout(TEST_TIMEOUT, socket.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(
        rest.starts_with(b"HTTP/1.1 200 "),
        "{}",
        rest.escape_ascii()
    );
    assert_forwarded(&upstream, PATHS[0], 1, "expected");

    let refused = Raw::send(
        gateway.agents,
        head("x-method-override: GET\r\n").as_bytes(),
    )
    .await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test]
async fn a_body_announced_as_too_large_is_not_invited() {
    let upstream = Upstream::mock().await;
    for hooks in ["", MASKING_CONFIG] {
        let config = format!("limits: {{ body: 1KiB, event: 1KiB }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        for path in [PATHS[0], "/hookgate/v1/events"] {
            let lines = "expect: 100-continue\r\ncontent-length: 999999999999\r\n";

            let refused = Raw::send(gateway.agents, request(path, lines, "").as_bytes()).await;

            assert_eq!(refused.status, 413, "{path}: {refused:?}");
        }
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_request_sent_byte_by_byte_is_one_request() {
    let (upstream, gateway) = start_gateway().await;
    let length = format!("connection: close\r\ncontent-length: {}\r\n", BODY.len());
    let bytes = request(PATHS[0], &length, BODY);
    let mut socket = TcpStream::connect(gateway.agents).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for byte in bytes.as_bytes() {
        socket.write_all(&[*byte]).await.unwrap();
        // Lets the gateway read the bytes sent so far.
        tokio::task::yield_now().await;
    }
    let mut response = Vec::new();
    let read = timeout(
        TEST_TIMEOUT.max(Duration::from_secs(10)),
        socket.read_to_end(&mut response),
    );
    read.await.unwrap().unwrap();

    assert!(
        response.starts_with(b"HTTP/1.1 200 "),
        "{}",
        response.escape_ascii()
    );
    assert_forwarded(&upstream, PATHS[0], 1, "bytes");
}
