//! Paths, queries and headers that somebody on the way could read otherwise.

use super::{Door, JSON, Raw, assert_stopped, masked};
use http::HeaderName;

#[tokio::test]
async fn a_path_is_taken_by_the_letter() {
    let (upstream, gate) = masked().await;
    let body = Door::all().next().unwrap().honest();
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
        let answer = Raw::post(gate.agents, path, JSON, body.as_bytes()).await;

        assert_stopped(&upstream, &answer, (403, "UNKNOWN_PATH"), path);
    }
}

#[tokio::test]
async fn a_target_is_a_path() {
    let (upstream, gate) = masked().await;
    let body = Door::all().next().unwrap().honest();
    for target in [
        "http://x/v1beta/models/m:generateContent",
        "http://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
        "https://x:443/v1beta/models/m:generateContent",
        "*",
    ] {
        let answer = Raw::post(gate.agents, target, JSON, body.as_bytes()).await;

        assert_stopped(&upstream, &answer, (400, "INVALID_HEADERS"), target);
    }
    for line in [
        "CONNECT generativelanguage.googleapis.com:443 HTTP/1.1",
        "POST v1beta/models/m:generateContent HTTP/1.1",
        "POST /v1beta/models/m:generateContent\t HTTP/1.1",
        "POST /v1beta/models/m:generateContent x HTTP/1.1",
        "POST /v1beta/models/m:generateContent\0 HTTP/1.1",
    ] {
        let request = format!(
            "{line}\r\nhost: x\r\nconnection: close\r\n{JSON}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = Raw::send(gate.agents, request.as_bytes()).await;

        assert!((400..500).contains(&answer.status), "{line}: {answer:?}");
        assert!(upstream.seen().is_empty(), "{line}: {:?}", upstream.seen());
    }
}

#[tokio::test]
async fn a_fragment_goes_nowhere() {
    let (upstream, gate) = masked().await;
    let door = Door::all().next().unwrap();
    let target = format!("{}#/../../other?alt=proto", door.path());

    Raw::post(gate.agents, &target, JSON, door.honest().as_bytes()).await;

    for asked in upstream.seen() {
        assert_eq!((asked.path, asked.query), (door.path(), String::new()));
        assert!(asked.body.contains("[REDACTED:secret]"), "{}", asked.body);
    }
}

#[tokio::test]
async fn a_query_that_could_change_the_call_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    for door in Door::all().filter(|it| !it.method.contains('?')) {
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
            let path = format!("{}?{query}", door.path());
            let body = door.honest();
            let answer = Raw::post(gate.agents, &path, JSON, body.as_bytes()).await;

            assert_stopped(&upstream, &answer, (400, reason), &path);
        }
    }
}

#[tokio::test]
async fn a_header_that_could_change_the_call_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    for door in Door::all() {
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
            let all = format!("{JSON}{lines}\r\n");
            let answer = door.post(&gate, &all, door.honest().as_bytes()).await;

            let what = format!("{lines}: {}", door.path());
            assert_stopped(&upstream, &answer, (400, "INVALID_HEADERS"), &what);
        }
    }
    let request = b"GET /v1beta/models HTTP/1.1\r\nconnection: close\r\n\r\n";
    let answer = Raw::send(gate.agents, request).await;
    assert_stopped(&upstream, &answer, (400, "INVALID_HEADERS"), "no host");
    let event = "/hookgate/v1/events";
    let twice = "x-goog-api-key: a\r\nx-goog-api-key: b\r\n";
    let answer = Raw::post(gate.agents, event, twice, b"{}").await;
    assert_stopped(&upstream, &answer, (400, "INVALID_HEADERS"), event);
}

#[tokio::test]
async fn of_headers_only_those_on_the_list_travel() {
    let (upstream, gate) = masked().await;
    let door = Door::all().next().unwrap();
    let lines = format!(
        "{JSON}x-goog-api-key: K\r\nx-goog-fieldmask: candidates.finishReason\r\n\
         x-goog-upload-protocol: raw\r\nx-goog-request-params: model=other\r\n\
         x-goog-ext-1-bin: AA==\r\nx-forwarded-host: other\r\nforwarded: host=other\r\n\
         cookie: a=b\r\nte: trailers\r\nupgrade: h2c\r\n\
         range: bytes=0-1\r\nif-none-match: x\r\ngrpc-timeout: 1S\r\nuser-agent: a\u{e9}b\r\n"
    );

    let answer = door.post(&gate, &lines, door.honest().as_bytes()).await;

    assert!(answer.head.contains("HTTP/1.1 200 "), "{answer:?}");
    let asked = upstream.only();
    let mut names: Vec<&str> = asked.headers.keys().map(HeaderName::as_str).collect();
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
async fn a_head_that_is_too_large_is_an_error() {
    let (upstream, gate) = masked().await;
    let door = Door::all().next().unwrap();
    for lines in [
        format!("{JSON}x-long: {}\r\n", "x".repeat(65 * 1024)),
        JSON.to_owned() + &format!("x-n: {}\r\n", "x".repeat(1000)).repeat(70),
    ] {
        let answer = door.post(&gate, &lines, door.honest().as_bytes()).await;

        assert_stopped(
            &upstream,
            &answer,
            (431, "HEADERS_TOO_LARGE"),
            "a long head",
        );
    }
    for lines in [
        format!("{JSON}x-long: {}\r\n", "x".repeat(1 << 20)),
        JSON.to_owned() + &"x-n: x\r\n".repeat(200),
    ] {
        let answer = door.post(&gate, &lines, door.honest().as_bytes()).await;

        assert!([0, 431].contains(&answer.status), "{answer:?}");
        assert!(upstream.seen().is_empty());
    }
}
