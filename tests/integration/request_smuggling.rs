//! Requests whose end, or whose very beginning, two servers could see in
//! different places. Whatever hookgate makes of one, upstream is asked what
//! hooks saw, in hookgate's own framing, and nothing else.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::harness::{PATIENCE, Raw, TestGateway, Upstream, exchange};

const MASKED: &str =
    "policies: [{ policy: redact, patterns: { secret: \"SECRET-[0-9]+\" }, detect: [] }]\n";
const PATHS: [&str; 3] = [
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1beta/models/m:countTokens",
];
const BODY: &str = r#"{"contents":[{"parts":[{"text":"SECRET-4711"}]}]}"#;

/// What must not come out of a body.
const HIDDEN: &str = "GET /v1beta/models HTTP/1.1\r\nhost: x\r\nx-goog-api-key: STOLEN\r\n\r\n";

/// What a request with two meanings may come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// An error; no upstream is called.
    Refused,
    /// One request, by the reading that RFC 9112 prescribes; then the end.
    Once,
}
use Fate::{Once, Refused};

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// Headers with two meanings, and a body.
#[expect(clippy::too_many_lines, reason = "a table of tricks")]
fn framings() -> Vec<(&'static str, String, String, Fate)> {
    let length = BODY.len();
    let te = |it: &str| format!("transfer-encoding: {it}\r\n");
    let plain = || BODY.to_owned() + HIDDEN;
    let chunks = || chunked(BODY) + HIDDEN;
    vec![
        (
            "a length and chunks",
            format!("content-length: 4\r\n{}", te("chunked")),
            chunks(),
            Once,
        ),
        (
            "chunks and a length",
            te("chunked") + "content-length: 4\r\n",
            chunks(),
            Once,
        ),
        (
            "two lengths",
            format!("content-length: {length}\r\ncontent-length: 3\r\n"),
            plain(),
            Refused,
        ),
        (
            "two lengths in one",
            format!("content-length: {length}, 3\r\n"),
            plain(),
            Refused,
        ),
        (
            "a length with a sign",
            format!("content-length: +{length}\r\n"),
            plain(),
            Refused,
        ),
        (
            "a negative length",
            "content-length: -1\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length in hexadecimal",
            "content-length: 0x31\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length with a gap",
            "content-length: 4 9\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "no number",
            "content-length: \r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length beyond all",
            "content-length: 99999999999999999999\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a name with a gap",
            format!("content-length : {length}\r\n"),
            plain(),
            Refused,
        ),
        (
            "a coding with a gap in its name",
            "transfer-encoding : chunked\r\n".to_owned(),
            chunks(),
            Refused,
        ),
        ("a coding that is none", te("xchunked"), chunks(), Refused),
        ("chunks twice", te("chunked, chunked"), chunks(), Refused),
        (
            "chunks and a coding",
            te("chunked, identity"),
            chunks(),
            Refused,
        ),
        (
            "a coding and chunks",
            te("gzip, chunked"),
            chunks(),
            Refused,
        ),
        (
            "two codings",
            te("chunked") + &te("identity"),
            chunks(),
            Refused,
        ),
        (
            "two codings, the last chunks",
            te("identity") + &te("chunked"),
            chunks(),
            Refused,
        ),
        ("chunks in quotes", te("\"chunked\""), chunks(), Refused),
        (
            "chunks with a parameter",
            te("chunked;x"),
            chunks(),
            Refused,
        ),
        (
            "chunks and a control character",
            te("\x0bchunked"),
            chunks(),
            Refused,
        ),
        (
            "chunks and a byte beyond ASCII",
            te("chunked\u{a0}"),
            chunks(),
            Refused,
        ),
        (
            "a folded header",
            "transfer-encoding:\r\n chunked\r\n".to_owned(),
            chunks(),
            Refused,
        ),
        (
            "a folded length",
            format!("content-length: {length}\r\n 0\r\n"),
            plain(),
            Refused,
        ),
        (
            "a zero byte in a value",
            "x-a: b\0c\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "a zero byte in a name",
            "x\0a: b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "a name that is none",
            "x a: b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "no name",
            ": b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "no colon",
            "x\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "a bare CR",
            "x: a\rtransfer-encoding: chunked\r\n".to_owned(),
            plain(),
            Refused,
        ),
    ]
}

