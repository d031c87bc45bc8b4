//! What upstream and hooks do wrong, and what the agent hears of it.

use http::header;
use serde_json::json;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, task::spawn_blocking};

use crate::harness::{
    Agent, Asked, PATIENCE, Served, TestGateway, Upstream, assert_refused, closed, closed_port,
    prompt, respond,
};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

const HOOKED: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }], \
     AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";
const EACH: [&str; 2] = ["", HOOKED];

fn body() -> String {
    prompt("hi").to_string()
}

/// Calls in both ways, without hooks and with them; each is refused.
async fn refused(upstream: &Upstream, config: &str, status: u16, reason: &str) {
    for hooks in EACH {
        let gate = TestGateway::start(upstream, &format!("{config}\n{hooks}")).await;
        for path in [GENERATE, SSE] {
            let answer = gate.agent().post(path, body()).await;
            assert_refused(&answer, status, reason);
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_unreachable() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let address = unused.local_addr().unwrap();
    let config = format!("upstreams: {{ gemini: {{ url: \"http://{address}\" }} }}");

    refused(&upstream, &config, 503, "UPSTREAM_UNREACHABLE").await;
}

#[tokio::test]
async fn an_upstream_that_hangs_up_is_unreachable() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;

    refused(&upstream, "", 503, "UPSTREAM_UNREACHABLE").await;
}

#[tokio::test]
async fn a_silent_upstream_is_given_up() {
    let upstream = Upstream::raw(|_, mut socket| async move { closed(&mut socket).await }).await;

    refused(
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

        refused(&upstream, "", 502, "UPSTREAM_REDIRECT").await;
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_page_for_people_is_no_answer() {
    let page = "<html>TOP-SECRET</html>";
    for (given, told) in [(200, 502), (502, 502), (404, 404)] {
        let upstream =
            Upstream::with(move |_| respond(given, "text/html; charset=utf-8", page)).await;

        refused(&upstream, "", told, "UPSTREAM_UNREADABLE").await;
    }
}

#[tokio::test]
async fn why_an_answer_cannot_be_read_is_logged() {
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
        let mut served = Served::folder(folder.path());

        let answer = Agent::at(served.addr()).post(GENERATE, body()).await;

        assert_eq!(
            answer.json()["error"]["details"][0]["reason"],
            "UPSTREAM_UNREADABLE"
        );
        assert_eq!(
            answer.header("x-hookgate-action"),
            if hooks.is_empty() { "error" } else { "" }
        );
        served.terminate();
        let ended = spawn_blocking(move || served.ended(PATIENCE));
        let (_, log) = ended.await.unwrap();
        let lines = log
            .lines()
            .filter(|it| it.contains("upstream response unreadable"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{log}");
        let cause = format!("content type is `{media_type}`, expected JSON");
        assert!(lines[0].contains(&cause), "{log}");
        assert!(log.contains(r#""action":"error""#), "{log}");
        assert!(!log.contains("TOP-SECRET"), "{log}");
    }
}

#[tokio::test]
async fn a_stream_that_is_none_is_not_read_as_an_empty_one() {
    let upstream = Upstream::with(|_| respond(200, "text/plain", "come back later")).await;
    let gate = TestGateway::start(&upstream, HOOKED).await;

    let answer = gate.agent().post(SSE, body()).await;

    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn an_error_of_upstream_passes_unchanged() {
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
async fn an_answer_that_hooks_cannot_read_never_passes() {
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
    // The first event is judged before anything is out.
    let upstream = Upstream::with(|_| respond(200, "text/event-stream", "data: no\n\n")).await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let answer = gate.agent().post(SSE, body()).await;
    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn a_compressed_answer_reaches_no_hook_and_no_agent() {
    let answer = |asked: Asked| {
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
async fn an_answer_beyond_the_limit_is_refused() {
    let upstream = Upstream::with(|_| respond(200, "application/json", vec![b' '; 8192])).await;
    let config = format!("limits: {{ response: 4KiB }}\n{HOOKED}");
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().post(GENERATE, body()).await;

    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
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

/// A gate with this hook on `BeforeModel`.
async fn with_hook(upstream: &Upstream, command: &str, on_failure: &str) -> TestGateway {
    let config = format!(
        "denials: error\nhooks: {{ BeforeModel: [{{ hooks: [{{ name: it, timeout: 300, \
         on_failure: {on_failure}, command: {} }}] }}] }}",
        json!(command)
    );
    TestGateway::start(upstream, &config).await
}

#[tokio::test]
async fn a_hook_that_fails_does_what_its_failure_mode_says() {
    for (command, cause) in [
        ("no-such-program-here", "exit code 127"),
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

        let open = with_hook(&upstream, command, "open").await;
        let answer = open.agent().post(GENERATE, body()).await;
        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        let closed = with_hook(&upstream, command, "closed").await;
        let answer = closed.agent().post(GENERATE, body()).await;

        assert_refused(&answer, 403, "POLICY_DENIED");
        let message = answer.json()["error"]["message"].to_string();
        assert_eq!(message, format!("\"Hook it failed: {cause}\""));
        assert_eq!(upstream.seen().len(), 1, "{command}");
    }
}

#[tokio::test]
async fn plain_text_is_no_failure_of_a_hook_that_fails_closed() {
    for command in ["echo hello", "echo '[guard] hello'"] {
        let upstream = Upstream::mock().await;
        let gate = with_hook(&upstream, command, "closed").await;

        let answer = gate.agent().post(GENERATE, body()).await;

        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
    }
}
