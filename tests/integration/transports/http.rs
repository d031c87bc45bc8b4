//! HTTP hooks, `type: http`.

use axum::response::Response;
use http::{Method, header};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::mpsc};

use super::{Process, assert_denied, config};
use crate::harness::{
    ReceivedRequest, TestGateway, Upstream, prompt, respond, wait_for_signal, wait_until_closed,
};

const JSON: &str = "application/json";

fn hook(server: &Upstream) -> Value {
    json!({ "type": "http", "url": format!("http://{}/hook?of=org", server.addr) })
}

/// A hook server that always responds with this output.
async fn hook_server(output: &Value) -> Upstream {
    let output = output.to_string();
    Upstream::with(move |_| respond(200, JSON, output.clone())).await
}

async fn gate(upstream: &Upstream, hook: &Value) -> TestGateway {
    TestGateway::start(upstream, &config("BeforeModel", hook)).await
}

#[tokio::test]
async fn a_server_reads_the_event_and_changes_the_request() {
    let model = json!({ "model": "other" });
    let server = hook_server(&json!({ "hookSpecificOutput": { "llm_request": model } })).await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["document"] = json!(true);
    hook["bearer"] = json!({ "file": "token" });
    let files = [("token", "TOP-SECRET\n")];
    let gate = TestGateway::with_files(&upstream, &config("BeforeModel", &hook), &files).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        upstream.only_request().path,
        "/v1beta/models/other:generateContent"
    );
    let request = server.only_request();
    assert_eq!(request.method, Method::POST);
    assert_eq!((&*request.path, &*request.query), ("/hook", "of=org"));
    assert_eq!(request.header("content-type"), JSON);
    assert_eq!(request.header("authorization"), "Bearer TOP-SECRET");
    let event = request.json();
    assert_eq!(event["hook_event_name"], "BeforeModel");
    assert_eq!(event["llm_request"]["messages"][0]["content"], "hello");
    assert_eq!(event["document"], prompt("hello"));
}

