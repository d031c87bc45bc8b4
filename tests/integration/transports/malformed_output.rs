//! Malformed hook output is a hook failure on every transport: with
//! `on_failure: closed` it denies, with `open` the event passes with a diagnostic.

use serde_json::{Value, json};

use super::{Process, worker::worker};
use crate::harness::{TestGateway, Upstream, hook, prompt, respond};

/// Every transport, and variants of `command`.
const TRANSPORTS: [&str; 5] = ["command", "prewarmed", "line", "worker", "http"];

/// The protocols of all families.
const PROTOCOLS: [&str; 4] = ["gemini", "terminai", "tabnine", "llxprt"];

/// Outputs that are malformed on `BeforeTool`, whatever the transport.
const MALFORMED: &[&[u8]] = &[
    br#"{"decision":"dney"}"#,
    br#"{"decision":"DENY","reason":"case-sensitive"}"#,
    br#"{"decision":""}"#,
    br#"{"decision":false}"#,
    br#"{"hookSpecificOutput":{"permissionDecision":"dney"}}"#,
    br#"[{"decision":"deny"}]"#,
    b"[1,2]",
    b"false",
    b"null",
    b"{}{}",
    br#"{"decision":"allow"} {"decision":"deny"}"#,
    br#"{"decision":"allow"} checked"#,
    b"[1]\n{\"decision\":\"deny\"}",
    br#"{"decision":"allow""#,
    b"{'decision': 'deny'}",
    br#"[{"decision":"deny""#,
    b"[1,",
    br#""{\"decision\":""#,
    b"{\"decision\":\"allow\",\"systemMessage\":\"\xff\"}",
    b"all good \xff",
];

/// Outputs of a command that are plain text or empty.
const PLAIN_TEXT: &[&[u8]] = &[
    b"",
    b"all good",
    b"[guard] all good",
    b"[1234] all good",
    b"[2026-11-24 10:00:00] all good",
    br#""deny""#,
    b"log\n{\"decision\":\"deny\"}",
];

/// A gateway with one guard for each output: the first runs on calls of `tool_0`, and so on.
struct Guards {
    gate: TestGateway,
    _server: Upstream,
}

impl Guards {
    async fn new(transport: &str, outputs: &'static [&'static [u8]], on_failure: &str) -> Self {
        let server = Upstream::with(move |request| {
            let index: usize = request.path[1..].parse().unwrap();
            respond(200, "application/json", outputs[index])
        })
        .await;
        let guard = |(index, output): (usize, &&[u8])| {
            let mut hook = hook(transport, output, &format!("{}/{index}", server.addr));
            hook["name"] = json!(format!("guard_{index}"));
            hook["on_failure"] = json!(on_failure);
            json!({ "matcher": format!("^tool_{index}$"), "hooks": [hook] })
        };
        let groups: Vec<Value> = outputs.iter().enumerate().map(guard).collect();
        let hooks = json!({ "BeforeTool": groups });
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}")).await;
        Self {
            gate,
            _server: server,
        }
    }
}

/// A gateway with a settings file of guards that print malformed output.
async fn guards_of_protocol(protocol: &str, on_failure: &str) -> TestGateway {
    let group = |(index, output): (usize, &&[u8])| {
        let hook = hook("command", output, "");
        json!({ "matcher": format!("^tool_{index}$"), "hooks": [hook] })
    };
    let groups: Vec<Value> = MALFORMED.iter().enumerate().map(group).collect();
    let settings = json!({ "hooks": { "BeforeTool": groups } }).to_string();
    let config = format!(
        "hook_defaults: {{ on_failure: {on_failure} }}\n\
         hook_files: [{{ path: settings.json, protocol: {protocol} }}]"
    );
    let upstream = Upstream::mock().await;
    let files = [("settings.json", settings.as_str())];
    TestGateway::with_files(&upstream, &config, &files).await
}

/// A hook on this transport; `address` is that of its server for `http`.
fn hook(transport: &str, output: &[u8], address: &str) -> Value {
    let print = format!("printf '{}'", octal(output));
    let command = format!("read -r event; {print}");
    match transport {
        "http" => json!({ "type": "http", "url": format!("http://{address}") }),
        "worker" => {
            let answer = format!("answer \"$({print})\"");
            json!({ "type": "worker", "command": worker(&answer, "") })
        }
        "prewarmed" => json!({ "command": command, "prewarm": 1 }),
        "line" => json!({ "command": command, "answer": "line" }),
        _ => json!({ "command": command }),
    }
}

/// Bytes as the format of a shell's `printf`.
fn octal(output: &[u8]) -> String {
    let escapes = output.iter().map(|byte| format!("\\{byte:03o}"));
    escapes.collect::<Vec<_>>().concat()
}

/// Reports a tool call; returns the verdict and the run of its only hook.
async fn report_tool(gate: &TestGateway, index: usize) -> (Value, Value) {
    let tool = format!("tool_{index}");
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });
    let answer = gate.agent().report(&event, "explain=1").await;
    let explained = &answer.json()["hookgate"];
    (explained["verdict"].clone(), explained["hooks"][0].clone())
}

