//! Malformed, oversized and stalled requests of agents, and the errors for them.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};

use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, prompt,
    send_and_read, wait_for_signal, wait_until_closed,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";

/// No hooks, and hooks on requests and responses.
const HOOK_CONFIGS: [&str; 2] = [
    "",
    "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }], \
     AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }",
];
const HOOKED: &str = HOOK_CONFIGS[1];

#[tokio::test]
async fn unknown_paths_wrong_methods_and_invalid_queries_are_refused() {
    let upstream = Upstream::mock().await;
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(&upstream, hooks).await;
        for (path, status, reason) in [
            ("/", 403, "UNKNOWN_PATH"),
            ("/v1beta/files", 403, "METHOD_REFUSED"),
            ("/v1beta/folders", 403, "UNKNOWN_PATH"),
            ("/v1beta/models/m:fly", 403, "UNKNOWN_PATH"),
            ("/v1beta/models/..%2Fm:generateContent", 403, "UNKNOWN_PATH"),
            ("/v1beta/models/m", 405, "METHOD_NOT_ALLOWED"),
            ("/v1beta/models", 405, "METHOD_NOT_ALLOWED"),
            (
                "/v1beta/models/m:generateContent?$httpMethod=GET",
                400,
                "BAD_QUERY",
            ),
            (
                "/v1beta/models/m:streamGenerateContent?alt=proto",
                400,
                "BAD_QUERY",
            ),
            (
                "/s/a%20b/v1beta/models/m:generateContent",
                400,
                "BAD_SESSION",
            ),
            ("/s//v1beta/models/m:generateContent", 400, "BAD_SESSION"),
        ] {
            let answer = gate.agent().post(path, prompt("hi").to_string()).await;
            assert_refused(&answer, status, reason);
        }
        for path in [GENERATE, "/hookgate/v1/events"] {
            let answer = gate.agent().get(path).await;
            assert_refused(&answer, 405, "METHOD_NOT_ALLOWED");
            assert_eq!(answer.header("allow"), "POST", "{path}");
        }
        let path = "/v1beta/cachedContents/c";
        let answer = gate.agent().post(path, "{}").await;
        assert_refused(&answer, 405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), "GET, PATCH, DELETE");
        let answer = gate.operator().post("/healthz", "").await;
        assert_refused(&answer, 405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), "GET,HEAD");
        let named = gate.agent().sending("x-hookgate-session", "a b");
        let answer = named.post(GENERATE, prompt("hi").to_string()).await;
        assert_refused(&answer, 400, "BAD_SESSION");
        let answer = gate.operator().get("/nothing").await;
        assert_refused(&answer, 403, "UNKNOWN_PATH");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_path_with_a_repeated_version_names_the_base_url_as_the_cause() {
    let gate = TestGateway::start(&Upstream::mock().await, "").await;
    for (path, message) in [
        (
            "/v1/v1/models",
            "unknown path: the base URL must not end in `/v1`",
        ),
        (
            "/s/a/v1beta/v1beta/models/m:generateContent",
            "unknown path: the base URL must not end in `/v1beta`",
        ),
        ("/v1/v1beta/models", "unknown path"),
    ] {
        let answer = gate.agent().post(path, prompt("hi").to_string()).await;

        assert_refused(&answer, 403, "UNKNOWN_PATH");
        assert_eq!(answer.json()["error"]["message"], message, "{path}");
    }
}

#[tokio::test]
async fn the_log_line_of_a_refused_request_has_the_reason_of_its_error() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    let url = format!("http://{}", upstream.addr);
    let config = format!("upstreams: {{ gemini: {{ url: \"{url}\" }} }}\n{HOOKED}");
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut gateway = ServerProcess::folder(folder.path());
    let agent = Agent::at(gateway.addr());
    for (path, body) in [(GENERATE, "{}"), (GENERATE, "{"), ("/v2/none", "{}")] {
        agent.post(path, body).await;
    }

    gateway.terminate();
    let ended = tokio::task::spawn_blocking(move || gateway.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();

    let lines = log
        .lines()
        .filter(|line| line.contains("exchange finished"));
    let errors = lines.map(|line| {
        let (_, error) = line
            .split_once(" error=")
            .unwrap_or_else(|| panic!("{line}"));
        error.split(' ').next().unwrap()
    });
    let errors: Vec<&str> = errors.collect();
    assert_eq!(
        errors,
        ["\"\"", "\"BAD_JSON\"", "\"UNKNOWN_PATH\""],
        "{log}"
    );
}

