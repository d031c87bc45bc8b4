//! `tool_guard`: on declarations, on calls in answers, on `BeforeTool` events.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, Gate, Upstream};

fn body() -> Value {
    json!({
        "contents": [{ "role": "user", "parts": [{ "text": "go" }] }],
        "tools": [
            { "functionDeclarations": [
                { "name": "read_file" }, { "name": "write_file" }, { "name": "run_shell_command" },
            ] },
            { "googleSearch": {} },
        ],
    })
}

fn calling(name: &str, arguments: &Value) -> Value {
    let parts = json!([
        { "text": "first" },
        { "functionCall": { "name": name, "args": arguments }, "thoughtSignature": "c2ln" },
    ]);
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] })
}

#[tokio::test]
async fn what_is_not_allowed_is_not_offered() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: ['*_file'], deny: ['write_*'] }]\n";
    let gate = Gate::start(&upstream, config).await;

    gate.agent().generate(MODEL, &body()).await;

    let tools = &upstream.only().json()["tools"];
    assert_eq!(
        *tools,
        json!([{ "functionDeclarations": [{ "name": "read_file" }] }])
    );
}

#[tokio::test]
async fn what_is_allowed_is_offered_byte_for_byte() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, deny: [other] }]\n";
    let gate = Gate::start(&upstream, config).await;
    let body = serde_json::to_string_pretty(&body()).unwrap();

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    gate.agent().post(&path, body.clone()).await;

    assert_eq!(upstream.only().body, body);
}

/// The parts that an agent hears, of a stream or not.
async fn heard(agent: &Agent) -> [Value; 2] {
    let unary = agent.generate(MODEL, &body()).await.json();
    let mut events = agent.stream(MODEL, &body()).await.events();
    let parts = |it: &Value| it["candidates"][0]["content"]["parts"].clone();
    [parts(&unary), parts(&events.remove(0))]
}

#[track_caller]
fn check(parts: &Value, blocked: Option<&str>) {
    assert_eq!(parts[0]["text"], "first");
    match blocked {
        Some(why) => assert_eq!(
            parts[1],
            json!({ "text": format!("Tool execution blocked: {why}") })
        ),
        None => assert_eq!(parts[1]["thoughtSignature"], "c2ln"),
    }
}

const RULES: &str = "
policies:
  - policy: tool_guard
    deny: [delete_*]
    rules:
      - { tool: write_file, argument: /file_path, within: [/repo, .] }
      - { tool: run_shell_command, argument: /command, commands: [git status, ls] }
      - { tool: fetch, argument: /url, matches: '^https://docs\\.example\\.com/', not_matches: '@' }
      - { tool: fetch, argument: /options/depth, matches: '^[0-3]$', optional: true }
";

#[tokio::test]
async fn a_call_in_an_answer_is_held_to_the_rules() {
    let cases = [
        (
            "delete_all",
            json!({}),
            Some("The tool `delete_all` is not allowed here."),
        ),
        ("write_file", json!({ "file_path": "/repo/a" }), None),
        (
            "write_file",
            json!({ "file_path": "/repo/../a" }),
            Some("The tool `write_file` may not use the path in `/file_path`."),
        ),
        (
            "write_file",
            json!({ "path": "/repo/a" }),
            Some("The tool `write_file` may not be called without `/file_path`."),
        ),
        (
            "run_shell_command",
            json!({ "command": "git status" }),
            None,
        ),
        (
            "run_shell_command",
            json!({ "command": "ls; rm -rf /" }),
            Some("The tool `run_shell_command` may not run the command in `/command`."),
        ),
        (
            "fetch",
            json!({ "url": "https://docs.example.com/a" }),
            None,
        ),
        (
            "fetch",
            json!({ "url": ["https://docs.example.com/a", "https://evil.com"] }),
            Some("The tool `fetch` may not be called with this `/url`."),
        ),
        (
            "fetch",
            json!({ "url": "https://docs.example.com/@" }),
            Some("The tool `fetch` may not be called with this `/url`."),
        ),
        (
            "fetch",
            json!({ "url": "https://docs.example.com/", "options": { "depth": 9 } }),
            Some("The tool `fetch` may not be called with this `/options/depth`."),
        ),
        (
            "fetch",
            json!({ "url": { "x": 1 } }),
            Some("The tool `fetch` may not be called with such a `/url`."),
        ),
    ];
    for (name, arguments, blocked) in cases {
        assert_held_to_the_rules(name, &arguments, blocked).await;
    }
}

/// Both in a model's answer and as an agent reports it.
async fn assert_held_to_the_rules(name: &str, arguments: &Value, blocked: Option<&str>) {
    let upstream = Upstream::answering(&calling(name, arguments)).await;
    let gate = Gate::start(&upstream, RULES).await;

    for parts in heard(&gate.agent()).await {
        check(&parts, blocked);
    }
    let input = json!({ "hook_event_name": "BeforeTool", "tool_name": name, "tool_input": arguments, "cwd": "/home/me" });
    let said = gate.agent().report(&input, "").await.json();
    assert_eq!(said["decision"].as_str(), blocked.map(|_| "deny"), "{said}");
    assert_eq!(said["reason"].as_str(), blocked, "{said}");
}

#[tokio::test]
async fn a_reported_call_is_judged_in_the_agents_directory() {
    let upstream = Upstream::mock().await;
    let config = "
policies:
  - policy: tool_guard
    reason: ask the platform team
    rules: [{ tool: '*', argument: /path, within: [/work/repo] }]
";
    let gate = Gate::start(&upstream, config).await;
    let report = async |path: &str| {
        let input = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "path": path }, "cwd": "/work/repo/app" });
        gate.agent().report(&input, "").await.json()
    };

    assert_eq!(report("../lib/a").await, json!({}));
    let refused = json!({ "decision": "deny", "reason": "ask the platform team" });
    assert_eq!(report("../../other").await, refused);
}
