//! Where a caller's credential may turn up: nowhere.

use std::{fmt::Write, net::SocketAddr, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use super::sha256;
use crate::harness::{Agent, Served, Upstream, hookgate, prompt};

/// One credential for each place, and one that the config holds.
const CANARIES: [&str; 6] = [
    "CANARY-own",
    "CANARY-api-key",
    "CANARY-bearer",
    "CANARY-query",
    "CANARY-wrong",
    "CANARY-upstream",
];

fn config(upstream: &Upstream) -> String {
    let mut text = format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         log: {{ format: json, level: trace }}\n\
         hooks:\n  BeforeModel: [{{ hooks: [{{ command: \"cat >> seen; env >> seen\", document: true }}] }}]\n\
         \x20 BeforeTool: [{{ hooks: [{{ command: \"cat >> seen; env >> seen\" }}] }}]\n\
         auth:\n  keys:\n",
        upstream.addr
    );
    for (key, name) in CANARIES.iter().zip(["own", "api", "bearer", "query"]) {
        let more = "upstream_key: { env: CANARY }, tokens_per_day: 1";
        let sha256 = sha256(key);
        writeln!(text, "    - {{ name: {name}, sha256: {sha256}, {more} }}").unwrap();
    }
    text
}

/// Shows each credential where agents show it; returns all answers.
async fn show(agents: SocketAddr) -> String {
    let agent = || Agent::at(agents).sending("x-hookgate-session", "s");
    let generate = "/v1beta/models/m:generateContent";
    let plain = |agent: Agent| (agent, generate.to_owned());
    let shown = [
        plain(agent().sending("x-hookgate-key", "CANARY-own")),
        plain(agent().sending("x-goog-api-key", "CANARY-api-key")),
        plain(agent().sending("authorization", "Bearer CANARY-bearer")),
        (agent(), format!("{generate}?key=CANARY-query")),
        plain(agent().sending("x-hookgate-key", "CANARY-wrong")),
        (
            agent(),
            format!("{generate}?key=CANARY-wrong&key=CANARY-query"),
        ),
    ];
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });
    let mut told = String::new();
    for (agent, path) in &shown {
        // The first is answered, the second finds its tokens spent.
        for _ in 0..2 {
            let answer = agent.post(path, prompt("hi").to_string()).await;
            write!(told, "{:?}{}", answer.headers, answer.text()).unwrap();
        }
        told.push_str(agent.report(&event, "explain=1").await.text());
    }
    told
}

#[tokio::test]
async fn what_callers_show_is_in_no_log_metric_error_hook_or_foreign_request() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    std::fs::write(&file, config(&upstream)).unwrap();
    let mut command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
    command.env("CANARY", "CANARY-upstream");
    let mut gateway = Served::start(command);
    let (agents, operators) = (gateway.addr(), gateway.operators());

    let mut told = show(agents).await;
    for path in ["/metrics", "/hooks", "/sessions", "/sessions/s"] {
        let answer = Agent::at(operators).get(path).await;
        write!(told, "{:?}{}", answer.headers, answer.text()).unwrap();
    }
    let hooks = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    gateway.terminate();
    let (_, log) = gateway.ended(Duration::from_secs(20));

    assert!(hooks.contains("hook_event_name"));
    assert!(log.contains("\"caller.name\":\"own\""), "{log}");
    assert!(told.contains("TOKEN_QUOTA_EXCEEDED"), "{told}");
    assert_eq!(upstream.seen().len(), 4);
    for asked in upstream.seen() {
        assert_eq!(asked.header("x-goog-api-key"), "CANARY-upstream");
        let rest = format!("{:?}{}{}", asked.headers, asked.query, asked.body);
        let rest = rest.replacen("CANARY-upstream", "", 1);
        assert!(!rest.contains("CANARY"), "{rest}");
    }
    for (place, text) in [
        ("agents and operators", told),
        ("hooks", hooks),
        ("log", log),
    ] {
        for canary in CANARIES {
            let at = text.find(canary);
            let around = at.map(|it| &text[it.saturating_sub(80)..it + canary.len()]);
            assert_eq!(around, None, "{place}");
        }
    }
}
