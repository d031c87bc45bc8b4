//! Circuit breaker, fallback and reused connections of an upstream that fails.

mod addresses;
mod http2;
mod stages;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::harness::{
    Agent, Answer, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, closed_port,
    eventually, prompt, respond, wait_until_closed,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const HOOKED: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }] }";
const CIRCUIT: &str = "circuit: { failures: 3, within: 30s, open: 1s }";

/// Starts a gateway whose model API is at `first`, with these settings beside the URL.
async fn start_gateway(
    upstream: &Upstream,
    first: SocketAddr,
    settings: &str,
    more: &str,
) -> TestGateway {
    let config =
        format!("upstreams: {{ gemini: {{ url: \"http://{first}\", {settings} }} }}\n{more}");
    TestGateway::start(upstream, &config).await
}

async fn call(gate: &TestGateway) -> Answer {
    gate.agent().generate("m", &prompt("hello")).await
}

/// Returns whether the metrics have this line.
async fn has_metric(gate: &TestGateway, line: &str) -> bool {
    let text = gate.operator().get("/metrics").await;
    text.text().lines().any(|metric| metric == line)
}

/// Starts an upstream that responds with this line in its head while the flag is set, and closes
/// connections otherwise.
async fn switchable_upstream(line: &'static str) -> (Upstream, Arc<AtomicBool>) {
    let is_healthy = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_healthy);
    let upstream = Upstream::raw(move |_, mut socket| {
        let is_healthy = flag.load(Ordering::SeqCst);
        async move {
            if is_healthy {
                let answer = format!(
                    "HTTP/1.1 200 OK\r\n{line}content-type: application/json\r\n\
                     content-length: 2\r\nconnection: close\r\n\r\n{{}}"
                );
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (upstream, is_healthy)
}

#[tokio::test]
async fn the_circuit_breaker_opens_and_allows_one_probe() {
    let (upstream, is_healthy) = switchable_upstream("").await;
    for hooks in ["", HOOKED] {
        is_healthy.store(false, Ordering::SeqCst);
        let before = upstream.requests().len();
        let gate = start_gateway(&upstream, upstream.addr, CIRCUIT, hooks).await;
        for _ in 0..3 {
            let answer = call(&gate).await;
            assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
            assert_eq!(answer.header("retry-after"), "");
        }

        let answer = call(&gate).await;

        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(
            upstream.requests().len() - before,
            3,
            "no request reaches upstream while the circuit is open"
        );
        assert!(
            has_metric(
                &gate,
                r#"hookgate_circuit_breaker_open{upstream="gemini"} 1"#
            )
            .await
        );
        let failures = r#"hookgate_upstream_failures_total{upstream="gemini",reason="broken"} 3"#;
        assert!(has_metric(&gate, failures).await);
        let ready = gate.operator().get("/readyz").await;
        assert_eq!(ready.status, 200);
        assert!(
            ready.text().contains("circuit breaker open: gemini"),
            "{}",
            ready.text()
        );
        // The probe fails, and the circuit breaker opens again.
        sleep(Duration::from_millis(1050)).await;
        assert_eq!(call(&gate).await.header("retry-after"), "");
        assert_eq!(call(&gate).await.header("retry-after"), "1");
        assert_eq!(upstream.requests().len() - before, 4);

        is_healthy.store(true, Ordering::SeqCst);
        sleep(Duration::from_millis(1050)).await;

        assert_eq!(call(&gate).await.status, 200);
        assert_eq!(call(&gate).await.status, 200);
        assert!(
            has_metric(
                &gate,
                r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#
            )
            .await
        );
    }
}

#[tokio::test]
async fn calls_that_break_at_the_same_time_open_the_circuit() {
    let upstream = Upstream::raw(|_, socket| async move {
        sleep(Duration::from_millis(500)).await;
        drop(socket);
    })
    .await;
    let circuit = "circuit: { failures: 3, within: 30s, open: 30s }";
    let gate = start_gateway(&upstream, upstream.addr, circuit, "").await;
    let broken = join_all((0..3).map(|_| call(&gate))).await;

    let answer = call(&gate).await;

    for answer in broken {
        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
        assert_eq!(answer.header("retry-after"), "");
    }
    assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
    assert_ne!(answer.header("retry-after"), "");
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn a_response_that_cannot_be_decoded_closes_the_circuit() {
    let (upstream, is_healthy) = switchable_upstream("content-encoding: br\r\n").await;
    let config = "upstreams: { gemini: { url: \"{upstream}\", api_key: { file: key }, \
         circuit: { failures: 1, within: 30s, open: 1s } } }";
    let gate = TestGateway::with_files(&upstream, config, &[("key", "AIza-configured-key")]).await;
    assert_refused(&call(&gate).await, 503, "UPSTREAM_UNREACHABLE");
    assert_eq!(call(&gate).await.header("retry-after"), "1");
    is_healthy.store(true, Ordering::SeqCst);
    sleep(Duration::from_millis(1050)).await;

    let answer = call(&gate).await;

    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    let closed = r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#;
    assert!(has_metric(&gate, closed).await);
}

#[tokio::test]
async fn only_502_503_and_504_without_an_api_error_open_the_circuit_breaker() {
    for (status, media_type, opens) in [
        (503, "application/json", false),
        (429, "application/json", false),
        (500, "text/plain", false),
        // The agent's own deadline or response format may be the cause of these.
        (504, "application/x-protobuf", false),
        (503, "text/event-stream", false),
        (503, "text/plain", true),
        (502, "text/html", true),
        (504, "text/html", true),
    ] {
        let upstream = Upstream::with(move |_| respond(status, media_type, "{}")).await;
        let gate = start_gateway(&upstream, upstream.addr, CIRCUIT, "").await;

        for _ in 0..6 {
            call(&gate).await;
        }

        let expected = if opens { 3 } else { 6 };
        assert_eq!(upstream.requests().len(), expected, "{status} {media_type}");
    }
}

#[tokio::test]
async fn a_stalled_request_body_does_not_open_the_circuit_breaker() {
    let upstream = Upstream::mock().await;
    let timeouts = "timeouts: { body: 100ms, first_byte: 300ms }";
    let gate = start_gateway(&upstream, upstream.addr, CIRCUIT, timeouts).await;
    let head = format!("POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n");

    for _ in 0..4 {
        // The body stalls until the timeout.
        let answer = crate::harness::send_and_read(gate.agents, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    assert_eq!(call(&gate).await.status, 200);
    assert!(
        has_metric(
            &gate,
            r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#
        )
        .await
    );
}

#[tokio::test]
async fn an_agent_that_holds_its_body_back_leaves_upstream_its_time() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        sleep(Duration::from_secs(1)).await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nconnection: close\r\n\r\n{}";
        socket.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let (circuit, timeouts) = ("circuit: { failures: 1 }", "timeouts: { first_byte: 2s }");
    let gate = start_gateway(&upstream, upstream.addr, circuit, timeouts).await;
    let body = prompt("hello").to_string();
    let (last, rest) = (&body[body.len() - 1..], &body[..body.len() - 1]);
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    let head = format!(
        "POST {GENERATE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{rest}",
        body.len()
    );

    socket.write_all(head.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(1500)).await;
    socket.write_all(last.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();

    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_request_that_the_first_upstream_did_not_receive_uses_the_fallback() {
    let second = Upstream::mock().await;
    let unused = closed_port();
    let first = unused.local_addr().unwrap();
    let settings = format!(
        "{CIRCUIT}, fallback: {{ url: \"http://{}\", bearer: {{ file: token }} }}",
        second.addr
    );
    for hooks in ["", HOOKED] {
        let before = second.requests().len();
        let config =
            format!("upstreams: {{ gemini: {{ url: \"http://{first}\", {settings} }} }}\n{hooks}");
        let gate = TestGateway::with_files(&second, &config, &[("token", "SECOND")]).await;
        let agent = gate
            .agent()
            .sending("x-goog-api-key", "MINE")
            .sending("x-goog-user-project", "p");

        // The first calls cannot connect; for later ones the circuit breaker is open.
        for _ in 0..5 {
            let answer = agent.generate("m", &prompt("hello")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }

        let seen = second.requests().split_off(before);
        assert_eq!(seen.len(), 5);
        for asked in seen {
            assert_eq!(asked.json(), prompt("hello"));
            assert_eq!(asked.header("authorization"), "Bearer SECOND");
            assert_eq!(asked.header("x-goog-api-key"), "");
            assert_eq!(asked.header("x-goog-user-project"), "");
        }
        assert!(
            has_metric(
                &gate,
                r#"hookgate_upstream_fallbacks_total{upstream="gemini"} 5"#
            )
            .await
        );
    }
}

#[tokio::test]
async fn a_call_that_the_circuit_of_the_fallback_refuses_is_not_counted_as_sent() {
    let upstream = Upstream::mock().await;
    let (first, second) = (closed_port(), closed_port());
    let (first_addr, second_addr) = (first.local_addr().unwrap(), second.local_addr().unwrap());
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{first_addr}\", {CIRCUIT}, \
         fallback: {{ url: \"http://{second_addr}\", bearer: {{ file: token }} }} }} }}"
    );
    let gate = TestGateway::with_files(&upstream, &config, &[("token", "SECOND")]).await;

    for _ in 0..5 {
        assert_refused(&call(&gate).await, 503, "UPSTREAM_UNREACHABLE");
    }

    // The third call opens the circuits of both addresses.
    let sent = r#"hookgate_upstream_fallbacks_total{upstream="gemini"} 3"#;
    assert!(has_metric(&gate, sent).await);
}

#[tokio::test]
async fn a_request_that_the_first_upstream_may_have_received_is_sent_to_no_other() {
    let second = Upstream::mock().await;
    let first = Upstream::raw(|asked, mut socket| async move {
        if asked.body.contains("hang") {
            wait_until_closed(&mut socket).await;
        }
    })
    .await;
    let settings = format!(
        "fallback: {{ url: \"http://{}\", api_key: {{ file: token }} }}",
        second.addr
    );
    for hooks in ["", HOOKED] {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\", {settings} }} }}\n\
             timeouts: {{ first_byte: 200ms }}\n{hooks}",
            first.addr
        );
        let gate = TestGateway::with_files(&second, &config, &[("token", "SECOND")]).await;

        let answer = gate.agent().generate("m", &prompt("leave")).await;
        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
        let answer = gate.agent().generate("m", &prompt("hang")).await;
        assert_refused(&answer, 504, "UPSTREAM_TIMEOUT");

        assert!(second.requests().is_empty());
    }
    assert_eq!(first.requests().len(), 4, "each request is sent once");
}

#[tokio::test]
async fn connections_are_reused_and_survive_a_reload() {
    let upstream = Upstream::mock().await;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let write = |more: &str| {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{more}",
            upstream.addr
        );
        std::fs::write(&file, config).unwrap();
    };
    write("");
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    for _ in 0..5 {
        assert_eq!(agent.generate("m", &prompt("hello")).await.status, 200);
    }

    for more in ["denials: error", HOOKED] {
        write(more);
        let reloaded = operator.post("/reload", "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        assert_eq!(agent.generate("m", &prompt("hello")).await.status, 200);
    }

    assert_eq!(upstream.requests().len(), 7);
    // A call may start before the previous one has returned its connection to the pool.
    assert!(upstream.connections() <= 2, "{}", upstream.connections());
    served.terminate();
}

#[tokio::test]
async fn an_open_circuit_breaker_survives_a_reload_unless_its_settings_change() {
    let (upstream, _is_healthy) = switchable_upstream("").await;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let write = |open: &str, more: &str| {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\", \
             circuit: {{ failures: 2, open: {open} }} }} }}\n{more}",
            upstream.addr
        );
        std::fs::write(&file, config).unwrap();
    };
    write("1h", "");
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    for _ in 0..2 {
        agent.generate("m", &prompt("hello")).await;
    }

    write("1h", "denials: error");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(upstream.requests().len(), 2);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((3500..=3600).contains(&wait), "{wait}");
    // Changed settings of the circuit breaker close it.
    write("2h", "");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    agent.generate("m", &prompt("hello")).await;
    eventually("upstream receives a request", TEST_TIMEOUT, || {
        upstream.requests().len() == 3
    })
    .await;
    served.terminate();
}

#[test]
fn a_fallback_without_a_credential_is_a_config_error() {
    let folder = tempfile::TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: \"http://x\", fallback: { url: \"http://y\" } } }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, stderr) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78, "{stderr}");
    let expected = "hookgate.yaml:1:51: a fallback needs an `api_key` or a `bearer`";
    assert!(stderr.starts_with(expected), "{stderr}");
}

#[tokio::test]
async fn an_upload_that_upstream_does_not_read_does_not_open_the_circuit() {
    // Responds and closes the connection while most of the body is in transit, so that the response
    // is sometimes lost.
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = upstream.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = upstream.accept().await.unwrap();
            socket.read_u8().await.ok();
            let answer = "HTTP/1.1 413 Too Large\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{}";
            socket.write_all(answer.as_bytes()).await.ok();
        }
    });
    let unused = Upstream::mock().await;
    let circuit = "circuit: { failures: 1, within: 30s, open: 30s }";
    for hooks in ["", HOOKED] {
        let gate = start_gateway(&unused, addr, circuit, hooks).await;
        let body = prompt(&"x".repeat(4_000_000));

        for _ in 0..20 {
            let answer = gate.agent().generate("m", &body).await;
            assert!([413, 503].contains(&answer.status), "{}", answer.text());
            assert_eq!(
                answer.header("retry-after"),
                "",
                "the circuit breaker is open"
            );
        }

        assert!(
            has_metric(
                &gate,
                r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#
            )
            .await
        );
    }
}

/// Starts a model API that accepts connections and never answers.
async fn silent_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut sockets = Vec::new();
        loop {
            sockets.push(listener.accept().await.unwrap());
        }
    });
    addr
}

