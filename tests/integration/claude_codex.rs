//! Hooks of Claude Code and Codex in a gateway: settings files, tools of other agents, results,
//! and issues that users of these agents reported.

mod argument_names;
mod arguments;
mod reported_issues;
mod results;
mod settings;
mod tools;

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway, Upstream};

const MODEL: &str = "gemini-2.5-pro";

/// Gateway with one settings file, whose hooks use this protocol.
async fn gate(upstream: &Upstream, protocol: &str, hooks: &Value) -> TestGateway {
    gate_with(upstream, protocol, hooks, "").await
}

async fn gate_with(
    upstream: &Upstream,
    protocol: &str,
    hooks: &Value,
    config: &str,
) -> TestGateway {
    let settings = json!({ "hooks": hooks }).to_string();
    let file = json!({ "path": "settings.json", "protocol": protocol });
    let config = format!("hook_files: [{file}]\n{config}");
    TestGateway::with_files(upstream, &config, &[("settings.json", &settings)]).await
}

/// Hook groups of one event: a matcher, and a hook that saves its input as `<name>.json`.
fn on(matcher: &str, name: &str, command: &str) -> Value {
    let command = format!("cat > {name}.json; {command}");
    json!([{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }])
}

/// Command that prints this output.
fn printing(output: &Value) -> String {
    format!("echo '{}'", output.to_string().replace('\'', r"'\''"))
}

/// Output of a hook on `PreToolUse`.
fn permission(decision: &str, reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }})
}

/// Output of a hook that replaces a result.
fn result(output: &Value) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": output,
    }})
}

/// Upstream that first calls a tool, and then answers with text.
async fn upstream_calling(tool: &str, args: &Value) -> Upstream {
    let parts = [
        json!([{ "functionCall": { "name": tool, "args": args } }]),
        json!([{ "text": "done" }]),
    ];
    let answers = parts.map(|parts| {
        let answer = json!({ "candidates": [{
            "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0,
        }]});
        json!({ "method": "generateContent", "response": answer }).to_string()
    });
    Upstream::scripted(&answers.join("\n")).await
}

/// Request of an agent that has one tool.
fn request_with_tool(tool: &str, contents: &Value) -> Value {
    let tools = json!([{ "functionDeclarations": [{ "name": tool }] }]);
    json!({ "contents": contents, "tools": tools })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

/// History with a prompt, a tool call and its result.
fn with_result(tool: &str, args: &Value, output: &str) -> Value {
    json!([
        user("go on"),
        { "role": "model", "parts": [{ "functionCall": { "name": tool, "args": args } }] },
        { "role": "user", "parts": [{ "functionResponse": {
            "name": tool, "response": { "output": output },
        }}]},
    ])
}

/// Sends a request, and returns the parts of the answer.
async fn answer_parts(agent: &Agent, body: &Value) -> Value {
    let answer = agent.generate(MODEL, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["candidates"][0]["content"]["parts"].clone()
}

/// Response of the last tool result, as upstream received it.
fn last_result(upstream: &Upstream) -> Value {
    let request = upstream.requests().pop().unwrap().json();
    let last = request["contents"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    last["parts"][0]["functionResponse"]["response"].clone()
}
