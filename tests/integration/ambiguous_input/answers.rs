//! Answers that cannot be read, or in two ways. Whatever hooks must see and
//! cannot is an error, or a stream that breaks off; never a clean answer.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderName, HeaderValue, header};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{MASKED, SECRET};
use crate::harness::{
    End, Raw, TestGateway, Upstream, assert_refused, chunked_head, prompt, respond, rest,
    write_chunk, write_last_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const ARRAY: &str = "/v1beta/models/m:streamGenerateContent";

fn answer(part: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}},"finishReason":"STOP"}}]}}"#
    )
}

fn honest() -> String {
    answer(&json!({ "text": SECRET }).to_string())
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Documents that mean nothing, or two things.
fn unclear() -> Vec<(&'static str, String)> {
    let deep = "[".repeat(65) + &"]".repeat(65);
    vec![
        (
            "a text twice",
            answer(r#"{"text":"x","text":"SECRET-4711"}"#),
        ),
        (
            "both spellings",
            answer(r#"{"functionCall":{"name":"f"},"function_call":{"name":"g"}}"#),
        ),
        ("capitals", answer(r#"{"text":"x","Text":"SECRET-4711"}"#)),
        (
            "an argument twice",
            answer(r#"{"functionCall":{"name":"f","args":{"a":1,"a":"SECRET-4711"}}}"#),
        ),
        ("half of a pair", answer(r#"{"text":"SECRET-4711\ud83d"}"#)),
        ("too deep", answer(&format!(r#"{{"text":"x","y":{deep}}}"#))),
        ("two documents", honest() + &honest()),
        ("a comment", honest() + "//"),
        ("a byte order mark", format!("\u{feff}\u{feff}{}", honest())),
        ("half of it", honest().replace("]},", "")),
        ("text", SECRET.to_owned()),
        ("nothing", String::new()),
    ]
}

async fn refused(upstream: &Upstream, paths: &[&str], what: &str) {
    for mode in ["chunk", "buffered"] {
        let gate = TestGateway::start(upstream, &format!("after_model: {mode}\n{MASKED}")).await;
        for path in paths {
            let answer = gate.agent().post(path, prompt("hi").to_string()).await;

            assert!(!answer.text().contains(SECRET), "{what}: {path}");
            assert_eq!(answer.status, 502, "{what}: {path}: {}", answer.text());
            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
}

#[tokio::test]
async fn an_ambiguous_answer_reaches_no_agent() {
    for (what, text) in unclear() {
        let whole = text.clone();
        let upstream =
            Upstream::with(move |_| respond(200, "application/json", whole.clone())).await;
        refused(&upstream, &[GENERATE, SSE, ARRAY], what).await;
        if what == "nothing" {
            continue;
        }
        let upstream = Upstream::with(move |_| {
            let event = format!("data: {text}\r\n\r\n");
            respond(200, "text/event-stream", event)
        })
        .await;
        refused(&upstream, &[SSE, ARRAY], what).await;
    }
}

#[tokio::test]
async fn an_answer_with_a_media_type_other_than_json_reaches_no_agent() {
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
        let upstream = Upstream::with(move |_| respond(200, media_type, honest())).await;

        refused(&upstream, &[GENERATE, SSE, ARRAY], media_type).await;
    }
}

#[tokio::test]
async fn a_line_that_is_of_no_event_breaks_the_stream() {
    for line in [
        r#"{"error":{"code":500,"message":"SECRET-4711"}}"#,
        r#" data: {"candidates":[]}"#,
        "Data: {}",
        "data : {}",
        "SECRET-4711",
    ] {
        let text = format!("{line}\r\n\r\ndata: {}\r\n\r\n", honest());
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", text.clone())).await;

        refused(&upstream, &[SSE, ARRAY], line).await;
    }
}

/// Two good chunks, and then this one.
async fn well_begun(mut socket: TcpStream, last: String) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let good = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"good. "}]}}]}"#;
    for event in [good, good, &*last] {
        let event = format!("data: {event}\r\n\r\n");
        // The gateway may have broken off.
        write_chunk(&mut socket, event.as_bytes()).await.ok();
    }
    write_last_chunk(&mut socket).await;
}

#[tokio::test]
async fn once_a_chunk_is_out_what_cannot_be_read_breaks_the_stream() {
    for (what, text) in unclear().into_iter().filter(|it| it.0 != "nothing") {
        let upstream = Upstream::raw(move |_, socket| well_begun(socket, text.clone())).await;
        let gate = TestGateway::start(&upstream, MASKED).await;

        let mut response = gate.agent().open(SSE, prompt("hi").to_string()).await;
        assert_eq!(response.status(), 200, "{what}");
        let (said, end) = rest(&mut response).await;

        assert_eq!(end, End::Broken, "{what}: {said}");
        assert!(!said.contains(SECRET), "{what}: {said}");
    }
}

#[tokio::test]
async fn what_comes_compressed_unasked_is_decoded_and_masked() {
    for (path, media_type, body) in [
        (GENERATE, "application/json", honest()),
        (
            SSE,
            "text/event-stream",
            format!("data: {}\r\n\r\n", honest()),
        ),
        (SSE, "application/json", honest()),
        (ARRAY, "application/json", format!("[{}]", honest())),
    ] {
        let zipped = gzip(body.as_bytes());
        let upstream = Upstream::with(move |_| {
            let mut response = respond(200, media_type, zipped.clone());
            let gzip = HeaderValue::from_static("gzip");
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, gzip);
            response
        })
        .await;
        let gate = TestGateway::start(&upstream, MASKED).await;

        let answer = gate.agent().post(path, prompt("hi").to_string()).await;

        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.text().contains("[REDACTED:secret]"), "{path}");
        assert_eq!(answer.header("content-encoding"), "");
        assert_eq!(upstream.only().header("accept-encoding"), "identity");
    }
}

#[tokio::test]
async fn an_answer_with_an_unknown_encoding_reaches_no_agent() {
    let zipped = gzip(honest().as_bytes());
    let bomb = gzip(&vec![b' '; 4 << 20]);
    for (encoding, body) in [
        ("br", honest().into_bytes()),
        ("gzip", honest().into_bytes()),
        ("gzip, gzip", zipped.clone()),
        ("deflate", zipped.clone()),
        ("gzip", zipped[..zipped.len() - 9].to_vec()),
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
        let gate = TestGateway::start(
            &upstream,
            &format!("limits: {{ response: 1MiB, event: 1MiB }}\n{MASKED}"),
        )
        .await;

        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, prompt("hi").to_string()).await;

            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
}

#[tokio::test]
async fn an_answers_head_cannot_say_more_than_an_answer_does() {
    let upstream = Upstream::with(|_| {
        let mut response = respond(200, "application/json", honest());
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
    for config in ["", MASKED] {
        let gate = TestGateway::start(&upstream, config).await;

        let answer = gate.agent().post(GENERATE, prompt("hi").to_string()).await;

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

/// Says this, and nothing more.
async fn says(mut socket: TcpStream, text: String) {
    socket.write_all(text.as_bytes()).await.ok();
    socket.shutdown().await.ok();
}

/// What an upstream writes that knows no HTTP, or wants to be misunderstood.
#[expect(clippy::too_many_lines, reason = "a table of tricks")]
#[tokio::test]
async fn an_upstream_that_breaks_http_cannot_speak_for_the_gateway() {
    let length = honest().len();
    for (what, text) in [
        (
            "another response in a header",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: b\rHTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
            ),
        ),
        (
            "a header that goes on",
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
            "a status beyond all",
            "HTTP/1.1 799 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
        ),
        (
            "other protocols",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
                .to_owned(),
        ),
        (
            "nothing but early hints",
            "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_owned(),
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ] {
        let text = text + &honest();
        let upstream = Upstream::raw(move |_, socket| says(socket, text.clone())).await;
        for config in ["", MASKED] {
            let gate = TestGateway::start(&upstream, config).await;
            let body = prompt("hi").to_string();
            let json = "content-type: application/json\r\n";
            let answer = Raw::post(gate.agents, GENERATE, json, body.as_bytes()).await;

            assert!(
                [502, 503].contains(&answer.status) || answer.reads_as_whole(),
                "{what}: {answer:?}"
            );
            assert_eq!(
                answer.head.matches("HTTP/1.1").count(),
                1,
                "{what}: {answer:?}"
            );
            assert!(!answer.head.contains("set-cookie"), "{what}: {answer:?}");
            let said = String::from_utf8_lossy(&answer.body);
            let hides = config.is_empty() || !said.contains(SECRET);
            assert!(hides, "{what}: {said}");
        }
    }
}
