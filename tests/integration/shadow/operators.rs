//! The admin API: who may start a shadow, and what is refused.

use std::fs;

use serde_json::Value;

use super::{AMPLE, Shadowed, judged, make};
use crate::{
    harness::{Agent, Browser, PATIENCE, Served, Upstream, eventually},
    replay::{changes::base, conversations::sessions},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_or_a_parameter_with_problems_is_refused_and_the_shadow_stays() {
    let gateway = Shadowed::start(&base(), &base(), &format!("sample: 1, {AMPLE}")).await;
    let good = fs::read_to_string(gateway.folder.path().join("next.yaml")).unwrap();
    let before = gateway.status().await;

    for (query, body) in [
        ("", "policies: [{ policy: none }]"),
        ("", "hook_files: [{ path: hookgate.yaml }]"),
        ("?sample=2", good.as_str()),
        ("?hooks=run", good.as_str()),
        ("?until=never", good.as_str()),
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
    assert_eq!(judged(&gateway.end().await), 0);
    assert_eq!(gateway.end().await["reason"], "operator");
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
    let mut served = Served::folder(folder.path());
    served.addr();
    let operators = served.operators();
    let user =
        |name: &str| Agent::at(operators).sending("authorization", format!("Bearer {name}-token"));
    let (vera, olga) = (user("vera"), user("olga"));

    assert_eq!(vera.post("/shadow", config.clone()).await.status, 403);
    assert_eq!(vera.ask("DELETE", "/shadow", "").await.status, 403);
    assert_eq!(Agent::at(operators).get("/shadow").await.status, 401);
    let started = olga.post("/shadow", config).await;
    assert_eq!(started.status, 200, "{}", started.text());
    assert_eq!(vera.get("/shadow").await.json()["state"], "running");
    assert_eq!(olga.ask("DELETE", "/shadow", "").await.status, 200);

    let is_logged = || {
        let log = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        let mut lines = log.lines().filter(|line| line.contains("\"shadow\""));
        lines.all(|line| line.contains("\"by\":\"olga\"")) && log.contains("\"shadow\"")
    };
    eventually("the operator is in the decision log", PATIENCE, is_logged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_shows_the_report_side_by_side_and_ends_the_shadow() {
    let next = base().replace("deny: [rm]", "allow: [rm]");
    let gateway = Shadowed::start(&base(), &next, &format!("sample: 1, {AMPLE}")).await;
    let calls = sessions();
    make(&gateway.agent, &calls).await;
    let status = gateway.until_judged(calls.len()).await;
    let counts = &status["report"]["counts"];
    let samples = status["report"]["samples"]["edited"].clone();
    let sample = &samples[0];

    let operators = gateway.operator.base.trim_start_matches("http://");
    let browser = Browser::at_address(operators.parse().unwrap());
    let page = browser.get("/console/changes").await.html;

    let row = |name: &str, number: &Value| {
        format!("<th scope=\"row\">{name}</th><td class=\"number\">{number}</td>")
    };
    for result in ["edited", "unchanged"] {
        assert!(counts[result].as_u64().unwrap() > 0, "{counts}");
        assert!(page.contains(&row(result, &counts[result])), "{page}");
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
