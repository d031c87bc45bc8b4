//! `tool_guard`: on declarations, on calls in answers, on `BeforeTool` events.

use std::fmt::Write;

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, TestGateway, Upstream, hook, prompt, respond};

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

fn calling(name: &str, arguments: &Value) -> Vec<Value> {
    vec![
        json!({ "text": "first" }),
        json!({ "functionCall": { "name": name, "args": arguments }, "thoughtSignature": "c2ln" }),
    ]
}

#[tokio::test]
async fn what_is_not_allowed_is_not_offered() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: ['*_file'], deny: ['write_*'] }]\n";
    let gate = TestGateway::start(&upstream, config).await;

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
    let gate = TestGateway::start(&upstream, config).await;
    let body = serde_json::to_string_pretty(&body()).unwrap();

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    gate.agent().post(&path, body.clone()).await;

    assert_eq!(upstream.only().body, body);
}

/// A model that says and calls this, in a chunk per part; after a refusal of
/// a call it repeats the reason.
async fn model(parts: Vec<Value>) -> Upstream {
    Upstream::with(move |asked| {
        let request = asked.json();
        let last = request["contents"].as_array().unwrap().last().unwrap();
        let parts = match &last["parts"][0]["functionResponse"]["response"]["error"] {
            Value::String(told) => vec![json!({ "text": told })],
            _ => parts.clone(),
        };
        let answer = |parts: &[Value]| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
        if asked.query.contains("alt=sse") {
            let mut events = String::new();
            for part in &parts {
                write!(events, "data: {}\r\n\r\n", answer(std::slice::from_ref(part))).unwrap();
            }
            respond(200, "text/event-stream", events)
        } else {
            respond(200, "application/json", answer(&parts).to_string())
        }
    })
    .await
}

/// The parts that an agent hears, of a stream or not, neighbouring texts as one.
async fn heard(agent: &Agent) -> [Vec<Value>; 2] {
    let unary = agent.generate(MODEL, &body()).await.json();
    let events = agent.stream(MODEL, &body()).await.events();
    [parts(&[unary]), parts(&events)]
}

fn parts(chunks: &[Value]) -> Vec<Value> {
    let mut heard: Vec<Value> = Vec::new();
    let lists = chunks
        .iter()
        .filter_map(|it| it["candidates"][0]["content"]["parts"].as_array());
    for part in lists.flatten() {
        let texts = heard
            .last()
            .map(|it| (it["text"].as_str(), part["text"].as_str()));
        match texts {
            Some((Some(before), Some(text))) => {
                let joined = json!({ "text": format!("{before}{text}") });
                heard.pop();
                heard.push(joined);
            }
            _ => heard.push(part.clone()),
        }
    }
    heard
}

#[track_caller]
fn check(parts: &[Value], blocked: Option<&str>) {
    if let Some(why) = blocked {
        let told = format!("first\n\nTool execution blocked: {why}");
        assert_eq!(parts, [json!({ "text": told })]);
    } else {
        assert_eq!(parts[0]["text"], "first");
        assert_eq!(parts[1]["thoughtSignature"], "c2ln");
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
    let upstream = model(calling(name, arguments)).await;
    let gate = TestGateway::start(&upstream, RULES).await;

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
    let gate = TestGateway::start(&upstream, config).await;
    let report = async |path: &str| {
        let input = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "path": path }, "cwd": "/work/repo/app" });
        gate.agent().report(&input, "").await.json()
    };

    assert_eq!(report("../lib/a").await, json!({}));
    let refused = json!({ "decision": "deny", "reason": "ask the platform team" });
    assert_eq!(report("../../other").await, refused);
}

/// The parts that an agent hears of a stream of these parts, each in a chunk.
async fn heard_in_pieces(config: &str, pieces: &[Value]) -> Vec<Value> {
    let upstream = model(pieces.to_vec()).await;
    let gate = TestGateway::start(&upstream, config).await;
    parts(&gate.agent().stream(MODEL, &body()).await.events())
}

fn pieces_of(name: &str) -> Vec<Value> {
    let piece = |last: &str| json!([{ "jsonPath": "$.command", "stringValue": last, "willContinue": true }]);
    vec![
        json!({ "functionCall": { "name": name, "willContinue": true } }),
        json!({ "functionCall": { "partialArgs": piece("rm "), "willContinue": true } }),
        json!({ "functionCall": { "partial_args": piece("-rf"), "will_continue": true } }),
        json!({ "functionCall": {} }),
    ]
}

