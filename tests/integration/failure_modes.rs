//! Failures of upstream and of hooks, and the responses that agents receive.

use http::{HeaderValue, header};
use serde_json::json;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, task::spawn_blocking};

use crate::harness::{
    Agent, ReceivedRequest, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, assert_refused,
    closed_port, prompt, respond, wait_until_closed, write_chunk, write_last_chunk,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

const HOOKED: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }], \
     AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";
const HOOK_CONFIGS: [&str; 2] = ["", HOOKED];

fn body() -> String {
    prompt("hi").to_string()
}

/// Makes a unary and a streamed call, without hooks and with them. Each is refused.
async fn assert_always_refused(upstream: &Upstream, config: &str, status: u16, reason: &str) {
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(upstream, &format!("{config}\n{hooks}")).await;
        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, body()).await;
            assert_refused(&answer, status, reason);
        }
        let errors = format!("hookgate_errors_total{{reason=\"{reason}\"}}");
        assert_eq!(gate.operator().metric(&errors).await, 2, "{reason} {hooks}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_unreachable() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let address = unused.local_addr().unwrap();
    let config = format!("upstreams: {{ gemini: {{ url: \"http://{address}\" }} }}");

    assert_always_refused(&upstream, &config, 503, "UPSTREAM_UNREACHABLE").await;
}

#[tokio::test]
async fn an_upstream_that_closes_the_connection_is_unreachable() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;

    assert_always_refused(&upstream, "", 503, "UPSTREAM_UNREACHABLE").await;
}

