//! Credentials in responses of the model API: removed from headers, masked in bodies.

use axum::{body::Body, response::Response};
use flate2::{Compression, write::GzEncoder};
use http::HeaderValue;
use std::io::Write;

use super::{GENERATE, HOOK};
use crate::harness::{
    TestGateway, Upstream, chunked_head, prompt, respond, write_chunk, write_last_chunk,
};
use tokio::io::AsyncWriteExt;

const KEY: &str = "AIza-configured-key-4711";
const UPSTREAM: &str = "upstreams: { gemini: { url: \"{upstream}\", api_key: { file: key } } }\n";
const FILES: &[(&str, &str)] = &[("key", KEY)];

fn config(hooks: &str) -> String {
    UPSTREAM.to_owned() + hooks
}

/// Returns an answer of the model API with this text.
fn answer(text: &str) -> String {
    let parts = format!("[{{\"text\":\"{text}\"}}]");
    format!(
        "{{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":{parts}}},\
         \"finishReason\":\"STOP\"}}]}}"
    )
}

fn masked(text: &str) -> String {
    text.replace(KEY, &"*".repeat(KEY.len()))
}

#[tokio::test]
async fn credential_headers_of_a_response_never_reach_the_agent() {
    let upstream = Upstream::with(|_| {
        let mut response = respond(200, "application/json", answer("hi"));
        for (name, value) in [
            ("x-goog-api-key", "another-key"),
            ("authorization", "Bearer t"),
            ("proxy-authorization", "Basic t"),
            ("x-debug", "key=AIza-configured-key-4711"),
            ("x-kept", "yes"),
        ] {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    })
    .await;
    for hooks in ["", HOOK, "policies: [{ policy: redact }]"] {
        let gateway = TestGateway::with_files(&upstream, &config(hooks), FILES).await;

        let answer = gateway
            .agent()
            .post(GENERATE, prompt("hi").to_string())
            .await;

        assert_eq!((answer.status, answer.header("x-kept")), (200, "yes"));
        for name in [
            "x-goog-api-key",
            "authorization",
            "proxy-authorization",
            "x-debug",
        ] {
            assert_eq!(answer.header(name), "", "{name}, {hooks}");
        }
    }
}

#[tokio::test]
async fn the_configured_key_is_masked_without_a_change_of_the_body_length() {
    let body = answer(&format!("your key is {KEY}, {KEY}"));
    let sent = body.clone();
    let upstream = Upstream::with(move |asked| {
        let status = if asked.path.contains("missing") {
            404
        } else {
            200
        };
        respond(status, "application/json", sent.clone())
    })
    .await;
    for hooks in [
        "",
        HOOK,
        "policies: [{ policy: model_allow, models: ['*'] }]",
    ] {
        let gateway = TestGateway::with_files(&upstream, &config(hooks), FILES).await;
        for path in [GENERATE, "/v1beta/models/missing:generateContent"] {
            let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

            assert_eq!(answer.text(), masked(&body), "{hooks}");
        }
    }
}

#[tokio::test]
async fn a_key_split_over_two_chunks_is_masked() {
    let text = format!("data: {}\r\n\r\n", answer(&format!("a {KEY} b AIza-conf")));
    for cut in [40, 70, 80, 90] {
        let sent = text.clone();
        let upstream = Upstream::raw(move |_, mut socket| {
            let sent = sent.clone();
            async move {
                let head = chunked_head("text/event-stream");
                socket.write_all(head.as_bytes()).await.unwrap();
                let (first, second) = sent.as_bytes().split_at(cut);
                write_chunk(&mut socket, first).await.unwrap();
                write_chunk(&mut socket, second).await.unwrap();
                write_last_chunk(&mut socket).await;
            }
        })
        .await;
        for hooks in ["", HOOK] {
            let gateway = TestGateway::with_files(&upstream, &config(hooks), FILES).await;
            let path = "/v1beta/models/m:streamGenerateContent?alt=sse";

            let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

            assert_eq!(answer.text(), masked(&text), "{cut} {hooks}");
        }
    }
}

#[tokio::test]
async fn a_key_in_a_compressed_response_is_masked() {
    let body = answer(&format!("your key is {KEY}"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body.as_bytes()).unwrap();
    let zipped = encoder.finish().unwrap();
    let upstream = Upstream::with(move |_| -> Response {
        let mut response = respond(200, "application/json", Body::from(zipped.clone()));
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert("content-encoding", gzip);
        response
    })
    .await;
    for hooks in ["", HOOK] {
        let gateway = TestGateway::with_files(&upstream, &config(hooks), FILES).await;
        let agent = gateway.agent().sending("accept-encoding", "gzip");

        let answer = agent.post(GENERATE, prompt("hi").to_string()).await;

        assert_eq!(answer.header("content-encoding"), "");
        assert_eq!(answer.text(), masked(&body), "{hooks}");
    }
}

#[tokio::test]
async fn a_key_of_the_agent_is_not_masked() {
    let upstream = Upstream::with(|asked| {
        let key = asked.header("x-goog-api-key").to_owned();
        respond(200, "application/json", answer(&key))
    })
    .await;
    let gateway = TestGateway::start(&upstream, "").await;
    let agent = gateway.agent().sending("x-goog-api-key", KEY);

    let response = agent.post(GENERATE, prompt("hi").to_string()).await;

    assert_eq!(response.text(), answer(KEY));
}

#[tokio::test]
async fn a_key_with_escaped_characters_is_masked() {
    let key = "abcDEF+ghi/jkl0123456789==";
    let files = [("key", key)];
    let code = |character: char| format!("\\u{:04X}", u32::from(character));
    let spellings = [
        key.replace('/', "\\/"),
        key.replace('+', &code('+')),
        key.replace('=', &code('=').to_lowercase()),
        key.chars().map(code).collect(),
        key.replace('+', "%2B").replace('/', "%2f"),
    ];
    for spelling in spellings {
        let body = answer(&format!("invalid key {spelling}"));
        let sent = body.clone();
        let upstream = Upstream::with(move |asked| {
            let status = if asked.path.contains("missing") {
                400
            } else {
                200
            };
            respond(status, "application/json", sent.clone())
        })
        .await;
        for hooks in ["", HOOK] {
            let gateway = TestGateway::with_files(&upstream, &config(hooks), &files).await;
            for path in [GENERATE, "/v1beta/models/missing:generateContent"] {
                let answer = gateway.agent().post(path, prompt("hi").to_string()).await;

                let expected = body.replace(&spelling, &"*".repeat(spelling.len()));
                assert_eq!(answer.text(), expected, "{hooks}");
            }
        }
    }
}
