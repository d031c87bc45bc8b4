//! Shadows in the admin API and the console: roles, invalid requests, report and end.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Json, Router, routing::post};
use hookgate::replay::ReplayReport;
use http::StatusCode;
use serde_json::{Value, json};

use super::{AMPLE_BUDGET, ShadowGateway, evaluated_calls, make_calls};
use crate::{
    harness::{
        Agent, Browser, ServerProcess, TEST_TIMEOUT, Upstream, decision_log, eventually, hookgate,
    },
    replay::{changes::base, conversations::sessions},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_config_or_parameter_is_rejected_and_keeps_the_shadow() {
    let gateway =
        ShadowGateway::start(&base(), &base(), &format!("sample: 1, {AMPLE_BUDGET}")).await;
    let good = fs::read_to_string(gateway.folder.path().join("next.yaml")).unwrap();
    let before = gateway.status().await;

    let wrong = "polices: 1\npolicies: [{ policy: none }]";
    let refused = gateway.operator.post("/shadow", wrong).await;
    let problems = refused.text();
    assert!(
        problems.contains("posted config:1:1: unknown key"),
        "{problems}"
    );
    assert!(!problems.contains("hookgate.yaml"), "{problems}");
    for (query, body) in [
        ("", "policies: [{ policy: none }]"),
        ("", "hook_files: [{ path: hookgate.yaml }]"),
        ("?sample=2", good.as_str()),
        ("?hooks=run", good.as_str()),
        ("?until=never", good.as_str()),
        ("?until=0s", good.as_str()),
    ] {
        let path = format!("/shadow{query}");
        let refused = gateway.operator.post(&path, body.to_owned()).await;
        assert_eq!(refused.status, 400, "{query} {body}: {}", refused.text());
    }

    let after = gateway.status().await;
    assert_eq!(
        (&after["state"], &after["started"]),
        (&before["state"], &before["started"])
    );
    let posted = gateway
        .operator
        .post("/shadow?sample=0.5&until=1h", good)
        .await
        .json();
    assert_eq!(
        (&posted["state"], &posted["sample"]),
        (&"running".into(), &0.5.into())
    );
    assert_eq!(evaluated_calls(&gateway.end_shadow().await), 0);
    assert_eq!(gateway.end_shadow().await["reason"], "operator");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_operators_start_and_end_a_shadow() {
    let upstream = Upstream::mock().await;
    let folder = tempfile::TempDir::new().unwrap();
    for user in ["vera", "olga"] {
        fs::write(folder.path().join(user), format!("{user}-token")).unwrap();
    }
    let config = format!(
        "admin: {{ users: [{{ name: vera, token: {{ file: vera }}, roles: [viewer] }}, \
         {{ name: olga, token: {{ file: olga }}, roles: [operator] }}] }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\naudit: {{ path: audit.jsonl }}\n",
        upstream.addr
    );
    fs::write(folder.path().join("hookgate.yaml"), &config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operators = served.operators();
    let user =
        |name: &str| Agent::at(operators).sending("authorization", format!("Bearer {name}-token"));
    let (viewer, operator) = (user("vera"), user("olga"));

    assert_eq!(viewer.post("/shadow", config.clone()).await.status, 403);
    assert_eq!(viewer.ask("DELETE", "/shadow", "").await.status, 403);
    assert_eq!(Agent::at(operators).get("/shadow").await.status, 401);
    let started = operator.post("/shadow", config).await;
    assert_eq!(started.status, 200, "{}", started.text());
    assert_eq!(viewer.get("/shadow").await.json()["state"], "running");
    assert_eq!(operator.ask("DELETE", "/shadow", "").await.status, 200);

    let is_logged = || {
        let log = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap_or_default();
        let mut lines = log.lines().filter(|line| line.contains("\"shadow\""));
        lines.all(|line| line.contains("\"by\":\"olga\"")) && log.contains("\"shadow\"")
    };
    eventually(
        "the operator is in the decision log",
        TEST_TIMEOUT,
        is_logged,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_shadow_names_the_operator_who_ended_or_replaced_it() {
    let upstream = Upstream::mock().await;
    let folder = tempfile::TempDir::new().unwrap();
    for user in ["olga", "otto"] {
        fs::write(folder.path().join(user), format!("{user}-token")).unwrap();
    }
    let next = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    );
    fs::write(folder.path().join("next.yaml"), &next).unwrap();
    let config = format!(
        "{next}admin: {{ users: [{{ name: otto, token: {{ file: otto }}, roles: [operator] }}, \
         {{ name: olga, token: {{ file: olga }}, roles: [operator] }}] }}\n\
         audit: {{ path: audit.jsonl }}\nshadow: {{ config: next.yaml }}\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), &config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operators = served.operators();
    let user =
        |name: &str| Agent::at(operators).sending("authorization", format!("Bearer {name}-token"));
    let (olga, otto) = (user("olga"), user("otto"));

    assert_eq!(olga.post("/shadow", next.clone()).await.status, 200);
    assert_eq!(otto.post("/shadow", next.clone()).await.status, 200);
    assert_eq!(olga.ask("DELETE", "/shadow", "").await.status, 200);
    assert_eq!(olga.post("/shadow", next).await.status, 200);
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    ended.await.unwrap();

    let log = decision_log(&folder.path().join("audit.jsonl"));
    let shadows = log.iter().filter(|line| line["kind"] == "shadow");
    let changes: Vec<_> = shadows
        .map(|line| [&line["action"], &line["by"]].map(|text| text.as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ["start", ""],
        ["end", "olga"],
        ["start", "olga"],
        ["end", "otto"],
        ["start", "otto"],
        ["end", "olga"],
        ["start", "olga"],
        ["end", ""],
    ];
    assert_eq!(changes, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_shadow_while_the_gateway_does_not_respond() {
    let respond = |state: &'static str| async move {
        Json(json!({ "state": state, "to": "next", "started": "now" }))
    };
    let shadow = post(move || respond("running"))
        .get(std::future::pending::<()>)
        .delete(move || respond("ended"));
    let gateway = Upstream::with_router(Router::new().route("/shadow", shadow)).await;
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("next.yaml"), base()).unwrap();
    let mut command = hookgate(&["shadow", "--config", "next.yaml", "--duration", "1h"]);
    command.arg("--url").arg(format!("http://{}", gateway.addr));
    command.current_dir(folder.path());
    let process = ServerProcess::start(command);
    eventually("the state is requested", TEST_TIMEOUT, || {
        gateway.requests().len() == 2
    })
    .await;

    process.terminate();
    let ended = tokio::task::spawn_blocking(move || process.ended(TEST_TIMEOUT));
    ended.await.unwrap();

    let last = gateway.requests().pop().unwrap();
    assert_eq!(last.method, "DELETE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_shows_the_report_and_ends_the_shadow() {
    let next = base().replace("deny: [rm]", "allow: [rm]");
    let gateway = ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;
    let calls = sessions();
    make_calls(&gateway.agent, &calls).await;
    let status = gateway.wait_until_evaluated(calls.len()).await;
    let counts = &status["report"]["counts"];
    let samples = status["report"]["samples"]["edited"].clone();
    let sample = &samples[0];

    let operators = gateway.operator.base.trim_start_matches("http://");
    let browser = Browser::at_address(operators.parse().unwrap());
    let page = browser.get("/console/changes").await.html;

    let row = |name: &str, number: &Value| {
        format!("<th scope=\"row\">{name}</th><td class=\"number\">{number}</td>")
    };
    for (result, label) in [
        ("edited", "edited"),
        ("stale", "same verdicts, stale content"),
    ] {
        assert!(counts[result].as_u64().unwrap() > 0, "{counts}");
        assert!(page.contains(&row(label, &counts[result])), "{page}");
    }
    let link = format!("/console/calls/{}\"", sample["request"].as_str().unwrap());
    assert!(page.contains(&link), "{page}");
    let csrf = browser.csrf("/console/changes").await;
    let ended = browser
        .post("/console/changes/end-shadow", &[("csrf", &csrf)])
        .await;
    assert_eq!(ended.status, 303, "{}", ended.html);
    assert_eq!(gateway.status().await["reason"], "operator");
    let page = browser.get("/console/changes").await.html;
    assert!(page.contains("It ended: operator"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_of_a_shadow_is_shown_as_it_is_in_the_config() {
    let shadow = format!("sample: 0.07, {AMPLE_BUDGET}");
    let gateway = ShadowGateway::start(&base(), &base(), &shadow).await;
    let operators = gateway.operator.base.trim_start_matches("http://");

    let browser = Browser::at_address(operators.parse().unwrap());
    let page = browser.get("/console/changes").await.html;

    assert!(page.contains(" evaluates 7 % of the sessions"), "{page}");
}

/// Runs `hookgate shadow` for an hour at most. Returns whether it succeeded, and what it printed to
/// standard error.
async fn shadow_for_an_hour(gateway: &Upstream) -> (bool, String) {
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("next.yaml"), base()).unwrap();
    let mut command = hookgate(&["shadow", "--config", "next.yaml", "--duration", "1h"]);
    command.arg("--url").arg(format!("http://{}", gateway.addr));
    command.current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_that_a_restart_of_the_gateway_has_ended_is_reported_as_such() {
    let respond = |state: &'static str, to: &'static str| {
        std::future::ready(Json(json!({ "state": state, "to": to, "started": to })))
    };
    let shadow = post(move || respond("running", "next")).get(move || respond("none", ""));
    let gateway = Upstream::with_router(Router::new().route("/shadow", shadow)).await;

    let (is_success, err) = shadow_for_an_hour(&gateway).await;

    assert!(!is_success, "{err}");
    assert!(err.contains("the gateway was restarted"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_unavailable_for_a_moment_is_requested_again() {
    let respond = |state: &'static str| {
        let report = ReplayReport::default();
        Json(
            json!({ "state": state, "to": "next", "started": "now", "reason": "until",
            "report": report }),
        )
    };
    let requests = Arc::<AtomicUsize>::default();
    let state = move || {
        let is_first = requests.fetch_add(1, Ordering::Relaxed) == 0;
        let status = if is_first { 503 } else { 200 };
        std::future::ready((StatusCode::from_u16(status).unwrap(), respond("ended")))
    };
    let shadow = post(move || std::future::ready(respond("running"))).get(state);
    let gateway = Upstream::with_router(Router::new().route("/shadow", shadow)).await;

    let (is_success, err) = shadow_for_an_hour(&gateway).await;

    assert!(is_success, "{err}");
    assert!(err.contains("503") && err.contains("trying again"), "{err}");
}
