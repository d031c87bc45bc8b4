//! `http`: the hook is a server.

use axum::response::Response;
use http::{Method, header};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::mpsc};

use super::{Process, assert_denied, config};
use crate::harness::{Asked, TestGateway, Upstream, closed, prompt, respond, signalled};

const JSON: &str = "application/json";

fn hook(server: &Upstream) -> Value {
    json!({ "type": "http", "url": format!("http://{}/hook?of=org", server.addr) })
}

/// A hook's server that always says this.
async fn saying(output: &Value) -> Upstream {
    let output = output.to_string();
    Upstream::with(move |_| respond(200, JSON, output.clone())).await
}

async fn gate(upstream: &Upstream, hook: &Value) -> TestGateway {
    TestGateway::start(upstream, &config("BeforeModel", hook)).await
}

#[tokio::test]
async fn a_server_reads_the_event_and_changes_the_request() {
    let model = json!({ "model": "other" });
    let server = saying(&json!({ "hookSpecificOutput": { "llm_request": model } })).await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["document"] = json!(true);
    hook["bearer"] = json!({ "file": "token" });
    let files = [("token", "TOP-SECRET\n")];
    let gate = TestGateway::with_files(&upstream, &config("BeforeModel", &hook), &files).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.only().path, "/v1beta/models/other:generateContent");
    let asked = server.only();
    assert_eq!(asked.method, Method::POST);
    assert_eq!((&*asked.path, &*asked.query), ("/hook", "of=org"));
    assert_eq!(asked.header("content-type"), JSON);
    assert_eq!(asked.header("authorization"), "Bearer TOP-SECRET");
    let event = asked.json();
    assert_eq!(event["hook_event_name"], "BeforeModel");
    assert_eq!(event["llm_request"]["messages"][0]["content"], "hello");
    assert_eq!(event["document"], prompt("hello"));
}