#[tokio::test]
async fn a_denial_by_an_http_hook_keeps_the_call_from_upstream() {
    let server = hook_server(&json!({ "decision": "deny", "reason": "not today" })).await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_denied(&answer, "not today");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn an_http_hook_in_observe_mode_denies_nothing() {
    let server = hook_server(&json!({ "decision": "deny" })).await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["mode"] = json!("observe");
    let gate = gate(&upstream, &hook).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!((upstream.requests().len(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn connections_are_reused() {
    let server = hook_server(&json!({})).await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;
    // Connection pools belong to runtimes, and one agent's connection has one runtime.
    let agent = gate.agent();

    for _ in 0..5 {
        agent.generate("m", &prompt("hello")).await;
    }

    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn the_url_of_an_unnamed_hook_is_not_in_headers_or_metrics() {
    let server = hook_server(&json!({})).await;
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
async fn duplicate_hooks_with_the_same_url_run_once() {
    let server = hook_server(&json!({})).await;
    let upstream = Upstream::mock().await;
    let hook = hook(&server);
    let hooks = json!({ "BeforeModel": [{ "hooks": [hook, hook] }] });
    let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}")).await;

    gate.agent().generate("m", &prompt("hello")).await;

    server.only_request();
}

/// Responses of a hook server, and the failure that each one causes.
fn failing_responses() -> Vec<(Response, &'static str)> {
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
async fn an_invalid_response_fails_the_hook() {
    for number in 0..failing_responses().len() {
        let server = Upstream::with(move |_| failing_responses().swap_remove(number).0).await;
        let upstream = Upstream::mock().await;
        let closed = config("BeforeModel", &hook(&server)) + "limits: { hook_output: 4KiB }";
        let open = closed.replace("closed", "open");
        let reason = format!("Hook guard failed: {}", failing_responses()[number].1);

        let gate = TestGateway::start(&upstream, &closed).await;
        let refused = gate.agent().generate("m", &prompt("hello")).await;
        assert_denied(&refused, &reason);
        assert!(upstream.requests().is_empty());

        let gate = TestGateway::start(&upstream, &open).await;
        let passed = gate.agent().generate("m", &prompt("hello")).await;
        assert_eq!(passed.status, 200, "{reason}: {}", passed.text());
    }
}

#[tokio::test]
async fn a_json_media_type_in_any_spelling_is_accepted() {
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
    let elsewhere = hook_server(&json!({})).await;
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
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_refused_connection_or_truncated_response_fails_the_hook() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed_url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let closes_connection = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let truncates_body = Upstream::raw(|_, mut socket| async move {
        let head =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";
        socket.write_all(head).await.unwrap();
    })
    .await;
    let unreachable = json!({ "type": "http", "url": closed_url });
    for hook in [unreachable, hook(&closes_connection), hook(&truncates_body)] {
        let upstream = Upstream::mock().await;
        let gate = gate(&upstream, &hook).await;

        let answer = gate.agent().generate("m", &prompt("hello")).await;

        assert_denied(&answer, "Hook guard failed: connection failed");
    }
}

/// A server that never responds. The receivers signal a request, and the end of its
/// connection.
async fn unresponsive_server() -> (
    Upstream,
    mpsc::UnboundedReceiver<()>,
    mpsc::UnboundedReceiver<()>,
) {
    let (requested, requests) = mpsc::unbounded_channel();
    let (disconnected, disconnects) = mpsc::unbounded_channel();
    let server = Upstream::raw(move |_: ReceivedRequest, mut socket| {
        let (requested, disconnected) = (requested.clone(), disconnected.clone());
        async move {
            requested.send(()).unwrap();
            wait_until_closed(&mut socket).await;
            disconnected.send(()).unwrap();
        }
    })
    .await;
    (server, requests, disconnects)
}

#[tokio::test]
async fn a_timeout_fails_the_hook_and_closes_its_connection() {
    let (server, _requests, mut disconnects) = unresponsive_server().await;
    let upstream = Upstream::mock().await;
    let mut hook = hook(&server);
    hook["timeout"] = json!(100);
    let gate = gate(&upstream, &hook).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_denied(&answer, "Hook guard failed: timed out");
    wait_for_signal(&mut disconnects, "the hook connection is closed").await;
}

#[tokio::test]
async fn a_disconnected_agent_ends_the_hook_call() {
    let (server, mut requests, mut disconnects) = unresponsive_server().await;
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &hook(&server)).await;
    let agent = gate.agent();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    wait_for_signal(&mut requests, "the hook is called").await;

    call.abort();

    wait_for_signal(&mut disconnects, "the hook connection is closed").await;
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn proxy_environment_variables_are_ignored() {
    let server = hook_server(&json!({ "decision": "deny" })).await;
    let (proxy, upstream) = (hook_server(&json!({})).await, Upstream::mock().await);
    let url = format!("http://{}", proxy.addr);
    let names = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    let config = config("BeforeModel", &hook(&server));
    let gateway = Process::start(&upstream, &config, &names.map(|name| (name, &*url)));

    let answer = gateway.agent.generate("m", &prompt("hello")).await;

    assert_denied(&answer, "No reason provided");
    assert!(proxy.requests().is_empty());
    server.only_request();
}

#[tokio::test]
async fn a_failed_hook_is_logged_with_its_cause_and_without_its_url() {
    let server = Upstream::with(|_| respond(503, JSON, "{}")).await;
    let upstream = Upstream::mock().await;
    let config = config("BeforeModel", &hook(&server));
    let gateway = Process::start(&upstream, &config, &[]);

    gateway.agent.generate("m", &prompt("hello")).await;
    let log = gateway.stop().await;

    let cause = r#"error="unexpected status 503""#;
    let failed = |line: &&str| line.contains("hook failed") && line.contains(cause);
    assert_eq!(log.lines().filter(failed).count(), 1, "{log}");
    assert!(!log.contains("of=org"), "{log}");
}