#[tokio::test]
async fn a_silent_model_api_opens_the_circuit() {
    let (unused, silent) = (Upstream::mock().await, silent_upstream().await);
    let body = prompt("hello").to_string();
    for hooks in ["", HOOKED] {
        let more = format!("timeouts: {{ first_byte: 200ms }}\n{hooks}");
        let gate = start_gateway(&unused, silent, CIRCUIT, &more).await;
        assert_eq!(call(&gate).await.status, 504);
        let head = format!("POST {GENERATE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let chunked = format!(
            "{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        for _ in 0..2 {
            let answer = crate::harness::send_and_read(gate.agents, chunked.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        }

        let answer = call(&gate).await;

        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
        let open = r#"hookgate_circuit_breaker_open{upstream="gemini"} 1"#;
        assert!(has_metric(&gate, open).await);
    }
}

#[tokio::test]
async fn calls_to_an_earlier_address_do_not_change_the_state_of_the_new_one() {
    let (healthy, silent) = (Upstream::mock().await, silent_upstream().await);
    let folder = tempfile::TempDir::new().unwrap();
    let write = |addr: SocketAddr| {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{addr}\", circuit: {{ failures: 1 }} }} }}\n\
             timeouts: {{ first_byte: 1s }}\n"
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    };
    write(silent);
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    let body = prompt("hello");
    let waits = agent.generate("m", &body);
    let reload = async {
        sleep(Duration::from_millis(200)).await;
        write(healthy.addr);
        assert_eq!(operator.post("/reload", "").await.status, 200);
    };
    let (late, ()) = tokio::join!(waits, reload);
    assert_eq!(late.status, 504, "{}", late.text());

    assert_eq!(agent.generate("m", &body).await.status, 200);
    let metrics = operator.get("/metrics").await;
    let metrics = metrics.text();
    let closed = r#"hookgate_circuit_breaker_open{upstream="gemini"} 0"#;
    assert!(metrics.lines().any(|line| line == closed), "{metrics}");
    served.terminate();
}
