//! `hookgate forward`: events of an agent's own hooks, sent to the gateway.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    harness::{TestGateway, Upstream, hook, hookgate, respond, run},
    tls::{self, Authority},
};

/// Runs `forward` as an agent runs a hook.
async fn forward(url: &str, more: &[&str], event: &Value) -> Output {
    forward_text(url, more, event.to_string()).await
}

/// Runs `forward` with this text as input.
async fn forward_text(url: &str, more: &[&str], event: String) -> Output {
    let mut command = hookgate(&["forward", "--url", url]);
    command.args(more);
    let wait = move || {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    spawn_blocking(wait).await.unwrap()
}

fn shell(command: &str) -> Value {
    json!({
        "session_id": "laptop-1",
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
        "tool_input": { "command": command },
    })
}

async fn gate() -> TestGateway {
    let upstream = Upstream::mock().await;
    let guard = hook::command(
        "guard",
        "grep -q 'rm -rf' && { echo 'not that' >&2; exit 2; }; exit 0",
    );
    TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await
}

#[tokio::test]
async fn the_decision_of_the_gateways_hooks_is_the_output() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);

    let refused = forward(&url, &[], &shell("rm -rf /")).await;
    let allowed = forward(&url, &[], &shell("ls")).await;

    let output: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(output, json!({ "decision": "deny", "reason": "not that" }));
    assert_eq!(refused.status.code(), Some(0));
    assert_eq!(allowed.stdout, b"{}\n");
    assert_eq!(allowed.status.code(), Some(0));
}

#[tokio::test]
async fn an_edited_call_has_all_of_its_arguments() {
    let upstream = Upstream::mock().await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "command": "ls -l" } } });
    let hooks = hook::config(&[("BeforeTool", hook::printing("edit", &edit))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let mut event = shell("ls");
    event["tool_input"]["directory"] = json!("src");

    let output = output(&gate, "gemini", &event).await;

    let arguments = json!({ "command": "ls -l", "directory": "src" });
    let specific = json!({ "tool_input": arguments, "hookEventName": "BeforeTool" });
    assert_eq!(output, json!({ "hookSpecificOutput": specific }));
}

#[tokio::test]
async fn a_large_call_that_is_masked_arrives_as_a_whole() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "policies: [{ policy: redact }]\n").await;
    let event = shell(&format!("mail ann@acme.com {}", "x".repeat(9 << 20)));

    let output = output(&gate, "gemini", &event).await;

    let command = output["hookSpecificOutput"]["tool_input"]["command"].as_str();
    let begin = command.unwrap().get(..24).unwrap();
    assert_eq!(begin, "mail [REDACTED:email] xx");
}

#[tokio::test]
async fn a_question_is_a_denial_for_agents_that_do_not_ask() {
    let upstream = Upstream::mock().await;
    let ask = json!({ "decision": "ask", "reason": "check" });
    let hooks = hook::config(&[("BeforeTool", hook::printing("ask", &ask))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    for (protocol, decision) in [
        ("gemini", "ask"),
        ("llxprt", "deny"),
        ("tabnine", "deny"),
        ("terminai", "deny"),
    ] {
        let output = output(&gate, protocol, &shell("ls")).await;

        let expected = json!({ "decision": decision, "reason": "check" });
        assert_eq!(output, expected, "{protocol}");
    }
}

#[tokio::test]
async fn the_path_of_the_url_names_the_session() {
    let upstream = Upstream::mock().await;
    let guard = hook::command("guard", "tee event.json; echo 'not that' >&2; exit 2");
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await;
    let url = format!("http://{}/s/named", gate.agents);

    for options in [&[][..], &["--protocol", "claude"]] {
        let event = if options.is_empty() {
            shell("ls")
        } else {
            bash("ls")
        };
        let output = forward(&url, options, &event).await;

        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("not that"), "{text}");
        assert_eq!(gate.json("event.json")["session_id"], "named");
    }
}

#[tokio::test]
async fn an_advisory_event_has_no_output() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);
    let event = json!({ "hook_event_name": "SessionEnd", "reason": "exit" });

    let output = forward(&url, &[], &event).await;

    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
}