/// Checks the verdict on every output; returns the runs of the hooks.
async fn check(gate: &TestGateway, outputs: &[&[u8]], verdict: &str, context: &str) -> Vec<Value> {
    let mut runs = Vec::new();
    for (index, output) in outputs.iter().enumerate() {
        let (got, run) = report_tool(gate, index).await;
        let output = String::from_utf8_lossy(output);
        assert_eq!(got, verdict, "{context}: `{output}`: {run}");
        runs.push(run);
    }
    runs
}

#[tokio::test]
async fn malformed_output_of_a_hook_that_fails_closed_is_a_denial() {
    for transport in TRANSPORTS {
        let guards = Guards::new(transport, MALFORMED, "closed").await;

        for run in check(&guards.gate, MALFORMED, "deny", transport).await {
            assert_eq!(run["status"], "failed", "{transport}: {run}");
        }
    }
}

#[tokio::test]
async fn malformed_output_of_a_hook_that_fails_open_is_recorded() {
    for transport in TRANSPORTS {
        let guards = Guards::new(transport, MALFORMED, "open").await;

        for run in check(&guards.gate, MALFORMED, "proceed", transport).await {
            let code = &run["diagnostics"][0]["code"];
            assert!(code.is_string(), "{transport}: {run}");
        }
    }
}

#[tokio::test]
async fn malformed_output_is_a_failure_in_every_protocol() {
    for protocol in PROTOCOLS {
        let closed = guards_of_protocol(protocol, "closed").await;
        check(&closed, MALFORMED, "deny", protocol).await;

        let open = guards_of_protocol(protocol, "open").await;
        for run in check(&open, MALFORMED, "proceed", protocol).await {
            let code = &run["diagnostics"][0]["code"];
            assert!(code.is_string(), "{protocol}: {run}");
        }
    }
}

#[tokio::test]
async fn plain_text_of_a_command_is_not_a_failure() {
    for transport in ["command", "prewarmed", "line"] {
        let guards = Guards::new(transport, PLAIN_TEXT, "closed").await;

        for run in check(&guards.gate, PLAIN_TEXT, "proceed", transport).await {
            assert_eq!(run["status"], "ok", "{transport}: {run}");
        }
    }
}

#[tokio::test]
async fn an_output_without_its_effect_is_logged_once_for_each_hook() {
    let upstream = Upstream::mock().await;
    let elsewhere = json!({ "hookSpecificOutput": { "permissionDecision": "deny" } });
    let lines = json!({ "decision": "deny", "reason": "secret" });
    let hooks = hook::config(&[
        ("BeforeModel", hook::command("text", "echo hello")),
        (
            "BeforeModel",
            hook::command("lines", &format!("echo log; echo '{lines:#}'")),
        ),
        (
            "BeforeModel",
            hook::printing(
                "misspelled",
                &json!({ "decison": "deny", "stopReason": null }),
            ),
        ),
        ("BeforeModel", hook::printing("elsewhere", &elsewhere)),
        (
            "BeforeModel",
            hook::printing("unknown", &json!({ "decision": "Deny" })),
        ),
    ]);
    let gateway = Process::start(&upstream, &hooks, &[]);

    for _ in 0..2 {
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let log = gateway.stop().await;

    let ignored: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("part of the hook output ignored"))
        .collect();
    assert_eq!(ignored.len(), 4, "{log}");
    for (hook, code) in [
        ("lines", "object_in_text"),
        ("misspelled", "unknown_key"),
        ("elsewhere", "unknown_key"),
        ("unknown", "unknown_decision"),
    ] {
        let of_hook = |line: &&&str| line.contains(hook) && line.contains(code);
        assert_eq!(ignored.iter().filter(of_hook).count(), 1, "{hook}: {log}");
    }
    assert!(!log.contains("secret") && !log.contains("decison"), "{log}");
}

#[tokio::test]
async fn two_documents_on_two_lines_are_malformed() {
    const OUTPUT: &[&[u8]] = &[b"{\"decision\":\"allow\"}\n{\"decision\":\"deny\"}"];
    // With `answer: line` the first line is the output.
    for transport in ["command", "prewarmed", "worker", "http"] {
        let guards = Guards::new(transport, OUTPUT, "closed").await;

        check(&guards.gate, OUTPUT, "deny", transport).await;
    }
}

#[tokio::test]
async fn a_denial_in_invalid_utf8_remains_a_denial() {
    const DENIAL: &[&[u8]] = &[b"{\"decision\":\"deny\",\"reason\":\"\xff\"}"];
    for transport in ["command", "worker", "http"] {
        let guards = Guards::new(transport, DENIAL, "open").await;

        check(&guards.gate, DENIAL, "deny", transport).await;
    }
}

#[tokio::test]
async fn a_call_with_a_mistyped_denial_never_reaches_upstream() {
    for transport in TRANSPORTS {
        let server = Upstream::with(|_| respond(200, "application/json", MALFORMED[0])).await;
        let mut guard = hook(transport, MALFORMED[0], &server.addr.to_string());
        guard["name"] = json!("guard");
        guard["on_failure"] = json!("closed");
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &super::config("BeforeModel", &guard)).await;

        let answer = gate.agent().generate("m", &prompt("hello")).await;

        let reason = "Hook guard failed: unknown decision; \
                      expected `allow`, `approve`, `deny`, `block` or `ask`";
        super::assert_denied(&answer, reason);
        assert!(upstream.requests().is_empty(), "{transport}");
    }
}