#[tokio::test]
async fn a_body_that_hooks_cannot_read_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    for (body, reason) in [
        ("", "BAD_JSON"),
        ("{", "BAD_JSON"),
        ("{} {}", "BAD_JSON"),
        ("[]", "BAD_JSON"),
        (r#"{"contents":5}"#, "BAD_DOCUMENT"),
        (r#"{"contents":[{"parts":5}]}"#, "BAD_DOCUMENT"),
        (r#"{"contents":[{"parts":[{"text":{}}]}]}"#, "BAD_DOCUMENT"),
        (r#"{"contents":[],"contents":[]}"#, "AMBIGUOUS"),
        (
            r#"{"contents":[],"generationConfig":{},"generation_config":{}}"#,
            "AMBIGUOUS",
        ),
    ] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let path = format!("/v1beta/models/m:{method}");
            let answer = gate.agent().post(&path, body).await;
            assert_refused(&answer, 400, reason);
        }
    }
    let answer = gate
        .agent()
        .post(GENERATE, &b"{\"contents\":\"\xff\"}"[..])
        .await;
    assert_refused(&answer, 400, "BAD_JSON");
    let deep = "[".repeat(100_000);
    let answer = gate.agent().post(GENERATE, deep).await;
    assert_refused(&answer, 400, "BAD_JSON");
    let parts = vec!["{}"; 600_000].join(",");
    let many = format!(r#"{{"contents":[{{"role":"user","parts":[{parts}]}}]}}"#);
    let answer = gate.agent().post(GENERATE, many).await;
    assert_refused(&answer, 400, "BAD_JSON");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn too_many_contents_are_refused_without_derived_events() {
    let upstream = Upstream::mock().await;
    let contents = vec![r#"{"role":"user","parts":[]}"#; (1 << 16) + 1].join(",");
    let many = format!(r#"{{"contents":[{contents}]}}"#);
    for hooks in ["policies: [{ policy: redact }]", HOOKED] {
        let gate = TestGateway::start(&upstream, hooks).await;
        let answer = gate.agent().post(GENERATE, many.clone()).await;
        assert_refused(&answer, 400, "BAD_DOCUMENT");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn oversized_bodies_are_refused_with_413() {
    let upstream = Upstream::mock().await;
    let piece = Bytes::from(vec![b' '; 1 << 20]);
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(&upstream, hooks).await;

        let declared = gate.agent().post(GENERATE, vec![b' '; 40 << 20]).await;
        let pieces = std::iter::repeat_n(Ok::<_, std::convert::Infallible>(piece.clone()), 40);
        let pieces = reqwest::Body::wrap_stream(stream::iter(pieces));
        let undeclared = gate.agent().post(GENERATE, pieces).await;

        assert_refused(&declared, 413, "BODY_TOO_LARGE");
        assert_refused(&undeclared, 413, "BODY_TOO_LARGE");
    }
    let gate = TestGateway::start(&upstream, "limits: { event: 1KiB }").await;
    let answer = gate
        .agent()
        .post("/hookgate/v1/events", vec![b' '; 4096])
        .await;
    assert_refused(&answer, 413, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_stalled_body_times_out() {
    let upstream = Upstream::mock().await;
    for hooks in HOOK_CONFIGS {
        let config = format!("timeouts: {{ body: 200ms }}\n{hooks}");
        let gate = TestGateway::start(&upstream, &config).await;
        for path in [GENERATE, "/hookgate/v1/events"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 connection: close\r\ncontent-length: 100\r\n\r\n{{"
            );

            let answer = send_and_read(gate.agents, request.as_bytes()).await;

            assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
            assert!(answer.contains("\"BODY_TIMEOUT\""), "{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn stalled_headers_time_out() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "timeouts: { header: 200ms }").await;
    for head in ["", "POST ", "POST / HTTP/1.1\r\nhost: x\r\n"] {
        let answer = send_and_read(gate.agents, head.as_bytes()).await;

        assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
}

#[tokio::test]
async fn a_truncated_request_body_reaches_no_upstream() {
    let (notify, mut notifications) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, mut socket| {
        let notify = notify.clone();
        async move {
            wait_until_closed(&mut socket).await;
            notify.send(()).unwrap();
        }
    })
    .await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    let request = format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"contents\""
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    drop(socket);

    let answer = timeout(TEST_TIMEOUT, gate.operator().get("/healthz"))
        .await
        .unwrap();

    assert_eq!(answer.status, 200);
    assert!(upstream.requests().is_empty());
    assert!(notifications.try_recv().is_err());
}

#[tokio::test]
async fn requests_over_the_concurrency_limit_are_refused_at_once() {
    let (notify, mut notifications) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, mut socket| {
        notify.send(()).unwrap();
        async move { wait_until_closed(&mut socket).await }
    })
    .await;
    for hooks in HOOK_CONFIGS {
        let config = format!("limits: {{ in_flight: 1 }}\n{hooks}");
        let gate = TestGateway::start(&upstream, &config).await;
        let body = prompt("hi").to_string();
        let head = format!(
            "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let mut first = TcpStream::connect(gate.agents).await.unwrap();
        first.write_all((head + &body).as_bytes()).await.unwrap();
        wait_for_signal(&mut notifications, "the first request").await;

        let second = gate.agent().post(GENERATE, body.clone()).await;
        assert_refused(&second, 503, "OVERLOADED");
        let health = gate.operator().get("/healthz").await;
        assert_eq!(health.status, 200, "an overloaded gateway is healthy");
        drop(first);

        // A disconnected agent frees its slot.
        timeout(TEST_TIMEOUT, wait_until_not_overloaded(&gate))
            .await
            .unwrap();
    }
}

async fn wait_until_not_overloaded(gate: &TestGateway) {
    while gate.agent().get("/").await.status == 503 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests_even_after_an_error() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    for (body, status) in [
        ("{", "400"),
        (&*prompt("hi").to_string(), "200"),
        ("[]", "400"),
    ] {
        let length = body.len();
        let request = format!(
            "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();

        let mut answer = vec![0; 64 * 1024];
        let read = timeout(TEST_TIMEOUT, socket.read(&mut answer))
            .await
            .unwrap()
            .unwrap();

        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_idle_timeout() {
    let upstream = Upstream::mock().await;
    let idle = "timeouts: { idle: 100ms }";
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(&upstream, &format!("{idle}\n{hooks}")).await;
        for (path, status) in [(GENERATE, 200), ("/nothing", 403)] {
            let body = prompt("hi").to_string();
            let length = body.len();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n"
            );

            let answer = send_and_read(gate.agents, (head + &body).as_bytes()).await;

            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
    }
}
