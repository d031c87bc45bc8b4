//! `tool_guard`: tool declarations, calls in responses and `BeforeTool` events.

use std::fmt::Write;

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, TestGateway, Upstream, hook, prompt, respond};

fn request_with_tools() -> Value {
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

fn parts_with_call(name: &str, arguments: &Value) -> Vec<Value> {
    vec![
        json!({ "text": "first" }),
        json!({ "functionCall": { "name": name, "args": arguments }, "thoughtSignature": "c2ln" }),
    ]
}

#[tokio::test]
async fn declarations_of_tools_that_are_not_allowed_are_removed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: ['*_file'], deny: ['write_*'] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    gateway.agent().generate(MODEL, &request_with_tools()).await;

    let tools = &upstream.only_request().json()["tools"];
    assert_eq!(
        *tools,
        json!([{ "functionDeclarations": [{ "name": "read_file" }] }])
    );
}

#[tokio::test]
async fn a_request_with_allowed_tools_is_forwarded_byte_for_byte() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, deny: [other] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let body = serde_json::to_string_pretty(&request_with_tools()).unwrap();

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    gateway.agent().post(&path, body.clone()).await;

    assert_eq!(upstream.only_request().body, body);
}

/// An upstream that responds with these parts, streamed as one chunk per part.
/// After the refusal of a call it responds with the reason.
async fn upstream_with(parts: Vec<Value>) -> Upstream {
    Upstream::with(move |received| {
        let request = received.json();
        let last = request["contents"].as_array().unwrap().last().unwrap();
        let parts = match &last["parts"][0]["functionResponse"]["response"]["error"] {
            Value::String(reason) => vec![json!({ "text": reason })],
            _ => parts.clone(),
        };
        let response = |parts: &[Value]| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
        if received.query.contains("alt=sse") {
            let mut events = String::new();
            for part in &parts {
                write!(events, "data: {}\r\n\r\n", response(std::slice::from_ref(part))).unwrap();
            }
            respond(200, "text/event-stream", events)
        } else {
            respond(200, "application/json", response(&parts).to_string())
        }
    })
    .await
}

/// The parts that an agent receives, unary and streamed, with adjacent texts joined.
async fn received_parts(agent: &Agent) -> [Vec<Value>; 2] {
    let unary = agent.generate(MODEL, &request_with_tools()).await.json();
    let events = agent.stream(MODEL, &request_with_tools()).await.events();
    [merged_parts(&[unary]), merged_parts(&events)]
}

fn merged_parts(chunks: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    let lists = chunks
        .iter()
        .filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
    for part in lists.flatten() {
        let texts = merged
            .last()
            .map(|last| (last["text"].as_str(), part["text"].as_str()));
        match texts {
            Some((Some(before), Some(text))) => {
                let joined = json!({ "text": format!("{before}{text}") });
                merged.pop();
                merged.push(joined);
            }
            _ => merged.push(part.clone()),
        }
    }
    merged
}

#[track_caller]
fn assert_parts(parts: &[Value], blocked: Option<&str>) {
    if let Some(reason) = blocked {
        let text = format!("first\n\nTool execution blocked: {reason}");
        assert_eq!(parts, [json!({ "text": text })]);
    } else {
        assert_eq!(parts[0]["text"], "first");
        assert_eq!(parts[1]["thoughtSignature"], "c2ln");
    }
}