fn bad_chunks() -> Vec<(&'static str, String)> {
    let size = format!("{:x}", BODY.len());
    vec![
        ("no size", format!("\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "a size with a sign",
            format!("+{size}\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        ("a negative size", format!("-{size}\r\n{BODY}\r\n0\r\n\r\n")),
        ("a size with 0x", format!("0x{size}\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "a size that is none",
            format!("{size}g\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "a size beyond all",
            format!("1{}\r\n{BODY}\r\n0\r\n\r\n", "0".repeat(20)),
        ),
        ("a size too small", format!("5\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "no line end behind the data",
            format!("{size}\r\n{BODY}0\r\n\r\n"),
        ),
        (
            "a bare CR behind the size",
            format!("{size}\r{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "a bare LF in an extension",
            format!("{size};a\nb\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "an endless extension",
            format!("{size};{}\r\n{BODY}\r\n0\r\n\r\n", "a".repeat(100_000)),
        ),
        (
            "a trailer without an end",
            format!("{size}\r\n{BODY}\r\n0\r\nx"),
        ),
    ]
}

async fn gate() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let quick = "timeouts: { body: 500ms, idle: 500ms, header: 500ms }\n";
    let gate = TestGateway::start(&upstream, &format!("{quick}{MASKED}")).await;
    (upstream, gate)
}

fn request(path: &str, lines: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{lines}\r\n{body}"
    )
}

/// Whatever upstream was asked is what hooks saw; and it was asked so often.
#[track_caller]
fn assert_asked(upstream: &Upstream, path: &str, times: usize, what: &str) {
    let seen = upstream.seen();
    assert_eq!(seen.len(), times, "{what}: {seen:#?}");
    for asked in seen {
        assert_eq!(asked.path, path.split('?').next().unwrap(), "{what}");
        assert_eq!(asked.header("x-goog-api-key"), "", "{what}");
        assert!(
            asked.body.contains("[REDACTED:secret]"),
            "{what}: {asked:?}"
        );
        assert!(!asked.body.contains("SECRET-4711"), "{what}: {asked:?}");
        assert_eq!(asked.header("transfer-encoding"), "", "{what}");
        assert_eq!(
            asked.header("content-length"),
            asked.body.len().to_string(),
            "{what}"
        );
    }
}

#[tokio::test]
async fn the_end_of_a_body_is_where_everybody_sees_it() {
    for path in PATHS {
        for (what, lines, body, fate) in framings() {
            let (upstream, gate) = gate().await;

            let said = exchange(gate.agents, request(path, &lines, &body).as_bytes()).await;

            let what = format!("{what}: {path}");
            let (times, status) = match fate {
                Once => (1, 200),
                Refused => (0, 400),
            };
            assert_asked(&upstream, path, times, &what);
            assert!(
                said.starts_with(&format!("HTTP/1.1 {status} ")),
                "{what}: {said}"
            );
            assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{what}: {said}");
        }
    }
}

#[tokio::test]
async fn chunks_that_are_none_end_the_connection() {
    for (what, body) in bad_chunks() {
        let (upstream, gate) = gate().await;
        let lines = "transfer-encoding: chunked\r\n";
        let bytes = request(PATHS[0], lines, &(body + HIDDEN));

        let said = exchange(gate.agents, bytes.as_bytes()).await;

        assert_asked(&upstream, PATHS[0], 0, what);
        assert!(said.starts_with("HTTP/1.1 4"), "{what}: {said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{what}: {said}");
    }
}

#[tokio::test]
async fn extensions_and_trailers_say_nothing() {
    let (upstream, gate) = gate().await;
    let size = format!("{:x}", BODY.len());
    let lines = "connection: close\r\ntransfer-encoding: chunked\r\ntrailer: x-goog-api-key\r\n";
    let body = format!(
        "{size};a=b;c=\"d\"\r\n{BODY}\r\n0\r\nx-goog-api-key: STOLEN\r\ncontent-type: text/plain\r\n\r\n"
    );

    let said = exchange(gate.agents, request(PATHS[0], lines, &body).as_bytes()).await;

    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert_asked(&upstream, PATHS[0], 1, "trailers");
}

#[tokio::test]
async fn requests_in_one_go_are_answered_one_by_one() {
    let (upstream, gate) = gate().await;
    let length = format!("content-length: {}\r\n", BODY.len());
    let one = request(PATHS[0], &length, BODY);
    let last = request(PATHS[0], &(length + "connection: close\r\n"), BODY);

    let said = exchange(gate.agents, [&*one, &*one, &*last].concat().as_bytes()).await;

    assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 3, "{said}");
    assert_asked(&upstream, PATHS[0], 3, "pipelined");
}

#[tokio::test]
async fn a_refused_request_takes_what_is_behind_it_along() {
    let (upstream, gate) = gate().await;
    for refused in [
        // Its body is not read, so it is unknown where the next one begins.
        request("/nowhere", "content-length: 1000\r\n", HIDDEN),
        request(
            PATHS[0],
            "content-type: text/plain\r\ncontent-length: 1000\r\n",
            HIDDEN,
        ),
        request(
            PATHS[0],
            "x-method-override: GET\r\ncontent-length: 1000\r\n",
            HIDDEN,
        ),
    ] {
        let said = exchange(gate.agents, refused.as_bytes()).await;

        assert!(said.starts_with("HTTP/1.1 4"), "{said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn other_versions_and_other_protocols_are_not_spoken() {
    let (upstream, gate) = gate().await;
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
        let said = exchange(gate.agents, bytes.as_bytes()).await;

        assert!(!said.starts_with("HTTP/1.1 2"), "{bytes}: {said}");
        assert!(!said.starts_with("HTTP/1.1 5"), "{bytes}: {said}");
        assert!(upstream.seen().is_empty(), "{bytes}");
    }
}

#[tokio::test]
async fn an_upgrade_is_not_taken() {
    for lines in [
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n",
        "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
    ] {
        let (upstream, gate) = gate().await;
        let lines = format!("{lines}content-length: {}\r\n", BODY.len());

        let said = exchange(gate.agents, request(PATHS[0], &lines, BODY).as_bytes()).await;

        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        assert_asked(&upstream, PATHS[0], 1, lines.as_str());
        assert_eq!(upstream.only().header("upgrade"), "");
    }
}

#[tokio::test]
async fn an_old_client_gets_an_error_and_reaches_no_upstream() {
    let (upstream, gate) = gate().await;
    let length = BODY.len();
    let bytes = format!(
        "POST {} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}{HIDDEN}",
        PATHS[0]
    );

    let said = exchange(gate.agents, bytes.as_bytes()).await;

    assert_eq!(said.matches("HTTP_VERSION").count(), 1, "{said}");
    assert_asked(&upstream, PATHS[0], 0, "HTTP/1.0");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_it_only_if_it_may_send() {
    let (upstream, gate) = gate().await;
    let expect = "connection: close\r\nexpect: 100-continue\r\n";
    let head = |more: &str| {
        let length = BODY.len();
        request(
            PATHS[0],
            &format!("{expect}{more}content-length: {length}\r\n"),
            "",
        )
    };
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(head("").as_bytes()).await.unwrap();
    let mut said = [0; 25];
    let read = timeout(PATIENCE, socket.read_exact(&mut said)).await;
    read.expect("it is not told to go on").unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(BODY.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(
        rest.starts_with(b"HTTP/1.1 200 "),
        "{}",
        rest.escape_ascii()
    );
    assert_asked(&upstream, PATHS[0], 1, "expected");

    let refused = Raw::send(gate.agents, head("x-method-override: GET\r\n").as_bytes()).await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test]
async fn a_request_in_single_bytes_is_one_request() {
    let (upstream, gate) = gate().await;
    let length = format!("connection: close\r\ncontent-length: {}\r\n", BODY.len());
    let bytes = request(PATHS[0], &length, BODY);
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for byte in bytes.as_bytes() {
        socket.write_all(&[*byte]).await.unwrap();
        // Lets the gateway see the bytes so far, however few they are.
        tokio::task::yield_now().await;
    }
    let mut said = Vec::new();
    let read = timeout(
        PATIENCE.max(Duration::from_secs(10)),
        socket.read_to_end(&mut said),
    );
    read.await.unwrap().unwrap();

    assert!(
        said.starts_with(b"HTTP/1.1 200 "),
        "{}",
        said.escape_ascii()
    );
    assert_asked(&upstream, PATHS[0], 1, "bytes");
}
