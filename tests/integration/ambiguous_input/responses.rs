//! Responses that cannot be parsed, or that two parsers could read differently. Those that hooks
//! must see become an error or a broken stream, and never a complete response.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderName, HeaderValue, header};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{MASKING_CONFIG, SECRET};
use crate::harness::{
    End, Raw, TestGateway, Upstream, assert_refused, chunked_head, prompt, read_to_end, respond,
    write_chunk, write_last_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const ARRAY: &str = "/v1beta/models/m:streamGenerateContent";

fn response_with_part(part: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}},"finishReason":"STOP"}}]}}"#
    )
}

fn response_with_secret() -> String {
    response_with_part(&json!({ "text": SECRET }).to_string())
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Documents that are invalid or ambiguous.
fn ambiguous_documents() -> Vec<(&'static str, String)> {
    let deep = "[".repeat(65) + &"]".repeat(65);
    vec![
        (
            "a duplicate text",
            response_with_part(r#"{"text":"x","text":"SECRET-4711"}"#),
        ),
        (
            "an answer in an envelope",
            format!(r#"{{"response":{}}}"#, response_with_secret()),
        ),
        (
            "two spellings of a field",
            response_with_part(r#"{"functionCall":{"name":"f"},"function_call":{"name":"g"}}"#),
        ),
        (
            "a field in capitals",
            response_with_part(r#"{"text":"x","Text":"SECRET-4711"}"#),
        ),
        (
            "parts whose name ends with a long s",
            response_with_part(r#"{"text":"x"}"#).replace(
                "\"parts\":",
                "\"part\u{17f}\":[{\"text\":\"SECRET-4711\"}],\"parts\":",
            ),
        ),
        (
            "a duplicate argument",
            response_with_part(r#"{"functionCall":{"name":"f","args":{"a":1,"a":"SECRET-4711"}}}"#),
        ),
        (
            "a field of hookgate's own",
            response_with_part(r#"{"text":"x","hookgateSource":"SECRET-4711"}"#),
        ),
        (
            "a lone surrogate",
            response_with_part(r#"{"text":"SECRET-4711\ud83d"}"#),
        ),
        (
            "too deeply nested",
            response_with_part(&format!(r#"{{"text":"x","y":{deep}}}"#)),
        ),
        (
            "two documents",
            response_with_secret() + &response_with_secret(),
        ),
        ("a comment", response_with_secret() + "//"),
        (
            "a byte order mark",
            format!("\u{feff}\u{feff}{}", response_with_secret()),
        ),
        (
            "a truncated document",
            response_with_secret().replace("]},", ""),
        ),
        ("a text that is not JSON", SECRET.to_owned()),
        ("an empty body", String::new()),
    ]
}

async fn assert_refused_as_unreadable(upstream: &Upstream, paths: &[&str], case: &str) {
    for mode in ["chunk", "buffered"] {
        let gateway =
            TestGateway::start(upstream, &format!("after_model: {mode}\n{MASKING_CONFIG}")).await;
        for path in paths {
            let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

            assert!(!answer.text().contains(SECRET), "{case}: {path}");
            assert_eq!(answer.status, 502, "{case}: {path}: {}", answer.text());
            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
}

#[tokio::test]
async fn an_ambiguous_response_reaches_no_agent() {
    for (case, text) in ambiguous_documents() {
        let whole = text.clone();
        let upstream =
            Upstream::with(move |_| respond(200, "application/json", whole.clone())).await;
        assert_refused_as_unreadable(&upstream, &[GENERATE, SSE, ARRAY], case).await;
        if case == "an empty body" {
            continue;
        }
        let upstream = Upstream::with(move |_| {
            let event = format!("data: {text}\r\n\r\n");
            respond(200, "text/event-stream", event)
        })
        .await;
        assert_refused_as_unreadable(&upstream, &[SSE, ARRAY], case).await;
    }
}

#[tokio::test]
async fn a_response_with_a_media_type_other_than_json_reaches_no_agent() {
    for media_type in [
        "text/html",
        "text/plain",
        "application/x-protobuf",
        "application/json; charset=utf-16",
        "application/json, text/plain",
        "application/octet-stream",
        "multipart/mixed; boundary=x",
        "",
    ] {
        let upstream =
            Upstream::with(move |_| respond(200, media_type, response_with_secret())).await;

        assert_refused_as_unreadable(&upstream, &[GENERATE, SSE, ARRAY], media_type).await;
    }
}

#[tokio::test]
async fn a_stream_with_an_invalid_sse_line_is_refused() {
    for line in [
        r#"{"error":{"code":500,"message":"SECRET-4711"}}"#,
        r#" data: {"candidates":[]}"#,
        "Data: {}",
        "data : {}",
        "SECRET-4711",
    ] {
        let text = format!("{line}\r\n\r\ndata: {}\r\n\r\n", response_with_secret());
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", text.clone())).await;

        assert_refused_as_unreadable(&upstream, &[SSE, ARRAY], line).await;
    }
}

/// Writes two valid chunks, and then this one.
async fn write_two_valid_chunks_then(mut socket: TcpStream, last: String) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let valid = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"good. "}]}}]}"#;
    for event in [valid, valid, &*last] {
        let event = format!("data: {event}\r\n\r\n");
        // The gateway may have closed the connection.
        write_chunk(&mut socket, event.as_bytes()).await.ok();
    }
    write_last_chunk(&mut socket).await;
}

#[tokio::test]
async fn an_unreadable_chunk_after_the_first_breaks_the_stream() {
    for (case, text) in ambiguous_documents()
        .into_iter()
        .filter(|document| document.0 != "an empty body")
    {
        let upstream =
            Upstream::raw(move |_, socket| write_two_valid_chunks_then(socket, text.clone())).await;
        let gateway = TestGateway::start(&upstream, MASKING_CONFIG).await;

        let mut response = gateway.agent().open(SSE, prompt("hi").to_string()).await;
        assert_eq!(response.status(), 200, "{case}");
        let (received, end) = read_to_end(&mut response).await;

        assert_eq!(end, End::Broken, "{case}: {received}");
        assert!(!received.contains(SECRET), "{case}: {received}");
    }
}

#[tokio::test]
async fn an_unrequested_gzip_response_is_decoded_and_masked() {
    for (path, media_type, body) in [
        (GENERATE, "application/json", response_with_secret()),
        (
            SSE,
            "text/event-stream",
            format!("data: {}\r\n\r\n", response_with_secret()),
        ),
        (SSE, "application/json", response_with_secret()),
        (
            ARRAY,
            "application/json",
            format!("[{}]", response_with_secret()),
        ),
    ] {
        let gzipped = gzip(body.as_bytes());
        let upstream = Upstream::with(move |_| {
            let mut response = respond(200, media_type, gzipped.clone());
            let gzip = HeaderValue::from_static("gzip");
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, gzip);
            response
        })
        .await;
        let gateway = TestGateway::start(&upstream, MASKING_CONFIG).await;

        let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.text().contains("[REDACTED:secret]"), "{path}");
        assert_eq!(answer.header("content-encoding"), "");
        assert_eq!(
            upstream.only_request().header("accept-encoding"),
            "identity"
        );
    }
}

#[tokio::test]
async fn a_response_that_cannot_be_decoded_reaches_no_agent() {
    let gzipped = gzip(response_with_secret().as_bytes());
    let bomb = gzip(&vec![b' '; 4 << 20]);
    for (encoding, body) in [
        ("br", response_with_secret().into_bytes()),
        ("gzip", response_with_secret().into_bytes()),
        ("gzip, gzip", gzipped.clone()),
        ("deflate", gzipped.clone()),
        ("gzip", gzipped[..gzipped.len() - 9].to_vec()),
        ("gzip", bomb),
    ] {
        let upstream = Upstream::with(move |_| {
            let mut response = respond(200, "application/json", body.clone());
            let encoding = HeaderValue::from_static(encoding);
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, encoding);
            response
        })
        .await;
        let gateway = TestGateway::start(
            &upstream,
            &format!("limits: {{ response: 1MiB, event: 1MiB }}\n{MASKING_CONFIG}"),
        )
        .await;

        for path in [GENERATE, SSE] {
            let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
}

#[tokio::test]
async fn unsafe_response_headers_from_upstream_are_removed() {
    let upstream = Upstream::with(|_| {
        let mut response = respond(200, "application/json", response_with_secret());
        for (name, value) in [
            ("x-hookgate-action", "forged"),
            ("set-cookie", "a=b"),
            ("location", "http://other/"),
            ("refresh", "0; url=http://other/"),
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h3=\":443\""),
            ("x-plain", "kept"),
        ] {
            let name = HeaderName::from_static(name);
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    })
    .await;
    for config in ["", MASKING_CONFIG] {
        let gateway = TestGateway::start(&upstream, config).await;

        let answer = gateway
            .agent()
            .post(GENERATE, prompt("hi").to_string())
            .await;

        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-plain"), "kept");
        assert_ne!(answer.header("x-hookgate-action"), "forged");
        for name in [
            "set-cookie",
            "location",
            "refresh",
            "access-control-allow-origin",
            "alt-svc",
        ] {
            assert_eq!(answer.header(name), "", "{name}");
        }
    }
}

/// Writes this text and closes the connection.
async fn write_and_close(mut socket: TcpStream, text: String) {
    socket.write_all(text.as_bytes()).await.ok();
    socket.shutdown().await.ok();
}

/// Invalid or malicious HTTP responses.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[tokio::test]
async fn invalid_http_from_upstream_cannot_split_the_response() {
    let length = response_with_secret().len();
    for (case, text) in [
        (
            "a second response in a header",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: b\rHTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
            ),
        ),
        (
            "a folded header",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: b\r\n set-cookie: c\r\ncontent-length: {length}\r\n\r\n"
            ),
        ),
        (
            "a zero byte",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: b\0c\r\ncontent-length: {length}\r\n\r\n"
            ),
        ),
        (
            "two lengths",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\ncontent-length: {length}\r\n\r\n"
            ),
        ),
        (
            "a negative length",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: -1\r\n\r\n"
                .to_owned(),
        ),
        ("no status", "HTTP/1.1 OK\r\n\r\n".to_owned()),
        (
            "a status of four digits",
            "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
        ),
        (
            "an unknown status",
            "HTTP/1.1 799 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
        ),
        (
            "a protocol switch",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
                .to_owned(),
        ),
        (
            "early hints without a response",
            "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_owned(),
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ] {
        let text = text + &response_with_secret();
        let upstream = Upstream::raw(move |_, socket| write_and_close(socket, text.clone())).await;
        for config in ["", MASKING_CONFIG] {
            let gateway = TestGateway::start(&upstream, config).await;
            let body = prompt("hi").to_string();
            let json = "content-type: application/json\r\n";
            let answer = Raw::post(gateway.agents, GENERATE, json, body.as_bytes()).await;

            assert!(
                [502, 503].contains(&answer.status) || answer.is_complete_json(),
                "{case}: {answer:?}"
            );
            assert_eq!(
                answer.head.matches("HTTP/1.1").count(),
                1,
                "{case}: {answer:?}"
            );
            assert!(!answer.head.contains("set-cookie"), "{case}: {answer:?}");
            let body = String::from_utf8_lossy(&answer.body);
            let is_masked = config.is_empty() || !body.contains(SECRET);
            assert!(is_masked, "{case}: {body}");
        }
    }
}
