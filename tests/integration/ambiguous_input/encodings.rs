//! Content types and content encodings of request bodies.

use std::io::Write;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};

use super::{Endpoint, JSON_HEADER, MASKING_CONFIG, SECRET, assert_not_forwarded, masking_gateway};
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
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all() {
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
            let answer = endpoint
                .post(&gateway, lines, endpoint.body_with_secret().as_bytes())
                .await;

            let case = format!("{lines}: {}", endpoint.path());
            assert_not_forwarded(&upstream, &answer, (400, reason), &case);
        }
    }
}

#[tokio::test]
async fn a_gzip_body_is_decoded_and_masked() {
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all() {
        for lines in [
            GZIPPED,
            "Content-Type: APPLICATION/JSON; charset=\"UTF-8\"\r\nContent-Encoding: X-GZIP\r\n",
        ] {
            let answer = endpoint
                .post(
                    &gateway,
                    lines,
                    &gzip(endpoint.body_with_secret().as_bytes()),
                )
                .await;

            assert_eq!(answer.status, 200, "{endpoint:?}: {answer:?}");
            let request = upstream.requests().pop().unwrap();
            assert!(
                request.body.contains("[REDACTED:secret]"),
                "{}",
                request.body
            );
            assert_eq!(request.header("content-encoding"), "");
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[tokio::test]
async fn a_body_that_cannot_be_decoded_reaches_no_upstream() {
    let (upstream, gateway) = masking_gateway().await;
    let body = Endpoint::all().next().unwrap().body_with_secret();
    let gzipped = gzip(body.as_bytes());
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(body.as_bytes()).unwrap();
    let deflated = deflated.finish().unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(body.as_bytes()).unwrap();
    let zlib = zlib.finish().unwrap();
    let two_members = [gzipped.clone(), gzip(b" ")].concat();
    let with_json_suffix = [gzipped.clone(), b"{}".to_vec()].concat();
    let mut wrong_length = gzipped.clone();
    *wrong_length.last_mut().unwrap() ^= 1;
    let plain = body.as_bytes().to_vec();
    let encoded = |encoding: &str| format!("{JSON_HEADER}content-encoding: {encoding}\r\n");
    for (case, lines, body, expected) in [
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
            "gzip twice",
            encoded("gzip, gzip"),
            &gzipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "identity and gzip",
            encoded("identity, gzip"),
            &gzipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "an empty encoding",
            encoded(""),
            &gzipped,
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        (
            "two headers",
            encoded("gzip") + "content-encoding: gzip\r\n",
            &gzipped,
            (400, "INVALID_HEADERS"),
        ),
        (
            "not compressed",
            encoded("gzip"),
            &plain,
            (400, "BODY_BROKEN"),
        ),
        (
            "zlib declared as gzip",
            encoded("gzip"),
            &zlib,
            (400, "BODY_BROKEN"),
        ),
        (
            "an empty body",
            encoded("gzip"),
            &Vec::new(),
            (400, "BODY_BROKEN"),
        ),
        (
            "truncated",
            encoded("gzip"),
            &gzipped[..gzipped.len() - 1].to_vec(),
            (400, "BODY_BROKEN"),
        ),
        (
            "a second gzip member",
            encoded("gzip"),
            &two_members,
            (400, "BODY_BROKEN"),
        ),
        (
            "JSON after the gzip data",
            encoded("gzip"),
            &with_json_suffix,
            (400, "BODY_BROKEN"),
        ),
        (
            "a wrong length in the gzip trailer",
            encoded("gzip"),
            &wrong_length,
            (400, "BODY_BROKEN"),
        ),
        (
            "gzip without content-encoding",
            JSON_HEADER.to_owned(),
            &gzipped,
            (400, "BAD_JSON"),
        ),
        (
            "gzip declared as identity",
            encoded("identity"),
            &gzipped,
            (400, "BAD_JSON"),
        ),
    ] {
        let answer = Raw::post(gateway.agents, GENERATE, &lines, body).await;

        assert_not_forwarded(&upstream, &answer, expected, case);
    }
}

#[tokio::test]
async fn a_zip_bomb_is_refused_at_the_body_size_limit() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(
        &upstream,
        &format!("limits: {{ body: 1MiB }}\n{MASKING_CONFIG}"),
    )
    .await;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..32 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 16, "{}", bomb.len());

    let answer = Raw::post(gateway.agents, GENERATE, GZIPPED, &bomb).await;

    assert_not_forwarded(&upstream, &answer, (413, "BODY_TOO_LARGE"), "a bomb");
}

#[tokio::test]
async fn without_hooks_a_body_is_forwarded_unchanged() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let body = format!(r#"{{"contents":[{{"parts":[{{"text":"{SECRET}"}}]}}]}}"#);
    let lines = format!("{JSON_HEADER}content-encoding: br\r\n");

    Raw::post(gateway.agents, GENERATE, &lines, body.as_bytes()).await;

    let request = upstream.only_request();
    assert_eq!(request.header("content-encoding"), "br");
    assert_eq!(request.body, body);
}