#[tokio::test]
async fn a_failed_forward_warns_or_refuses_by_failure_mode() {
    // The listener is bound but never served, so each call exceeds its timeout.
    let unserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unserved.local_addr().unwrap());
    let quick = ["--timeout", "300"];

    let open = forward(&url, &quick, &shell("ls")).await;
    let closed = [&quick[..], &["--on-failure", "closed"]].concat();
    let closed = forward(&url, &closed, &shell("ls")).await;
    let malformed = forward(&format!("http://{}", gate().await.agents), &[], &json!([])).await;

    assert_eq!(open.status.code(), Some(1));
    assert_eq!(closed.status.code(), Some(2));
    assert_eq!(malformed.status.code(), Some(1));
    for output in [open, closed, malformed] {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("hookgate: the gateway "), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn the_reason_why_a_gateway_cannot_be_reached_is_named() {
    let upstream = Upstream::mock().await;
    let gate = tls::gate(&upstream, &Authority::new("ours"), tls::TLS).await;

    let plain = self::gate().await;

    for (url, cause) in [
        (
            format!("https://{}", gate.agents),
            "invalid peer certificate",
        ),
        ("http://127.0.0.1:1".to_owned(), "Connection refused"),
        (
            format!("http://{}", gate.agents),
            "invalid HTTP version parsed: if the port speaks TLS, use https://",
        ),
        (
            format!("https://{}", plain.agents),
            "received corrupt message of type InvalidContentType: \
             the port does not speak TLS; use http://",
        ),
    ] {
        let output = forward(&url, &[], &shell("ls")).await;
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = format!("cannot be reached: {cause}");
        assert!(stderr.contains(&expected), "{stderr}");
    }
}

#[tokio::test]
async fn the_beginning_of_an_answer_that_is_not_hookgates_is_named() {
    let page = format!("<h1>no\nbackend</h1>{}", "x".repeat(1000));
    let proxy = Upstream::with(move |_| respond(502, "text/html", page.clone())).await;
    let url = format!("http://{}", proxy.addr);

    let output = forward(&url, &[], &shell("ls")).await;

    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let start = "hookgate: the gateway responded with 502 Bad Gateway: \
         unreadable response `<h1>no\\nbackend</h1>xx";
    assert!(stderr.starts_with(start), "{stderr}");
    assert!(stderr.len() < 500, "{stderr}");
}

#[tokio::test]
async fn an_answer_that_is_not_hookgates_is_a_failure() {
    for (status, body) in [
        (200, "{}"),
        (200, r#"{"status":"ok"}"#),
        (200, r#"{"hookgate":true}"#),
        (200, "[]"),
        (200, "null"),
        (200, "<h1>ok</h1>"),
        (202, "{}"),
    ] {
        let other = Upstream::with(move |_| respond(status, "application/json", body)).await;
        let url = format!("http://{}", other.addr);

        for (mode, code) in [("open", 1), ("closed", 2)] {
            let output = forward(&url, &["--on-failure", mode], &shell("ls")).await;

            assert_eq!(output.status.code(), Some(code), "{status} {body}");
            assert!(output.stdout.is_empty(), "{status} {body}");
            let stderr = String::from_utf8(output.stderr).unwrap();
            let cause = "sent a response that is not that of hookgate";
            assert!(stderr.contains(cause), "{status} {body}: {stderr}");
        }
    }
}

#[tokio::test]
async fn an_input_with_a_key_twice_is_a_failure() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);
    let tool_input = r#"{"command":"rm -rf /","command":"ls"}"#;
    let event = format!(
        r#"{{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{tool_input}}}"#
    );
    for protocol in ["claude", "codex"] {
        let closed = ["--protocol", protocol, "--on-failure", "closed"];
        let output = forward_text(&url, &closed, event.clone()).await;

        assert_eq!(output.status.code(), Some(2), "{protocol}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = "hookgate: the input is ambiguous: `command` is given twice\n";
        assert_eq!(stderr, expected, "{protocol}");
    }
}

#[test]
fn an_input_that_does_not_end_is_a_failure_after_the_timeout() {
    let mut writer = Command::new("sleep")
        .arg("10")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let unended = writer.stdout.take().unwrap();
    let mut command = hookgate(&["forward", "--timeout", "300", "--on-failure", "closed"]);

    let output = command.stdin(unended).output().unwrap();

    writer.kill().unwrap();
    writer.wait().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "hookgate: timed out reading the input from stdin\n");
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn an_event_that_is_not_translated_names_the_protocols_that_have_it() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);
    let event = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash" });

    let output = forward(&url, &[], &event).await;

    let stderr = String::from_utf8(output.stderr).unwrap();
    let advice = "`PreToolUse` is `BeforeTool` here, to which `hookgate forward` translates it \
                  with `--protocol claude` or `--protocol codex`\n";
    assert!(stderr.ends_with(advice), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

/// Event at the end of a turn, with the name that an agent of this hook protocol has for it.
fn turn_end(protocol: &str) -> Value {
    let name = match protocol {
        "claude" | "codex" => "Stop",
        _ => "AfterAgent",
    };
    json!({ "session_id": "laptop-1", "hook_event_name": name, "prompt": "go",
        "prompt_response": "done", "last_assistant_message": "done", "stop_hook_active": true })
}

#[tokio::test]
async fn a_hook_that_fails_at_the_end_of_a_turn_asks_for_no_other_answer() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::command("bad", "exit 1");
    broken["on_failure"] = json!("closed");
    let again = hook::denying("again", "run the tests");
    let failure = "Hook bad failed: exit code 1".to_owned();
    let both = format!("{failure}\nrun the tests");
    let alone = vec![("AfterAgent", broken.clone())];
    let beside_denial = vec![("AfterAgent", broken), ("AfterAgent", again)];
    for (hooks, reason) in [(alone, failure), (beside_denial, both)] {
        let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;
        for protocol in ["gemini", "tabnine", "claude", "codex"] {
            let output = output(&gate, protocol, &turn_end(protocol)).await;

            let stop = json!({ "continue": false, "stopReason": reason });
            assert_eq!(output, stop, "{protocol}");
        }
    }
}

#[tokio::test]
async fn forks_that_continue_an_ended_turn_receive_no_stop() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::command("bad", "exit 1");
    broken["on_failure"] = json!("closed");
    let stop = json!({ "decision": "deny", "continue": false, "stopReason": "over" });
    let denial = json!({ "decision": "deny", "reason": "run the tests" });
    let failure = json!({ "stopReason": "Hook bad failed: exit code 1" });
    for (hook, expected) in [
        (broken, &failure),
        (
            hook::printing("stop", &stop),
            &json!({ "stopReason": "over" }),
        ),
        (hook::printing("again", &denial), &denial),
    ] {
        let config = hook::config(&[("AfterAgent", hook)]);
        let gate = TestGateway::start(&upstream, &config).await;
        for protocol in ["llxprt", "terminai"] {
            let output = output(&gate, protocol, &turn_end(protocol)).await;

            assert_eq!(&output, expected, "{protocol}");
        }
    }
}

