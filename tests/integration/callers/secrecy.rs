//! Absence of caller credentials in logs, metrics, errors, hooks and upstream requests.

use std::{fmt::Write, net::SocketAddr, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use super::sha256;
use crate::harness::{Agent, ServerProcess, Upstream, hookgate, prompt};

/// One valid credential for each place, an invalid one, and the key for upstream.
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
         hooks:\n\
         \x20 BeforeModel: [{{ hooks: [{{ command: \"cat >> seen; env >> seen\", \
         document: true }}] }}]\n\
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

/// Sends each credential in its place; returns all responses.
async fn send_credentials(agents: SocketAddr) -> String {
    let agent = || Agent::at(agents).sending("x-hookgate-session", "s");
    let generate = "/v1beta/models/m:generateContent";
    let plain = |agent: Agent| (agent, generate.to_owned());
    let requests = [
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
    let mut responses = String::new();
    for (agent, path) in &requests {
        // The first call uses up the token quota and the second exceeds it.
        for _ in 0..2 {
            let answer = agent.post(path, prompt("hi").to_string()).await;
            write!(responses, "{:?}{}", answer.headers, answer.text()).unwrap();
        }
        responses.push_str(agent.report(&event, "explain=1").await.text());
    }
    responses
}

#[tokio::test]
async fn caller_credentials_are_in_no_log_metric_error_hook_or_upstream_request() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    std::fs::write(&file, config(&upstream)).unwrap();
    let mut command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
    command.env("CANARY", "CANARY-upstream");
    let mut gateway = ServerProcess::start(command);
    let (agents, operators) = (gateway.addr(), gateway.operators());

    let mut responses = send_credentials(agents).await;
    for path in ["/metrics", "/hooks", "/sessions", "/sessions/s"] {
        let answer = Agent::at(operators).get(path).await;
        write!(responses, "{:?}{}", answer.headers, answer.text()).unwrap();
    }
    let hooks = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    gateway.terminate();
    let (_, log) = gateway.ended(Duration::from_secs(20));

    assert!(hooks.contains("hook_event_name"));
    assert!(log.contains("\"caller.name\":\"own\""), "{log}");
    assert!(responses.contains("TOKEN_QUOTA_EXCEEDED"), "{responses}");
    assert_eq!(upstream.requests().len(), 4);
    for asked in upstream.requests() {
        assert_eq!(asked.header("x-goog-api-key"), "CANARY-upstream");
        let rest = format!("{:?}{}{}", asked.headers, asked.query, asked.body);
        let rest = rest.replacen("CANARY-upstream", "", 1);
        assert!(!rest.contains("CANARY"), "{rest}");
    }
    for (source, text) in [
        ("agents and operators", responses),
        ("hooks", hooks),
        ("log", log),
    ] {
        for canary in CANARIES {
            let at = text.find(canary);
            let excerpt = at.map(|start| &text[start.saturating_sub(80)..start + canary.len()]);
            assert_eq!(excerpt, None, "{source}");
        }
    }
}