#[tokio::test]
async fn an_upstream_without_a_response_exceeds_the_first_byte_timeout() {
    let upstream =
        Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await }).await;

    assert_always_refused(
        &upstream,
        "timeouts: { first_byte: 200ms }",
        504,
        "UPSTREAM_TIMEOUT",
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Upstream::mock().await;
    let target = format!("http://{}/v1beta/models/m:generateContent", elsewhere.addr);
    for status in [301, 302, 303, 307, 308] {
        let target = target.clone();
        let upstream = Upstream::with(move |_| {
            let mut response = respond(status, "application/json", "{}");
            let headers = response.headers_mut();
            headers.insert(header::LOCATION, target.parse().unwrap());
            response
        })
        .await;

        assert_always_refused(&upstream, "", 502, "UPSTREAM_REDIRECT").await;
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_status_for_caches_is_no_redirect() {
    let upstream = Upstream::with(|_| respond(304, "application/json", "")).await;

    assert_always_refused(&upstream, "", 502, "UPSTREAM_UNREADABLE").await;
}

#[tokio::test]
async fn an_html_response_is_unreadable() {
    let page = "<html>TOP-SECRET</html>";
    for (upstream_status, status) in [(200, 502), (502, 502), (404, 404)] {
        let upstream =
            Upstream::with(move |_| respond(upstream_status, "text/html; charset=utf-8", page))
                .await;

        assert_always_refused(&upstream, "", status, "UPSTREAM_UNREADABLE").await;
    }
}

#[tokio::test]
async fn an_html_page_that_limits_the_rate_names_the_delay_as_agents_read_it() {
    let upstream = Upstream::with(|_| {
        let mut page = respond(429, "text/html", "<html>slow down</html>");
        let after = HeaderValue::from_static("9");
        page.headers_mut().insert(header::RETRY_AFTER, after);
        page
    })
    .await;
    for hooks in ["", HOOKED] {
        let gate = TestGateway::start(&upstream, hooks).await;

        let answer = gate.agent().post(GENERATE, body()).await;

        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("retry-after"), "9");
        let info = &answer.json()["error"]["details"][1];
        assert_eq!(info["retryDelay"], "9s", "{}", answer.text());
    }
}

#[tokio::test]
async fn the_cause_of_an_unreadable_response_is_logged() {
    for (status, media_type, hooks) in [
        (500, "text/html", ""),
        (200, "text/html", HOOKED),
        (200, "text/plain", HOOKED),
        (200, "text/event-stream", HOOKED),
    ] {
        let upstream = Upstream::with(move |_| respond(status, media_type, "TOP-SECRET")).await;
        let folder = TempDir::new().unwrap();
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ format: json }}\n{hooks}\n",
            upstream.addr
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());

        let answer = Agent::at(served.addr()).post(GENERATE, body()).await;

        assert_eq!(
            answer.json()["error"]["details"][0]["reason"],
            "UPSTREAM_UNREADABLE"
        );
        assert_eq!(
            answer.header("x-hookgate-action"),
            if media_type == "text/html" {
                "error"
            } else {
                ""
            }
        );
        served.terminate();
        let ended = spawn_blocking(move || served.ended(TEST_TIMEOUT));
        let (_, log) = ended.await.unwrap();
        let lines = log
            .lines()
            .filter(|line| line.contains("upstream response unreadable"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{log}");
        let cause = format!("content type is `{media_type}`, expected JSON");
        assert!(lines[0].contains(&cause), "{log}");
        assert!(log.contains(r#""action":"error""#), "{log}");
        assert!(!log.contains("TOP-SECRET"), "{log}");
    }
}

#[tokio::test]
async fn a_plain_text_response_is_not_read_as_an_empty_stream() {
    let upstream = Upstream::with(|_| respond(200, "text/plain", "come back later")).await;
    let gate = TestGateway::start(&upstream, HOOKED).await;

    let answer = gate.agent().post(SSE, body()).await;

    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn an_error_response_of_upstream_passes_unchanged() {
    let error = "{\"error\": { \"code\": 429, \"message\": \"slow down\", \"status\": \"X\" } }\n";
    for (status, hooks) in [(500, ""), (500, HOOKED), (429, ""), (429, HOOKED)] {
        let upstream = Upstream::with(move |_| {
            let mut response = respond(status, "application/json", error);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
            headers.insert("x-goog-thing", "kept".parse().unwrap());
            headers.insert("x-hookgate-action", "forged".parse().unwrap());
            headers.insert("set-cookie", "c=1".parse().unwrap());
            response
        })
        .await;
        let gate = TestGateway::start(&upstream, hooks).await;
        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, body()).await;

            assert_eq!((answer.status, answer.text()), (status, error));
            assert_eq!(answer.header("retry-after"), "7");
            assert_eq!(answer.header("x-goog-thing"), "kept");
            assert_eq!(answer.header("x-hookgate-action"), "pass");
            assert_eq!(answer.header("set-cookie"), "");
        }
    }
}

#[tokio::test]
async fn a_response_that_hooks_cannot_parse_is_refused() {
    for text in [
        "garbage",
        "5",
        "{",
        r#"{"candidates":5}"#,
        r#"{"candidates":[],"candidates":[]}"#,
    ] {
        let upstream = Upstream::with(move |_| respond(200, "application/json", text)).await;

        let open = TestGateway::start(&upstream, "").await;
        let answer = open.agent().post(GENERATE, body()).await;
        assert_eq!((answer.status, answer.text()), (200, text));
        let gate = TestGateway::start(&upstream, HOOKED).await;
        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, body()).await;
            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
    // The first event is checked before any byte is sent to the agent.
    let upstream = Upstream::with(|_| respond(200, "text/event-stream", "data: no\n\n")).await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let answer = gate.agent().post(SSE, body()).await;
    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn malformed_fields_of_a_response_are_an_error_of_upstream() {
    let hooks = "hooks: { BeforeTool: [{ hooks: [{ command: 'true' }] }], AfterAgent: [{ hooks: [{ command: 'true' }] }] }";
    for text in [
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}],"usageMetadata":"x"}"#,
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"finishReason":5}]}"#,
    ] {
        let upstream = Upstream::with(move |asked: ReceivedRequest| {
            if asked.query.contains("alt=sse") {
                respond(200, "text/event-stream", format!("data: {text}\n\n"))
            } else {
                respond(200, "application/json", text)
            }
        })
        .await;
        let gate = TestGateway::start(&upstream, hooks).await;
        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, body()).await;
            assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
        }
    }
}

