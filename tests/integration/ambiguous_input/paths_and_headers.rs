//! Paths, query strings and headers that another parser could read differently.

use super::{Endpoint, JSON_HEADER, Raw, assert_not_forwarded, masking_gateway};
use http::HeaderName;

#[tokio::test]
async fn a_path_is_matched_without_normalization() {
    let (upstream, gateway) = masking_gateway().await;
    let body = Endpoint::all().next().unwrap().body_with_secret();
    for path in [
        "//v1beta/models/m:generateContent",
        "/v1beta//models/m:generateContent",
        "/v1beta/./models/m:generateContent",
        "/v1/../v1beta/models/m:generateContent",
        "/v1beta/models/m:generateContent/",
        "/v1beta/models/m:generateContent/.",
        "/v1beta/models/m:generateContent/..",
        "/v1beta/models/../models/m:generateContent",
        "/v1beta/models/m/:generateContent",
        "/v1beta/models/x/m:generateContent",
        "/v1beta/models/m%3AgenerateContent",
        "/v1beta/models/m%3agenerateContent",
        "/v1beta/models/m:%67enerateContent",
        "/v1beta/models/m:generateConten%74",
        "/v1beta%2Fmodels/m:generateContent",
        "/%761beta/models/m:generateContent",
        "/v1beta/models/m%00:generateContent",
        "/v1beta/models/m:generateContent%00",
        "/v1beta/models/m:generateContent%3Falt=sse",
        "/v1beta/models/m:generateContent%23",
        "/v1beta/models/m:generateContent;alt=sse",
        "/v1beta;x/models/m:generateContent",
        "/v1beta/models\\m:generateContent",
        "/v1beta/models/..\\m:generateContent",
        "/v1beta/models/..:generateContent",
        "/v1beta/models/%2e%2e:generateContent",
        "/v1beta/models/m:generatecontent",
        "/v1beta/models/m:GenerateContent",
        "/V1beta/models/m:generateContent",
        "/v1beta/models/m:generateContent:countTokens",
        "/v1beta/models/m:countTokens:generateContent",
        "/v1beta/models/:generateContent",
        "/v1beta/models/m:",
        "/v1beta/cachedContents/m:generateContent",
        "/v1/projects/p/locations/l/../publishers/google/models/m:generateContent",
        "/v1/projects/p%2Flocations/l/publishers/google/models/m:generateContent",
        "/v1/publishers/google%2Fmodels/m:generateContent",
        "/v1/publishers/other/models/m:generateContent",
        "/v1internal/generateContent",
        "/v1internal%3AgenerateContent",
        "/v1internal:generateContent:countTokens",
        "/v1internal:generatecontent",
        "/v1internal::generateContent",
        "/upload/v1beta/models/m:generateContent",
        "/batch/v1beta/models/m:generateContent",
        "/$rpc/v1beta/models/m:generateContent",
    ] {
        let answer = Raw::post(gateway.agents, path, JSON_HEADER, body.as_bytes()).await;

        assert_not_forwarded(&upstream, &answer, (403, "UNKNOWN_PATH"), path);
    }
    for session in [".", ".."] {
        let path = format!("/s/{session}/v1beta/models/m:generateContent");
        let answer = Raw::post(gateway.agents, &path, JSON_HEADER, body.as_bytes()).await;

        assert_not_forwarded(&upstream, &answer, (400, "BAD_SESSION"), &path);
    }
}

