//! Bodies that say of themselves what they are: media types and compression.

use std::io::Write;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};

use super::{Door, JSON, MASKED, SECRET, assert_stopped, masked};
use crate::harness::{Raw, TestGateway, Upstream};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const GZIPPED: &str = "content-type: application/json\r\ncontent-encoding: gzip\r\n";

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_body_with_a_media_type_other_than_json_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    for door in Door::all() {
        for (lines, reason) in [
            ("", "BAD_CONTENT_TYPE"),
            ("content-type:\r\n", "BAD_CONTENT_TYPE"),
            ("content-type: text/plain\r\n", "BAD_CONTENT_TYPE"),
            ("content-type: text/json\r\n", "BAD_CONTENT_TYPE"),
            (
                "content-type: application/x-protobuf\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: application/json+protobuf\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: application/x-www-form-urlencoded\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: multipart/mixed; boundary=x\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: application/json; charset=utf-16\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: application/json; charset=utf-7\r\n",
                "BAD_CONTENT_TYPE",
            ),
            (
                "content-type: application/json, text/plain\r\n",
                "BAD_CONTENT_TYPE",
            ),
            ("content-type: \u{e9}\r\n", "BAD_CONTENT_TYPE"),
            (
                "content-type: application/json\r\nContent-Type: text/plain\r\n",
                "INVALID_HEADERS",
            ),
        ] {
            let answer = door.post(&gate, lines, door.honest().as_bytes()).await;

            let what = format!("{lines}: {}", door.path());
            assert_stopped(&upstream, &answer, (400, reason), &what);
        }
    }
}

#[tokio::test]
async fn what_is_compressed_is_decoded_and_masked() {
    let (upstream, gate) = masked().await;
    for door in Door::all() {
        for lines in [
            GZIPPED,
            "Content-Type: APPLICATION/JSON; charset=\"UTF-8\"\r\nContent-Encoding: X-GZIP\r\n",
        ] {
            let answer = door
                .post(&gate, lines, &gzip(door.honest().as_bytes()))
                .await;

            assert_eq!(answer.status, 200, "{door:?}: {answer:?}");
            let asked = upstream.seen().pop().unwrap();
            assert!(asked.body.contains("[REDACTED:secret]"), "{}", asked.body);
            assert_eq!(asked.header("content-encoding"), "");
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a table of tricks")]
#[tokio::test]
async fn a_body_that_cannot_be_decoded_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    let body = Door::all().next().unwrap().honest();
    let zipped = gzip(body.as_bytes());
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(body.as_bytes()).unwrap();
    let deflated = deflated.finish().unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(body.as_bytes()).unwrap();
    let zlib = zlib.finish().unwrap();
    let two = [zipped.clone(), gzip(b" ")].concat();
    let behind = [zipped.clone(), b"{}".to_vec()].concat();
    let mut flipped = zipped.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let plain = body.as_bytes().to_vec();
    let encoded = |it: &str| format!("{JSON}content-encoding: {it}\r\n");
    for (what, lines, body, expected) in [
        (
            "deflate",
            encoded("deflate"),
            &zlib,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "raw deflate",
            encoded("deflate"),
            &deflated,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        ("br", encoded("br"), &plain, (415, "UNSUPPORTED_MEDIA_TYPE")),
        (
            "two",
            encoded("gzip, gzip"),
            &zipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "identity, too",
            encoded("identity, gzip"),
            &zipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "empty",
            encoded(""),
            &zipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "two headers",
            encoded("gzip") + "content-encoding: gzip\r\n",
            &zipped,
            (400, "INVALID_HEADERS"),
        ),
        (
            "not compressed",
            encoded("gzip"),
            &plain,
            (400, "BODY_BROKEN"),
        ),
        (
            "deflate in disguise",
            encoded("gzip"),
            &zlib,
            (400, "BODY_BROKEN"),
        ),
        (
            "nothing",
            encoded("gzip"),
            &Vec::new(),
            (400, "BODY_BROKEN"),
        ),
        (
            "cut off",
            encoded("gzip"),
            &zipped[..zipped.len() - 1].to_vec(),
            (400, "BODY_BROKEN"),
        ),
        (
            "another behind",
            encoded("gzip"),
            &two,
            (400, "BODY_BROKEN"),
        ),
        (
            "JSON behind",
            encoded("gzip"),
            &behind,
            (400, "BODY_BROKEN"),
        ),
        (
            "a wrong length",
            encoded("gzip"),
            &flipped,
            (400, "BODY_BROKEN"),
        ),
        (
            "compressed without a word",
            JSON.to_owned(),
            &zipped,
            (400, "BAD_JSON"),
        ),
        (
            "said to be identity",
            encoded("identity"),
            &zipped,
            (400, "BAD_JSON"),
        ),
    ] {
        let answer = Raw::post(gate.agents, GENERATE, &lines, body).await;

        assert_stopped(&upstream, &answer, expected, what);
    }
}

#[tokio::test]
async fn a_zip_bomb_takes_no_more_room_than_any_body() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &format!("limits: {{ body: 1MiB }}\n{MASKED}")).await;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..256 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 19, "{}", bomb.len());

    let answer = Raw::post(gate.agents, GENERATE, GZIPPED, &bomb).await;

    assert_stopped(&upstream, &answer, (413, "BODY_TOO_LARGE"), "a bomb");
}

#[tokio::test]
async fn a_body_without_hooks_passes_as_it_came() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let body = format!(r#"{{"contents":[{{"parts":[{{"text":"{SECRET}"}}]}}]}}"#);
    let lines = format!("{JSON}content-encoding: br\r\n");

    Raw::post(gate.agents, GENERATE, &lines, body.as_bytes()).await;

    let asked = upstream.only();
    assert_eq!(asked.header("content-encoding"), "br");
    assert_eq!(asked.body, body);
}