#[tokio::test]
async fn a_server_refuses() {
    let server = saying(&json!({ "decision": "deny", "reason": "not today" })).await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_denied(&answer, "not today");
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_server_that_observes_changes_nothing() {
    let server = saying(&json!({ "decision": "deny" })).await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["mode"] = json!("observe");
    let gate = gate(&upstream, &hook).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!((upstream.seen().len(), server.seen().len()), (1, 1));
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = saying(&json!({})).await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;
    // What serves one agent has connections of its own.
    let agent = gate.agent();

    for _ in 0..5 {
        agent.generate("m", &prompt("hello")).await;
    }

    assert_eq!((server.seen().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn the_url_is_never_shown_even_if_the_hook_has_no_name() {
    let server = saying(&json!({})).await;
    let upstream = Upstream::mock().await;
    let hooks = json!({ "BeforeModel": [{ "hooks": [hook(&server)] }] });
    let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}")).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;
    let metrics = gate.operator().get("/metrics").await;

    let hooks = answer.header("x-hookgate-hooks");
    assert!(hooks.starts_with("http;"), "{hooks}");
    assert!(metrics.text().contains(r#"hook="http""#));
    assert!(!metrics.text().contains("of=org"));
}

#[tokio::test]
async fn two_hooks_with_one_url_are_one() {
    let server = saying(&json!({})).await;
    let upstream = Upstream::mock().await;
    let hook = hook(&server);
    let hooks = json!({ "BeforeModel": [{ "hooks": [hook, hook] }] });
    let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}")).await;

    gate.agent().generate("m", &prompt("hello")).await;

    server.only();
}

/// Answers by a server, and why each makes its hook fail.
fn failures() -> Vec<(Response, &'static str)> {
    let no_object = "output is not a JSON object";
    let malformed = "output is malformed JSON";
    let media_type = "content type is not `application/json`";
    let deny = r#"{"decision":"deny","reason":"not today"}"#;
    let mut untyped = respond(200, JSON, deny);
    untyped.headers_mut().remove(header::CONTENT_TYPE);
    let nested = format!("{}{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    vec![
        (respond(500, JSON, deny), "unexpected status 500"),
        (respond(404, JSON, deny), "unexpected status 404"),
        (respond(201, JSON, deny), "unexpected status 201"),
        (respond(204, JSON, ""), "unexpected status 204"),
        (respond(200, "text/plain", deny), media_type),
        (respond(200, "application/jsonp", deny), media_type),
        (untyped, media_type),
        (respond(200, JSON, ""), no_object),
        (respond(200, JSON, "\u{feff}"), no_object),
        (respond(200, JSON, "not {json}"), no_object),
        (respond(200, JSON, "[{}]"), no_object),
        (respond(200, JSON, "null"), no_object),
        (respond(200, JSON, "{}{}"), malformed),
        (respond(200, JSON, nested), malformed),
        (
            respond(200, JSON, " ".repeat(4097)),
            "output limit exceeded",
        ),
    ]
}

#[tokio::test]
async fn an_answer_that_is_none_fails_the_hook() {
    for number in 0..failures().len() {
        let server = Upstream::with(move |_| failures().swap_remove(number).0).await;
        let upstream = Upstream::mock().await;
        let closed = config("BeforeModel", &hook(&server)) + "limits: { hook_output: 4KiB }";
        let open = closed.replace("closed", "open");
        let reason = format!("Hook guard failed: {}", failures()[number].1);

        let gate = TestGateway::start(&upstream, &closed).await;
        let refused = gate.agent().generate("m", &prompt("hello")).await;
        assert_denied(&refused, &reason);
        assert!(upstream.seen().is_empty());

        let gate = TestGateway::start(&upstream, &open).await;
        let passed = gate.agent().generate("m", &prompt("hello")).await;
        assert_eq!(passed.status, 200, "{reason}: {}", passed.text());
    }
}

#[tokio::test]
async fn an_answer_of_any_spelling_counts() {
    let deny = r#"{ "decision": "deny", "reason": "cut: \ud83d" }"#;
    for media_type in ["application/json; charset=utf-8", "Application/JSON"] {
        let server = Upstream::with(move |_| respond(200, media_type, deny)).await;
        let upstream = Upstream::mock().await;
        let gate = gate(&upstream, &hook(&server)).await;

        let answer = gate.agent().generate("m", &prompt("hello")).await;

        assert_denied(&answer, "cut: \u{fffd}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = saying(&json!({})).await;
    let target = format!("http://{}/hook", elsewhere.addr);
    for status in [301, 302, 303, 307, 308] {
        let target = target.clone();
        let server = Upstream::with(move |_| {
            let mut response = respond(status, JSON, "{}");
            let headers = response.headers_mut();
            headers.insert(header::LOCATION, target.parse().unwrap());
            response
        })
        .await;
        let upstream = Upstream::mock().await;
        let gate = gate(&upstream, &hook(&server)).await;

        let answer = gate.agent().generate("m", &prompt("hello")).await;

        let reason = format!("Hook guard failed: unexpected status {status}");
        assert_denied(&answer, &reason);
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_or_breaks_off_fails_the_hook() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let hangs_up = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let breaks_off = Upstream::raw(|_, mut socket| async move {
        let head =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";
        socket.write_all(head).await.unwrap();
    })
    .await;
    let away = json!({ "type": "http", "url": nobody });
    for hook in [away, hook(&hangs_up), hook(&breaks_off)] {
        let upstream = Upstream::mock().await;
        let gate = gate(&upstream, &hook).await;

        let answer = gate.agent().generate("m", &prompt("hello")).await;

        assert_denied(&answer, "Hook guard failed: connection failed");
    }
}

/// A server that never answers, and tells when the gateway gives it up.
async fn silent() -> (
    Upstream,
    mpsc::UnboundedReceiver<()>,
    mpsc::UnboundedReceiver<()>,
) {
    let (asked, is_asked) = mpsc::unbounded_channel();
    let (left, is_left) = mpsc::unbounded_channel();
    let server = Upstream::raw(move |_: Asked, mut socket| {
        let (asked, left) = (asked.clone(), left.clone());
        async move {
            asked.send(()).unwrap();
            closed(&mut socket).await;
            left.send(()).unwrap();
        }
    })
    .await;
    (server, is_asked, is_left)
}

#[tokio::test]
async fn a_server_that_is_too_slow_fails_the_hook() {
    let (server, _asked, mut left) = silent().await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["timeout"] = json!(100);
    let gate = gate(&upstream, &hook).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_denied(&answer, "Hook guard failed: timed out");
    signalled(&mut left, "the call is given up").await;
}

#[tokio::test]
async fn an_agent_that_leaves_ends_the_call() {
    let (server, mut asked, mut left) = silent().await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;
    let agent = gate.agent();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    signalled(&mut asked, "the hook is asked").await;

    call.abort();

    signalled(&mut left, "the call is given up").await;
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_proxy_variable_is_not_followed() {
    let server = saying(&json!({ "decision": "deny" })).await;
    let (proxy, upstream) = (saying(&json!({})).await, Upstream::mock().await);
    let url = format!("http://{}", proxy.addr);
    let names = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    let config = config("BeforeModel", &hook(&server));
    let gateway = Process::start(&upstream, &config, &names.map(|it| (it, &*url)));

    let answer = gateway.agent.generate("m", &prompt("hello")).await;

    assert_denied(&answer, "No reason provided");
    assert!(proxy.seen().is_empty());
    server.only();
}

#[tokio::test]
async fn the_log_says_why_a_hook_failed_and_not_where_it_is() {
    let server = Upstream::with(|_| respond(503, JSON, "{}")).await;
    let upstream = Upstream::mock().await;
    let config = config("BeforeModel", &hook(&server));
    let gateway = Process::start(&upstream, &config, &[]);

    gateway.agent.generate("m", &prompt("hello")).await;
    let log = gateway.stop().await;

    let cause = r#"error="unexpected status 503""#;
    let failed = |it: &&str| it.contains("hook failed") && it.contains(cause);
    assert_eq!(log.lines().filter(failed).count(), 1, "{log}");
    assert!(!log.contains("of=org"), "{log}");
}