#[tokio::test]
async fn a_response_with_invalid_gzip_data_is_refused() {
    let answer = |asked: ReceivedRequest| {
        assert_eq!(asked.header("accept-encoding"), "identity");
        let mut response = respond(200, "application/json", &b"\x1f\x8b..."[..]);
        let encoding = "gzip".parse().unwrap();
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, encoding);
        response
    };
    let upstream = Upstream::with(answer).await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let agent = gate.agent().sending("accept-encoding", "gzip");
    for path in [GENERATE, SSE] {
        let answer = agent.post(path, body()).await;
        assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    }
}

#[tokio::test]
async fn a_response_over_the_size_limit_is_refused() {
    let upstream = Upstream::with(|_| respond(200, "application/json", vec![b' '; 8192])).await;
    let config = format!("limits: {{ response: 4KiB }}\n{HOOKED}");
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().post(GENERATE, body()).await;

    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn a_truncated_response_is_an_upstream_error() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
        socket.write_all(head.as_bytes()).await.unwrap();
    })
    .await;
    let gate = TestGateway::start(&upstream, HOOKED).await;

    let answer = gate.agent().post(GENERATE, body()).await;

    assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
}

/// Starts a gateway with this hook on `BeforeModel`.
async fn gateway_with_hook(upstream: &Upstream, command: &str, on_failure: &str) -> TestGateway {
    let config = format!(
        "denials: error\nhooks: {{ BeforeModel: [{{ hooks: [{{ name: it, timeout: 300, \
         on_failure: {on_failure}, command: {} }}] }}] }}",
        json!(command)
    );
    TestGateway::start(upstream, &config).await
}

#[tokio::test]
async fn a_failed_hook_fails_open_or_closed_as_configured() {
    for (command, cause) in [
        ("no-such-program-here", "exit code 127 (not found)"),
        ("exit 126", "exit code 126 (not executable)"),
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "terminated by signal 9"),
        ("sleep 600", "timed out"),
        ("head -c 2097152 /dev/zero", "output limit exceeded"),
        ("head -c 2097152 /dev/zero >&2", "output limit exceeded"),
        ("echo '[1]'", "output is not a JSON object"),
        ("echo '{\"decision\":'", "output is malformed JSON"),
        ("printf '\\xff'", "output is not valid UTF-8"),
    ] {
        let upstream = Upstream::mock().await;

        let open = gateway_with_hook(&upstream, command, "open").await;
        let answer = open.agent().post(GENERATE, body()).await;
        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        let closed = gateway_with_hook(&upstream, command, "closed").await;
        let answer = closed.agent().post(GENERATE, body()).await;

        assert_refused(&answer, 403, "POLICY_DENIED");
        let message = answer.json()["error"]["message"].to_string();
        assert_eq!(message, format!("\"Hook it failed: {cause}\""));
        assert_eq!(upstream.requests().len(), 1, "{command}");
    }
}

#[tokio::test]
async fn plain_text_output_of_a_fail_closed_hook_is_not_a_failure() {
    for command in ["echo hello", "echo '[guard] hello'"] {
        let upstream = Upstream::mock().await;
        let gate = gateway_with_hook(&upstream, command, "closed").await;

        let answer = gate.agent().post(GENERATE, body()).await;

        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_chunked_response_has_no_other_length_and_no_headers_of_its_connection() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
             transfer-encoding: chunked\r\nconnection: x-hop, keep-alive\r\nx-hop: 1\r\nx-kept: 2\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let parts = json!([{ "text": "whole" }]);
        let content = json!({ "role": "model", "parts": parts });
        let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        write_chunk(&mut socket, answer.to_string().as_bytes()).await.unwrap();
        write_last_chunk(&mut socket).await;
    })
    .await;
    for hooks in HOOK_CONFIGS {
        let gate = TestGateway::start(&upstream, hooks).await;

        let answer = gate.agent().post(GENERATE, body()).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json().to_string().contains("whole"));
        assert_eq!((answer.header("x-hop"), answer.header("x-kept")), ("", "2"));
    }
}