#[tokio::test]
async fn a_request_target_that_is_not_a_path_is_refused() {
    let (upstream, gateway) = masking_gateway().await;
    let body = Endpoint::all().next().unwrap().body_with_secret();
    for target in [
        "http://x/v1beta/models/m:generateContent",
        "http://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
        "https://x:443/v1beta/models/m:generateContent",
        "*",
    ] {
        let answer = Raw::post(gateway.agents, target, JSON_HEADER, body.as_bytes()).await;

        assert_not_forwarded(&upstream, &answer, (400, "INVALID_HEADERS"), target);
    }
    for line in [
        "CONNECT generativelanguage.googleapis.com:443 HTTP/1.1",
        "POST v1beta/models/m:generateContent HTTP/1.1",
        "POST /v1beta/models/m:generateContent\t HTTP/1.1",
        "POST /v1beta/models/m:generateContent x HTTP/1.1",
        "POST /v1beta/models/m:generateContent\0 HTTP/1.1",
    ] {
        let request = format!(
            "{line}\r\nhost: x\r\nconnection: close\r\n{JSON_HEADER}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = Raw::send(gateway.agents, request.as_bytes()).await;

        assert!((400..500).contains(&answer.status), "{line}: {answer:?}");
        assert!(
            upstream.requests().is_empty(),
            "{line}: {:?}",
            upstream.requests()
        );
    }
}

#[tokio::test]
async fn a_fragment_is_not_forwarded() {
    let (upstream, gateway) = masking_gateway().await;
    let endpoint = Endpoint::all().next().unwrap();
    let target = format!("{}#/../../other?alt=proto", endpoint.path());

    Raw::post(
        gateway.agents,
        &target,
        JSON_HEADER,
        endpoint.body_with_secret().as_bytes(),
    )
    .await;

    for request in upstream.requests() {
        assert_eq!(
            (request.path, request.query),
            (endpoint.path(), String::new())
        );
        assert!(
            request.body.contains("[REDACTED:secret]"),
            "{}",
            request.body
        );
    }
}

#[tokio::test]
async fn a_query_that_could_change_the_call_reaches_no_upstream() {
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all().filter(|endpoint| !endpoint.method.contains('?')) {
        for (query, reason) in [
            ("$httpMethod=GET", "BAD_QUERY"),
            ("%24httpMethod=GET", "BAD_QUERY"),
            ("$alt=proto", "BAD_QUERY"),
            ("$.xgafv=1", "BAD_QUERY"),
            ("$ct=application/x-protobuf", "BAD_QUERY"),
            ("$req=x", "BAD_QUERY"),
            ("$fields=candidates", "BAD_QUERY"),
            ("$unique=x", "BAD_QUERY"),
            ("fields=candidates.finishReason", "BAD_QUERY"),
            ("callback=f", "BAD_QUERY"),
            ("access_token=t", "BAD_QUERY"),
            ("oauth_token=t", "BAD_QUERY"),
            ("upload_protocol=resumable", "BAD_QUERY"),
            ("uploadType=media", "BAD_QUERY"),
            ("alt=proto", "BAD_QUERY"),
            ("alt=media", "BAD_QUERY"),
            ("alt=SSE", "BAD_QUERY"),
            ("ALT=sse", "BAD_QUERY"),
            ("%61lt=sse", "BAD_QUERY"),
            ("alt=s%73e", "BAD_QUERY"),
            ("alt=sse;x", "BAD_QUERY"),
            ("alt=sse&alt=json", "AMBIGUOUS"),
            ("alt=sse&alt=sse", "AMBIGUOUS"),
            ("key=a&key=b", "AMBIGUOUS"),
            ("prettyPrint=a&prettyPrint=b", "AMBIGUOUS"),
            ("quotaUser=a?alt=proto", "BAD_QUERY"),
            ("x", "BAD_QUERY"),
            ("=", "BAD_QUERY"),
        ] {
            let path = format!("{}?{query}", endpoint.path());
            let body = endpoint.body_with_secret();
            let answer = Raw::post(gateway.agents, &path, JSON_HEADER, body.as_bytes()).await;

            assert_not_forwarded(&upstream, &answer, (400, reason), &path);
        }
    }
}

#[tokio::test]
async fn a_header_that_could_change_the_call_reaches_no_upstream() {
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all() {
        for lines in [
            "X-HTTP-Method-Override: GET",
            "x-http-method: DELETE",
            "x-method-override: GET",
            "X-Original-URL: /v1beta/files",
            "x-rewrite-url: /v1beta/files",
            "x-goog-api-key: a\r\nx-goog-api-key: b",
            "authorization: Bearer a\r\nAuthorization: Bearer b",
            "x-hookgate-session: a\r\nx-hookgate-session: b",
            "user-agent: GeminiCLI\r\nuser-agent: other",
            "host: other",
            "connection: x-goog-api-key",
            "connection: keep-alive, Authorization",
        ] {
            let all = format!("{JSON_HEADER}{lines}\r\n");
            let answer = endpoint
                .post(&gateway, &all, endpoint.body_with_secret().as_bytes())
                .await;

            let case = format!("{lines}: {}", endpoint.path());
            assert_not_forwarded(&upstream, &answer, (400, "INVALID_HEADERS"), &case);
        }
    }
    let request = b"GET /v1beta/models HTTP/1.1\r\nconnection: close\r\n\r\n";
    let answer = Raw::send(gateway.agents, request).await;
    assert_not_forwarded(&upstream, &answer, (400, "INVALID_HEADERS"), "no host");
    let event = "/hookgate/v1/events";
    let twice = "x-goog-api-key: a\r\nx-goog-api-key: b\r\n";
    let answer = Raw::post(gateway.agents, event, twice, b"{}").await;
    assert_not_forwarded(&upstream, &answer, (400, "INVALID_HEADERS"), event);
}

#[tokio::test]
async fn only_headers_on_the_allow_list_are_forwarded() {
    let (upstream, gateway) = masking_gateway().await;
    let endpoint = Endpoint::all().next().unwrap();
    let lines = format!(
        "{JSON_HEADER}x-goog-api-key: K\r\nx-goog-fieldmask: candidates.finishReason\r\n\
         x-goog-upload-protocol: raw\r\nx-goog-request-params: model=other\r\n\
         x-goog-ext-1-bin: AA==\r\nx-forwarded-host: other\r\nforwarded: host=other\r\n\
         x-forwarded-for: 192.0.2.1\r\n\
         cookie: a=b\r\nte: trailers\r\nupgrade: h2c\r\n\
         range: bytes=0-1\r\nif-none-match: x\r\ngrpc-timeout: 1S\r\nuser-agent: a\u{e9}b\r\n"
    );

    let answer = endpoint
        .post(&gateway, &lines, endpoint.body_with_secret().as_bytes())
        .await;

    assert!(answer.head.contains("HTTP/1.1 200 "), "{answer:?}");
    let request = upstream.only_request();
    let mut names: Vec<&str> = request.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "accept-encoding",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "x-goog-api-key",
        ]
    );
}

#[tokio::test]
async fn oversized_request_headers_are_refused() {
    let (upstream, gateway) = masking_gateway().await;
    let endpoint = Endpoint::all().next().unwrap();
    for lines in [
        format!("{JSON_HEADER}x-long: {}\r\n", "x".repeat(65 * 1024)),
        JSON_HEADER.to_owned() + &format!("x-n: {}\r\n", "x".repeat(1000)).repeat(70),
    ] {
        let answer = endpoint
            .post(&gateway, &lines, endpoint.body_with_secret().as_bytes())
            .await;

        assert_not_forwarded(
            &upstream,
            &answer,
            (431, "HEADERS_TOO_LARGE"),
            "a long head",
        );
    }
    for lines in [
        format!("{JSON_HEADER}x-long: {}\r\n", "x".repeat(1 << 20)),
        JSON_HEADER.to_owned() + &"x-n: x\r\n".repeat(200),
    ] {
        let answer = endpoint
            .post(&gateway, &lines, endpoint.body_with_secret().as_bytes())
            .await;

        assert!([0, 431].contains(&answer.status), "{answer:?}");
        assert!(upstream.requests().is_empty());
    }
}