#[tokio::test]
async fn a_gateway_that_cannot_be_reached_does_not_continue_a_turn() {
    let exit_code = async |protocol: &str, event: &Value| {
        let closed = ["--protocol", protocol, "--on-failure", "closed"];
        let output = forward("http://127.0.0.1:1", &closed, event).await;
        assert!(!output.stderr.is_empty(), "{event}");
        output.status.code()
    };
    let mut sub_agent = turn_end("claude");
    sub_agent["hook_event_name"] = json!("SubagentStop");

    assert_eq!(exit_code("claude", &sub_agent).await, Some(1));
    for protocol in ["gemini", "llxprt", "tabnine", "terminai", "claude", "codex"] {
        let code = exit_code(protocol, &turn_end(protocol)).await;
        assert_eq!(code, Some(1), "{protocol}");
    }
    assert_eq!(exit_code("gemini", &shell("ls")).await, Some(2));
    assert_eq!(exit_code("claude", &bash("ls")).await, Some(2));
}

#[tokio::test]
async fn hooks_see_the_mcp_server_of_a_reported_tool() {
    let upstream = Upstream::mock().await;
    let seen = |name| hook::command(name, &format!("cat > {name}.json"));
    let hooks = [("BeforeTool", seen("call")), ("AfterTool", seen("result"))];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;
    let github = json!({ "server_name": "github", "tool_name": "search_issues" });
    for protocol in ["claude", "codex"] {
        for (tool, context) in [
            ("mcp__github__search_issues", &github),
            ("Bash", &Value::Null),
        ] {
            let mut call = bash("ls");
            call["tool_name"] = json!(tool);

            output(&gate, protocol, &call).await;
            output(&gate, protocol, &ran(tool, &json!("ok"))).await;

            for file in ["call.json", "result.json"] {
                assert_eq!(
                    &gate.json(file)["mcp_context"],
                    context,
                    "{protocol}: {file}"
                );
            }
        }
    }
}

/// Output of `forward` for an agent with this hook protocol.
async fn output(gate: &TestGateway, protocol: &str, event: &Value) -> Value {
    let url = format!("http://{}", gate.agents);
    let output = forward(&url, &["--protocol", protocol], event).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bash(command: &str) -> Value {
    json!({
        "session_id": "laptop-2", "transcript_path": "/t.jsonl", "cwd": "/repo",
        "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": command }, "tool_use_id": "toolu_1",
    })
}

#[tokio::test]
async fn claude_code_and_codex_are_answered_in_their_own_form() {
    let gate = gate().await;
    for protocol in ["claude", "codex"] {
        let denied = json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "not that",
        }});
        assert_eq!(output(&gate, protocol, &bash("rm -rf /")).await, denied);
        assert_eq!(output(&gate, protocol, &bash("ls")).await, json!({}));
    }
}