#[tokio::test]
async fn calls_of_functions_that_are_not_declared_belong_to_computer_use() {
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "x": 2 } } });
    let hooks = hook::config(&[("BeforeTool", hook::printing("edit", &edit))]);
    let mut body = prompt("go");
    body["tools"] = json!([
        { "computerUse": { "environment": "ENVIRONMENT_BROWSER" } },
        { "functionDeclarations": [{ "name": "read_file" }] },
    ]);
    for (settings, is_offered, is_allowed) in [
        ("allow: [computerUse, read_file]", true, true),
        ("deny: [rm]", true, true),
        ("deny: [computerUse]", false, false),
        ("allow: [read_file]", false, false),
    ] {
        let upstream = upstream_with(parts_with_call("click_at", &json!({ "x": 1 }))).await;
        let config = format!("policies: [{{ policy: tool_guard, {settings} }}]\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().generate(MODEL, &body).await.json();

        let sent = upstream.requests()[0].json();
        let tools = sent["tools"].to_string();
        assert_eq!(tools.contains("computerUse"), is_offered, "{settings}");
        if is_allowed {
            let call = &answer["candidates"][0]["content"]["parts"][1]["functionCall"];
            assert_eq!(call["args"], json!({ "x": 2 }), "{settings}: {answer}");
        } else {
            let reason = "The tool `click_at` is not allowed here.";
            assert_parts(&merged_parts(&[answer]), Some(reason));
        }
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
async fn rules_apply_to_calls_in_responses_and_reported_calls() {
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
        assert_rules_apply(name, &arguments, blocked).await;
    }
}

#[tokio::test]
async fn an_empty_list_is_no_argument() {
    let shell = "The tool `run_shell_command` may not be called without `/command`.";
    let command = json!({ "command": [], "cmd": "rm -rf /" });
    assert_rules_apply("run_shell_command", &command, Some(shell)).await;
    let depth = json!({ "url": "https://docs.example.com/a", "options": { "depth": [] } });
    assert_rules_apply("fetch", &depth, None).await;
}

#[tokio::test]
async fn a_rule_denies_calls_with_the_argument_in_another_case() {
    let shell =
        "The tool `run_shell_command` may not be called with another spelling of `/command`.";
    let fetch = "The tool `fetch` may not be called with another spelling of `/options/depth`.";
    let url = "https://docs.example.com/a";
    for (name, arguments, reason) in [
        (
            "run_shell_command",
            json!({ "command": "ls", "Command": "rm -rf /" }),
            shell,
        ),
        ("run_shell_command", json!({ "COMMAND": "rm -rf /" }), shell),
        (
            "fetch",
            json!({ "url": url, "Options": { "depth": 9 } }),
            fetch,
        ),
        (
            "fetch",
            json!({ "url": url, "option\u{17f}": { "depth": 9 } }),
            fetch,
        ),
        (
            "fetch",
            json!({ "url": url, "options": { "depth": 1, "Depth": 9 } }),
            fetch,
        ),
    ] {
        assert_rules_apply(name, &arguments, Some(reason)).await;
    }
}

/// Checks a call both in a response and as a reported event.
async fn assert_rules_apply(name: &str, arguments: &Value, blocked: Option<&str>) {
    let upstream = upstream_with(parts_with_call(name, arguments)).await;
    let gateway = TestGateway::start(&upstream, RULES).await;

    for parts in received_parts(&gateway.agent()).await {
        assert_parts(&parts, blocked);
    }
    let input = json!({ "hook_event_name": "BeforeTool", "tool_name": name, "tool_input": arguments, "cwd": "/home/me" });
    let output = gateway.agent().report(&input, "").await.json();
    assert_eq!(
        output["decision"].as_str(),
        blocked.map(|_| "deny"),
        "{output}"
    );
    assert_eq!(output["reason"].as_str(), blocked, "{output}");
}

#[tokio::test]
async fn relative_paths_are_resolved_in_the_agents_directory() {
    let upstream = Upstream::mock().await;
    let config = "
policies:
  - policy: tool_guard
    reason: ask the platform team
    rules: [{ tool: '*', argument: /path, within: [/work/repo] }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    let report = async |path: &str| {
        let input = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "path": path }, "cwd": "/work/repo/app" });
        gateway.agent().report(&input, "").await.json()
    };

    assert_eq!(report("../lib/a").await, json!({}));
    let refused = json!({ "decision": "deny", "reason": "ask the platform team" });
    assert_eq!(report("../../other").await, refused);
}

#[tokio::test]
async fn the_directory_of_an_agent_is_never_that_of_the_gateway() {
    // Calls a tool with the prompt as its path, and answers after a refusal.
    let upstream = Upstream::with(|received| {
        let request = received.json();
        let contents = request["contents"].as_array().unwrap();
        let part = if let [first] = contents.as_slice() {
            let path = &first["parts"][0]["text"];
            json!({ "functionCall": { "name": "write_file", "args": { "path": path } } })
        } else {
            json!({ "text": "refused" })
        };
        let content = json!({ "role": "model", "parts": [part] });
        let response = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        respond(200, "application/json", response.to_string())
    })
    .await;
    let guard = json!({
        "type": "builtin", "policy": "tool_guard",
        "rules": [{ "tool": "*", "argument": "/path", "within": ["."] }],
    });
    let gateway = TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await;
    let agent = gateway.agent();
    let own = gateway.path("hookgate.yaml").display().to_string();

    for (path, is_called) in [(own.as_str(), false), ("src/a.rs", true)] {
        let mut body = request_with_tools();
        body["contents"][0]["parts"][0]["text"] = path.into();
        let answer = agent.generate(MODEL, &body).await.json();
        let call = &answer["candidates"][0]["content"]["parts"][0]["functionCall"];
        assert_eq!(call.is_object(), is_called, "{path}: {answer}");
        let input = json!({ "hook_event_name": "BeforeTool", "tool_name": "write_file", "tool_input": { "path": path } });
        let output = agent.report(&input, "").await.json();
        assert_eq!(output == json!({}), is_called, "{path}: {output}");
    }
}

/// The parts that an agent receives if upstream streams these parts, one per chunk.
async fn streamed_parts(config: &str, parts: &[Value]) -> Vec<Value> {
    let upstream = upstream_with(parts.to_vec()).await;
    let gateway = TestGateway::start(&upstream, config).await;
    merged_parts(
        &gateway
            .agent()
            .stream(MODEL, &request_with_tools())
            .await
            .events(),
    )
}

