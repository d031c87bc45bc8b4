//! Hooks of Claude Code and Codex in a gateway: their settings files, tools of other
//! agents, results, and what users of these agents complained of.

mod complaints;
mod results;
mod settings;
mod tools;

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway, Upstream};

const MODEL: &str = "gemini-2.5-pro";

/// A gateway with one settings file of a family.
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

/// Groups of one event: a matcher, and a hook that saves its input as `<name>.json`.
fn on(matcher: &str, name: &str, command: &str) -> Value {
    let command = format!("cat > {name}.json; {command}");
    json!([{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }])
}

/// A command that prints this output.
fn printing(output: &Value) -> String {
    format!("echo '{}'", output.to_string().replace('\'', r"'\''"))
}

/// The output of a hook on `PreToolUse`.
fn permission(decision: &str, reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }})
}

/// The output of a hook that replaces a result.
fn result(output: &Value) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": output,
    }})
}

/// A model that calls a tool first, and answers with a text then.
async fn calling(tool: &str, args: &Value) -> Upstream {
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

/// A request of an agent that has one tool.
fn asking(tool: &str, contents: &Value) -> Value {
    let tools = json!([{ "functionDeclarations": [{ "name": tool }] }]);
    json!({ "contents": contents, "tools": tools })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

/// A prompt, a tool call, and its result.
fn with_result(tool: &str, args: &Value, output: &str) -> Value {
    json!([
        user("go on"),
        { "role": "model", "parts": [{ "functionCall": { "name": tool, "args": args } }] },
        { "role": "user", "parts": [{ "functionResponse": {
            "name": tool, "response": { "output": output },
        }}]},
    ])
}

/// The parts of an answer.
async fn answered(agent: &Agent, body: &Value) -> Value {
    let answer = agent.generate(MODEL, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["candidates"][0]["content"]["parts"].clone()
}

/// The response of the last result, as the model receives it.
fn told(upstream: &Upstream) -> Value {
    let asked = upstream.seen().pop().unwrap().json();
    let last = asked["contents"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    last["parts"][0]["functionResponse"]["response"].clone()
}