#[tokio::test]
async fn an_output_has_only_fields_that_the_agent_supports() {
    let upstream = Upstream::mock().await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "command": "ls -l" } },
        "suppressOutput": true, "systemMessage": "edited" });
    let hooks = [
        ("BeforeTool", hook::printing("tool", &edit)),
        ("AfterTool", hook::denying("result", "hidden")),
        (
            "BeforeAgent",
            hook::printing(
                "prompt",
                &json!({ "continue": false, "stopReason": "over" }),
            ),
        ),
        ("AfterAgent", hook::denying("answer", "run the tests")),
    ];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;
    let updated = json!({ "command": "ls -l" });

    let claude = output(&gate, "claude", &bash("ls")).await;
    let specific = json!({ "hookEventName": "PreToolUse", "updatedInput": updated });
    assert_eq!(
        claude,
        json!({ "hookSpecificOutput": specific,
        "suppressOutput": true, "systemMessage": "edited" })
    );
    let codex = output(&gate, "codex", &bash("ls")).await;
    let specific = json!({ "hookEventName": "PreToolUse", "updatedInput": updated,
        "permissionDecision": "allow" });
    assert_eq!(
        codex,
        json!({ "hookSpecificOutput": specific, "systemMessage": "edited" })
    );

    let mut ran = bash("ls");
    ran["hook_event_name"] = json!("PostToolUse");
    ran["tool_response"] = json!({ "stdout": "a", "stderr": "b", "interrupted": false });
    let claude = output(&gate, "claude", &ran).await;
    let hidden = json!({ "stdout": "hidden", "stderr": "", "interrupted": false });
    assert_eq!(claude["hookSpecificOutput"]["updatedToolOutput"], hidden);
    assert_eq!(
        (&claude["decision"], &claude["reason"]),
        (&json!("block"), &json!("hidden"))
    );
    assert_eq!(
        gate.json("result.json")["tool_response"]["llmContent"],
        "a\nb"
    );
    ran["tool_response"] = json!("a");
    let codex = output(&gate, "codex", &ran).await;
    assert_eq!(codex, json!({ "decision": "block", "reason": "hidden" }));

    let prompt = json!({ "hook_event_name": "UserPromptSubmit", "prompt": "go" });
    let stopped = json!({ "continue": false, "stopReason": "over" });
    assert_eq!(output(&gate, "codex", &prompt).await, stopped);
    let stop = json!({ "hook_event_name": "Stop", "last_assistant_message": "done",
        "stop_hook_active": true });
    let blocked = json!({ "decision": "block", "reason": "run the tests" });
    assert_eq!(output(&gate, "claude", &stop).await, blocked);
    let answer = gate.json("answer.json");
    assert_eq!(answer["prompt_response"], "done");
    assert_eq!(answer["stop_hook_active"], true);
}

#[tokio::test]
async fn a_result_is_hidden_also_if_the_loop_ends() {
    let redact = "policies: [{ policy: redact, detect: [email] }]\n";
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let mut denial = stop.clone();
    denial["decision"] = json!("deny");
    denial["reason"] = json!("hidden");
    let mut ran = bash("ls");
    ran["hook_event_name"] = json!("PostToolUse");
    ran["tool_response"] = json!("ann@example.com");
    for (printed, shown) in [(stop, "[REDACTED:email]"), (denial, "hidden")] {
        let upstream = Upstream::mock().await;
        let hooks = hook::config(&[("AfterTool", hook::printing("end", &printed))]);
        let gate = TestGateway::start(&upstream, &format!("{redact}{hooks}")).await;
        let mut expected = json!({ "decision": "block", "reason": shown,
            "continue": false, "stopReason": "enough" });

        assert_eq!(output(&gate, "codex", &ran).await, expected);
        expected["hookSpecificOutput"] =
            json!({ "hookEventName": "PostToolUse", "updatedToolOutput": shown });
        assert_eq!(output(&gate, "claude", &ran).await, expected);
    }
}

/// Event of a tool that has run, with its result.
fn ran(tool: &str, result: &Value) -> Value {
    json!({ "session_id": "laptop-2", "hook_event_name": "PostToolUse", "tool_name": tool,
        "tool_input": {}, "tool_response": result })
}