#[tokio::test]
async fn the_pieces_of_a_call_go_its_way() {
    let config = "
policies:
  - policy: tool_guard
    allow: [write_file, read_file]
    rules: [{ tool: write_file, argument: /command, commands: [ls], optional: true }]
";
    for (name, why) in [
        ("run_shell_command", "is not allowed here"),
        ("write_file", "may not be called with arguments in pieces"),
    ] {
        let heard = heard_in_pieces(config, &pieces_of(name)).await;
        let text = format!("Tool execution blocked: The tool `{name}` {why}.");
        assert_eq!(heard, [json!({ "text": text })]);
    }
    assert_eq!(
        heard_in_pieces(config, &pieces_of("read_file")).await,
        pieces_of("read_file")
    );
}

#[tokio::test]
async fn a_selection_holds_for_the_pieces_of_a_call() {
    let select = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": ["read_file"] }));
    let config = hook::config(&[("BeforeToolSelection", hook::saying("select", &select))]);

    let allowed = heard_in_pieces(&config, &pieces_of("read_file")).await;
    let refused = heard_in_pieces(&config, &pieces_of("write_file")).await;

    assert_eq!(allowed, pieces_of("read_file"));
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["functionCall"].is_null(), "{refused:?}");
}

#[tokio::test]
async fn no_form_of_a_call_hides_it() {
    let config = "
policies:
  - policy: tool_guard
    deny: [rm]
    rules: [{ tool: cat, argument: /path, within: [/repo], optional: true }]
";
    for part in [
        json!({ "functionCall": { "name": "rm", "args": {} }, "thought": true }),
        json!({ "text": "hi", "function_call": { "name": "rm" } }),
        json!({ "functionCall": { "args": { "command": "rm" } } }),
        json!({ "functionCall": { "name": null } }),
        json!({ "functionCall": { "name": "cat", "args": "{\"path\":\"/etc\"}" } }),
        json!({ "functionCall": { "name": "cat", "args": ["/etc"] } }),
        json!({ "functionCall": { "name": "cat", "args": { "path": [["/etc"]] } } }),
        json!({ "functionCall": { "name": "cat", "partialArgs": [{ "jsonPath": "$.path", "stringValue": "/etc" }] } }),
    ] {
        let heard = heard_in_pieces(config, std::slice::from_ref(&part)).await;
        let text = heard[0]["text"].as_str().unwrap_or_default();
        assert!(
            text.starts_with("Tool execution blocked: "),
            "{part}: {heard:?}"
        );
        assert_eq!(heard.len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_means_two_things_is_not_heard() {
    let config = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    for call in [
        r#"{"functionCall":{"name":"ls"},"function_call":{"name":"rm"}}"#,
        r#"{"functionCall":{"name":"ls","name":"rm"}}"#,
        r#"{"functionCall":{"name":"ls","args":{"a":1,"a":2}}}"#,
        r#"{"functionCall":["rm"]}"#,
    ] {
        let answer = format!(r#"{{"candidates":[{{"content":{{"parts":[{call}]}}}}]}}"#);
        let upstream =
            Upstream::with(move |_| respond(200, "application/json", answer.clone())).await;
        let gate = TestGateway::start(&upstream, config).await;
        let answer = gate.agent().generate(MODEL, &prompt("go")).await;
        assert_eq!(answer.status, 502, "{call}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_declaration_hides_it() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: [ls] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let body = json!({
        "contents": [],
        "tools": [
            { "function_declarations": [{ "name": "rm" }, { "name": "ls" }], "code_execution": {} },
            { "googleSearchRetrieval": {}, "url_context": {} },
            { "functionDeclarations": [{ "name": "LS" }] },
        ],
        "tool_config": { "function_calling_config": { "mode": "ANY", "allowed_function_names": ["rm", "ls"] } },
    });

    gate.agent().generate(MODEL, &body).await;

    let expected = json!({
        "contents": [],
        "tools": [{ "function_declarations": [{ "name": "ls" }] }],
        "tool_config": { "function_calling_config": { "mode": "ANY", "allowed_function_names": ["ls"] } },
    });
    assert_eq!(upstream.only().json(), expected);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    for tools in [
        r#"{"functionDeclarations":[{"name":"rm"}]}"#,
        r#"[[{"functionDeclarations":[{"name":"rm"}]}]]"#,
        r#"[{"functionDeclarations":{"name":"rm"}}]"#,
        r#"[{"functionDeclarations":[],"function_declarations":[{"name":"rm"}]}]"#,
    ] {
        let answer = gate
            .agent()
            .post(&path, format!(r#"{{"tools":{tools}}}"#))
            .await;
        assert_eq!(answer.status, 400, "{tools}");
    }
    assert_eq!(upstream.seen().len(), 1);
}