fn call_in_chunks(name: &str) -> Vec<Value> {
    let arguments = |text: &str| json!([{ "jsonPath": "$.command", "stringValue": text, "willContinue": true }]);
    vec![
        json!({ "functionCall": { "name": name, "willContinue": true } }),
        json!({ "functionCall": { "partialArgs": arguments("rm "), "willContinue": true } }),
        json!({ "functionCall": { "partial_args": arguments("-rf"), "will_continue": true } }),
        json!({ "functionCall": {} }),
    ]
}

#[tokio::test]
async fn a_call_in_chunks_is_allowed_or_blocked_as_a_whole() {
    let config = "
policies:
  - policy: tool_guard
    allow: [write_file, read_file]
    rules: [{ tool: write_file, argument: /command, commands: [ls], optional: true }]
";
    for (name, reason) in [
        ("run_shell_command", "is not allowed here"),
        ("write_file", "may not be called with arguments in pieces"),
    ] {
        let received = streamed_parts(config, &call_in_chunks(name)).await;
        let text = format!("Tool execution blocked: The tool `{name}` {reason}.");
        assert_eq!(received, [json!({ "text": text })]);
    }
    assert_eq!(
        streamed_parts(config, &call_in_chunks("read_file")).await,
        call_in_chunks("read_file")
    );
}

#[tokio::test]
async fn the_model_is_sent_one_call_and_one_result_for_a_call_in_chunks() {
    let mut parts = call_in_chunks("read_file");
    parts.push(json!({ "functionCall": { "name": "run_shell_command" } }));
    let upstream = upstream_with(parts).await;
    let config = "policies: [{ policy: tool_guard, deny: [run_shell_command] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    gateway.agent().stream(MODEL, &request_with_tools()).await;

    let asked = upstream.requests().pop().unwrap().json();
    for (index, field) in [(1, "functionCall"), (2, "functionResponse")] {
        let parts = asked["contents"][index]["parts"].as_array().unwrap();
        let names: Vec<&Value> = parts.iter().map(|part| &part[field]["name"]).collect();
        assert_eq!(names, ["read_file", "run_shell_command"], "{asked}");
    }
}

#[tokio::test]
async fn a_tool_selection_applies_to_a_call_in_chunks() {
    let select = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": ["read_file"] }));
    let config = hook::config(&[("BeforeToolSelection", hook::printing("select", &select))]);

    let allowed = streamed_parts(&config, &call_in_chunks("read_file")).await;
    let refused = streamed_parts(&config, &call_in_chunks("write_file")).await;

    assert_eq!(allowed, call_in_chunks("read_file"));
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["functionCall"].is_null(), "{refused:?}");
}

#[tokio::test]
async fn a_denied_call_is_blocked_in_every_form() {
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
        let received = streamed_parts(config, std::slice::from_ref(&part)).await;
        let text = received[0]["text"].as_str().unwrap_or_default();
        assert!(
            text.starts_with("Tool execution blocked: "),
            "{part}: {received:?}"
        );
        assert_eq!(received.len(), 1);
    }
}

#[tokio::test]
async fn an_ambiguous_call_in_a_response_is_refused() {
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
        let gateway = TestGateway::start(&upstream, config).await;
        let answer = gateway.agent().generate(MODEL, &prompt("go")).await;
        assert_eq!(answer.status, 502, "{call}");
    }
}

#[tokio::test]
async fn a_declaration_is_checked_in_every_spelling() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: [ls] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let body = json!({
        "contents": [],
        "tools": [
            { "function_declarations": [{ "name": "rm" }, { "name": "ls" }], "code_execution": {} },
            { "googleSearchRetrieval": {}, "url_context": {} },
            { "functionDeclarations": [{ "name": "LS" }] },
        ],
        "tool_config": { "function_calling_config": { "mode": "ANY", "allowed_function_names": ["rm", "ls"] } },
    });

    gateway.agent().generate(MODEL, &body).await;

    let expected = json!({
        "contents": [],
        "tools": [{ "function_declarations": [{ "name": "ls" }] }],
        "tool_config": { "function_calling_config": { "mode": "ANY", "allowed_function_names": ["ls"] } },
    });
    assert_eq!(upstream.only_request().json(), expected);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    for tools in [
        r#"[[{"functionDeclarations":[{"name":"rm"}]}]]"#,
        r#"[{"functionDeclarations":["rm"]}]"#,
        r#"[{"functionDeclarations":[],"function_declarations":[{"name":"rm"}]}]"#,
    ] {
        let answer = gateway
            .agent()
            .post(&path, format!(r#"{{"tools":{tools}}}"#))
            .await;
        assert_eq!(answer.status, 400, "{tools}");
    }
    assert_eq!(upstream.requests().len(), 1);
}