#[tokio::test]
async fn all_that_a_model_may_read_of_a_result_is_shown_and_masked() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email, card] }]\n";
    let hook = hook::command("seen", "cat > seen.json");
    let config = format!("{config}{}", hook::config(&[("AfterTool", hook)]));
    let gate = TestGateway::start(&upstream, &config).await;
    let blocks = |text: &str| json!([{ "type": "text", "text": text }]);
    for (result, codex, claude) in [
        (
            json!({ "content": blocks("ok"), "structuredContent": { "to": "ann@example.com" } }),
            "ok\n{\"to\":\"[REDACTED:email]\"}",
            json!({ "content": blocks("ok\n{\"to\":\"[REDACTED:email]\"}") }),
        ),
        (
            json!({ "content": "ok", "note": "ann@example.com" }),
            "ok\n{\"note\":\"[REDACTED:email]\"}",
            json!({ "content": "ok", "note": "[REDACTED:email]" }),
        ),
        (
            json!([{ "type": "text", "text": "ok", "_meta": { "to": "ann@example.com" } }]),
            "ok\n{\"_meta\":{\"to\":\"[REDACTED:email]\"}}",
            json!([{ "type": "text", "text": "ok", "_meta": { "to": "[REDACTED:email]" } }]),
        ),
        (
            json!([{ "type": "text", "text": "ann@example.com", "annotations": { "priority": 1 } }]),
            "[REDACTED:email]",
            json!([{ "type": "text", "text": "[REDACTED:email]", "annotations": { "priority": 1 } }]),
        ),
        (
            json!({ "stdout": "ok", "stderr": "", "isImage": false, "n": 4_111_111_111_111_111_u64 }),
            "ok\n{\"n\":[REDACTED:card]}",
            json!({ "stdout": "ok\n{\"n\":[REDACTED:card]}", "stderr": "", "isImage": false,
                "n": 0 }),
        ),
        (
            json!({ "stdout": "ann@example.com", "stderr": "", "isImage": false, "n": 0 }),
            "[REDACTED:email]",
            json!({ "stdout": "[REDACTED:email]", "stderr": "", "isImage": false, "n": 0 }),
        ),
        (
            json!({ "own": ["ann@example.com"] }),
            "{\"own\":[\"[REDACTED:email]\"]}",
            json!({ "own": ["[REDACTED:email]"] }),
        ),
    ] {
        let event = ran("mcp__mail__read", &result);

        let output_of_codex = output(&gate, "codex", &event).await;
        let output_of_claude = output(&gate, "claude", &event).await;

        assert_eq!(output_of_codex["reason"], codex);
        let updated = &output_of_claude["hookSpecificOutput"]["updatedToolOutput"];
        assert_eq!(updated, &claude);
        let shown = gate.json("seen.json")["tool_response"]["llmContent"].clone();
        assert_eq!(shown, codex);
    }
}

#[tokio::test]
async fn a_masked_list_of_a_result_keeps_its_elements() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "source": { "type": "base64", "data": "aGk=" } });
    for result in [
        json!({ "result": [{ "id": 1, "to": "ann@example.com" }, { "id": 2 }] }),
        json!({ "content": ["to ann@example.com", "b"], "isError": false }),
        json!({ "content": [text("to ann@example.com\n\nand b"), image, text("c")] }),
        json!([text(""), image, text("ann@example.com")]),
        json!([{ "type": "text", "text": "a", "links": ["ann@example.com"] }, image]),
        json!({ "stdout": "a", "files": [{ "ann@example.com": 1 }], "other": "b" }),
    ] {
        let output = output(&gate, "claude", &ran("mcp__mail__read", &result)).await;

        let masked = result
            .to_string()
            .replace("ann@example.com", "[REDACTED:email]");
        let masked: Value = serde_json::from_str(&masked).unwrap();
        let updated = &output["hookSpecificOutput"]["updatedToolOutput"];
        assert_eq!(updated, &masked);
    }
}

#[tokio::test]
async fn a_secret_over_two_content_blocks_of_a_result_is_masked() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let blocks = |texts: [&str; 2]| {
        let blocks = texts.map(|text| json!({ "type": "text", "text": text }));
        json!({ "content": blocks })
    };
    let event = ran("mcp__mail__read", &blocks(["mail ann@exa", "mple.com now"]));

    let output_of_codex = output(&gate, "codex", &event).await;
    let output_of_claude = output(&gate, "claude", &event).await;

    assert_eq!(output_of_codex["reason"], "mail [REDACTED:email]\n now");
    let updated = &output_of_claude["hookSpecificOutput"]["updatedToolOutput"];
    assert_eq!(updated, &blocks(["mail [REDACTED:email]", " now"]));
    let config = "policies: [{ policy: redact, detect: [], patterns: { pw: 'password:\\s+[a-z0-9]{4,20}' } }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let event = ran("mcp__mail__read", &blocks(["password:", "hunter22"]));
    let hidden = output(&gate, "claude", &event).await;
    assert!(!hidden.to_string().contains("hunter22"), "{hidden}");
}

#[tokio::test]
async fn a_hidden_result_is_one_text() {
    let upstream = Upstream::mock().await;
    let deny = json!({ "decision": "deny", "reason": "hidden" });
    let hooks = hook::config(&[("AfterTool", hook::printing("deny", &deny))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let blocks = json!([{ "type": "text", "text": "a" }, { "type": "image", "data": "aGk=" }]);
    let event = ran("mcp__mail__read", &json!({ "content": blocks }));

    let output = output(&gate, "claude", &event).await;

    let updated = &output["hookSpecificOutput"]["updatedToolOutput"];
    let hidden = json!({ "content": [{ "type": "text", "text": "hidden" }] });
    assert_eq!(updated, &hidden);
}

#[tokio::test]
async fn a_masked_name_of_a_field_leaves_the_result() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email, card] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let number = 4_111_111_111_111_111_u64;
    for (result, claude) in [
        (
            json!({ "stdout": "a", "ann@example.com": "b", "note": "c" }),
            json!({ "stdout": "a\n{\"[REDACTED:email]\":\"b\",\"note\":\"c\"}", "note": "" }),
        ),
        (
            json!({ "stdout": "a", "sent": { "ann@example.com": number, "n": number } }),
            json!({
                "stdout": "a\n{\"sent\":{\"[REDACTED:email]\":[REDACTED:card],\"n\":[REDACTED:card]}}",
                "sent": { "n": 0 },
            }),
        ),
    ] {
        let output = output(&gate, "claude", &ran("mcp__mail__read", &result)).await;

        let updated = &output["hookSpecificOutput"]["updatedToolOutput"];
        assert_eq!(updated, &claude);
    }
}

#[tokio::test]
async fn a_masked_result_is_replaced_also_beside_added_context() {
    let upstream = Upstream::mock().await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "CTX" } });
    let hooks = hook::config(&[("AfterTool", hook::printing("context", &context))]);
    let config = format!("policies: [{{ policy: redact, detect: [email] }}]\n{hooks}");
    let gate = TestGateway::start(&upstream, &config).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "source": { "type": "base64", "data": "aGk=" } });
    for result in [
        json!({ "filenames": ["ann@example.com", "b"], "numFiles": 2 }),
        json!({ "stdout": "a", "stderr": "", "note": "ann@example.com" }),
        json!([text("to ann@example.com\nb\nc"), image, text("d")]),
    ] {
        let event = ran("Glob", &result);

        let output_of_claude = output(&gate, "claude", &event).await;
        let output_of_codex = output(&gate, "codex", &event).await;

        let masked = result
            .to_string()
            .replace("ann@example.com", "[REDACTED:email]");
        let masked: Value = serde_json::from_str(&masked).unwrap();
        let specific = &output_of_claude["hookSpecificOutput"];
        assert_eq!(specific["updatedToolOutput"], masked);
        for output in [output_of_claude, output_of_codex] {
            let reason = output["reason"].as_str().unwrap();
            assert!(reason.contains("[REDACTED:email]"), "{reason}");
            assert!(!reason.contains("CTX"), "{reason}");
            assert_eq!(output["hookSpecificOutput"]["additionalContext"], "CTX");
        }
    }
}

#[tokio::test]
async fn a_result_without_a_place_for_its_mask_loses_its_content() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email, card] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let number = 4_111_111_111_111_111_u64;
    for (result, reason, claude) in [
        (
            json!({ "ann@example.com": ["x"], "mode": "m" }),
            json!("{\"[REDACTED:email]\":[\"x\"],\"mode\":\"m\"}"),
            json!({ "mode": "m" }),
        ),
        (
            json!({ "filenames": ["x"], "card": number, "mode": "m", "numFiles": 1 }),
            json!("{\"filenames\":[\"x\"],\"card\":[REDACTED:card],\"mode\":\"m\",\"numFiles\":1}"),
            json!({ "filenames": [], "card": 0, "mode": "m", "numFiles": 1 }),
        ),
        (
            json!({ "card": number, "url": "ann@example.com" }),
            json!("{\"card\":[REDACTED:card],\"url\":\"[REDACTED:email]\"}"),
            json!({ "card": 0, "url": "" }),
        ),
        (
            json!({ "authors": { "ann@example.com": 3 }, "ann@example.com": true, "mode": "m" }),
            json!(
                "{\"authors\":{\"[REDACTED:email]\":3},\"[REDACTED:email]\":true,\"mode\":\"m\"}"
            ),
            json!({ "authors": {}, "mode": "m" }),
        ),
        (json!(number), json!("[REDACTED:card]"), json!(0)),
    ] {
        let output = output(&gate, "claude", &ran("Glob", &result)).await;

        let updated = &output["hookSpecificOutput"]["updatedToolOutput"];
        assert_eq!((updated, &output["reason"]), (&claude, &reason));
    }
}

#[tokio::test]
async fn a_result_without_a_text_is_hidden_and_the_text_is_the_reason() {
    let result = json!({ "filenames": ["a", "b"], "numFiles": 2, "mode": "m" });
    let denial = json!({ "decision": "deny", "reason": "hidden" });
    let edit = json!({ "hookSpecificOutput": { "updatedToolOutput": "hidden" } });
    for (protocol, event, printed) in [
        ("gemini", "AfterTool", denial),
        ("claude", "PostToolUse", edit),
    ] {
        let upstream = Upstream::mock().await;
        let group = json!({ "hooks": [hook::printing("guard", &printed)] });
        let settings = json!({ "hooks": { event: [group] } }).to_string();
        let file = json!({ "path": "settings.json", "protocol": protocol });
        let config = format!("hook_files: [{file}]\n");
        let files = [("settings.json", settings.as_str())];
        let gate = TestGateway::with_files(&upstream, &config, &files).await;

        let output = output(&gate, "claude", &ran("Glob", &result)).await;

        let hidden = json!({ "filenames": [], "numFiles": 2, "mode": "m" });
        let expected = json!({
            "decision": "block",
            "reason": "hidden",
            "hookSpecificOutput": { "updatedToolOutput": hidden, "hookEventName": "PostToolUse" },
        });
        assert_eq!(output, expected, "{protocol}");
    }
}

#[tokio::test]
async fn the_user_is_asked_about_the_edited_arguments() {
    let upstream = Upstream::mock().await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "command": "ls -l" } } });
    let ask = json!({ "decision": "ask", "reason": "check" });
    let hooks = [
        ("BeforeTool", hook::printing("edit", &edit)),
        ("BeforeTool", hook::printing("ask", &ask)),
    ];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;

    let claude = output(&gate, "claude", &bash("ls")).await;

    let asked = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "ask",
        "permissionDecisionReason": "check",
        "updatedInput": { "command": "ls -l" },
    }});
    assert_eq!(claude, asked);
    let codex = output(&gate, "codex", &bash("ls")).await;
    assert_eq!(codex["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(codex["hookSpecificOutput"].get("updatedInput"), None);
}

#[tokio::test]
async fn an_event_without_a_counterpart_is_a_failure() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);
    let event = json!({ "hook_event_name": "PermissionRequest", "tool_name": "Bash" });

    let open = forward(&url, &["--protocol", "claude"], &event).await;
    let closed = ["--protocol", "claude", "--on-failure", "closed"];
    let closed = forward(&url, &closed, &event).await;

    assert_eq!(
        (open.status.code(), closed.status.code()),
        (Some(1), Some(2))
    );
    let stderr = String::from_utf8(closed.stderr).unwrap();
    let expected = "`PermissionRequest` is not an event of Claude Code that a gateway has hooks \
         for; these are `PreToolUse`, `PostToolUse`, ";
    assert!(stderr.contains(expected), "{stderr}");
}

#[tokio::test]
async fn keywords_of_later_releases_of_an_agent_are_reported_as_known_ones() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("SessionStart", hook::command("seen", "cat > seen.json"))]);
    let gate = TestGateway::start(&upstream, &config).await;
    for (source, shown) in [("nap", "startup"), ("fork", "fork")] {
        let event = json!({ "hook_event_name": "SessionStart", "source": source });
        assert_eq!(output(&gate, "claude", &event).await, json!({}));
        assert_eq!(gate.json("seen.json")["source"], shown);
    }
}

/// The hooks of each settings file in `config/agents`, with its path.
fn hooks_of_agents() -> Vec<(String, Value)> {
    let files = fs::read_dir("config/agents").unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    let hooks = files.map(|path| {
        let settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path.display().to_string(), settings["hooks"].clone())
    });
    hooks.collect()
}

#[test]
fn settings_files_for_agents_have_valid_forward_commands() {
    let files = hooks_of_agents();
    assert_eq!(files.len(), 6);
    for (path, hooks) in files {
        let hooks = hooks.as_object().unwrap();
        let tool = ["BeforeTool", "PreToolUse"].map(|event| hooks.contains_key(event));
        assert!(tool.contains(&true), "{path}");
        for group in hooks.values().flat_map(|groups| groups.as_array().unwrap()) {
            let command = group["hooks"][0]["command"].as_str().unwrap();
            let words: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
            let (code, ..) = run(&words, Path::new("."));
            assert_eq!(code, 0, "{command}");
        }
    }
}

#[test]
fn forward_waits_longer_than_a_hook_and_shorter_than_the_agent() {
    let (_, help, _) = run(&["forward", "--help"], Path::new("."));
    let (_, help) = help.split_once("--timeout <MS>").unwrap();
    let (_, default) = help.split_once("[default: ").unwrap();
    let (default, _) = default.split_once(']').unwrap();
    let forward: u64 = default.parse().unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../config/schema.json")).unwrap();
    let hook = &schema["$defs"]["HookDefaults"]["properties"]["timeout"]["default"];

    assert!(hook.as_u64().unwrap() < forward);
    for (path, hooks) in hooks_of_agents() {
        for (event, groups) in hooks.as_object().unwrap() {
            // The gateway responds to this event before its hooks have run.
            if event == "SessionEnd" {
                continue;
            }
            let hook = &groups[0]["hooks"][0];
            let timeout = hook["timeout"].as_u64().unwrap();
            // Claude Code and Codex count seconds, gemini-cli and its forks milliseconds.
            let command = hook["command"].as_str().unwrap();
            let in_seconds = ["--protocol claude", "--protocol codex"];
            let unit = if in_seconds.iter().any(|form| command.contains(form)) {
                1000
            } else {
                1
            };
            assert!(forward < timeout * unit, "{path}: {event}");
        }
    }
}

#[tokio::test]
async fn forward_authenticates_with_the_key_in_a_file() {
    let upstream = Upstream::mock().await;
    let sha256 = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"; // of `k`
    let config = format!("auth: {{ keys: [{{ name: laptop, sha256: {sha256} }}] }}");
    let files = [("key", "k\n"), ("empty", "\n")];
    let gate = TestGateway::with_files(&upstream, &config, &files).await;
    let url = format!("http://{}", gate.agents);
    let exit_code_with = async |file: &str| {
        let file = gate.path(file).display().to_string();
        let more = ["--key-file", &file];
        forward(&url, &more, &shell("ls")).await.status.code()
    };

    assert_eq!(exit_code_with("key").await, Some(0));
    for wrong in ["empty", "missing"] {
        assert_eq!(exit_code_with(wrong).await, Some(1), "{wrong}");
    }
    let without = forward(&url, &["--on-failure", "closed"], &shell("ls")).await;
    assert_eq!(without.status.code(), Some(2));
    let stderr = String::from_utf8(without.stderr).unwrap();
    let cause = "hookgate: the gateway responded with 401 Unauthorized: missing credentials: ";
    let hint = "; `--key-file` names a file with the caller's key\n";
    let is_text = stderr.starts_with(cause) && stderr.ends_with(hint);
    assert!(is_text && !stderr.contains('{'), "{stderr}");
}

/// The exit code of `forward` with these arguments. A denial is a block for the agent.
fn refused(arguments: &[&str], configure: impl FnOnce(&mut Command)) -> Option<i32> {
    let mut command = hookgate(&["forward"]);
    command.args(arguments);
    command.stdin(Stdio::null());
    configure(&mut command);
    let output = command.output().unwrap();
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    assert!(!output.stderr.is_empty(), "{arguments:?}: {output:?}");
    output.status.code()
}

#[test]
fn refused_arguments_fail_by_failure_mode() {
    for wrong in [
        &["--url", "hookgate.example"][..],
        &["--url", "http://a b"],
        &["--url=ftp://a.example"],
        &["--timeout", "soon"],
        &["--protocol", "other"],
        &["--no-such-option"],
        &["--key-file"],
        &["an-argument"],
    ] {
        let with = |mode: &[&str]| refused(&[mode, wrong].concat(), |_| ());

        assert_eq!(with(&[]), Some(1), "{wrong:?}");
        assert_eq!(with(&["--on-failure", "open"]), Some(1), "{wrong:?}");
        assert_eq!(with(&["--on-failure", "closed"]), Some(2), "{wrong:?}");
        assert_eq!(with(&["--on-failure=closed"]), Some(2), "{wrong:?}");
    }
    // Such as a misspelled `closed`.
    for unknown in [
        &["--on-failure", "close"][..],
        &["--on-failure="],
        &["--on-failure"],
    ] {
        assert_eq!(refused(unknown, |_| ()), Some(2), "{unknown:?}");
    }
}

#[test]
fn input_and_certificates_that_cannot_be_read_fail_by_failure_mode() {
    let folder = fs::File::open("/").unwrap();
    let unreadable = |mode: &[&str]| {
        let stdin = folder.try_clone().unwrap();
        refused(mode, |command| {
            command.stdin(stdin);
        })
    };
    assert_eq!(unreadable(&[]), Some(1));
    assert_eq!(unreadable(&["--on-failure", "closed"]), Some(2));

    let without_authorities = |mode: &[&str]| {
        refused(
            &[&["--url", "https://127.0.0.1:1"], mode].concat(),
            |command| {
                command.env("SSL_CERT_FILE", "/nowhere/ca.pem");
            },
        )
    };
    assert_eq!(without_authorities(&[]), Some(1));
    assert_eq!(without_authorities(&["--on-failure", "closed"]), Some(2));
}
