//! Public issues about hooks of Claude Code, Codex and opencode that do not occur behind
//! hookgate, on every API. `docs/agents/complaints.md` lists them.

use serde_json::{Value, json};

use super::{on, permission, printing, result};
use crate::families::family::{Family, ParsedAnswer, Part, Turn, each};
use crate::harness::{TestGateway, Upstream};

/// APIs whose tool results cannot be marked as failed.
const WITHOUT_FAILED_RESULTS: [(Family, &str); 2] = [
    (Family::Responses, "`output` is all that a result has"),
    (Family::Chat, "`content` is all that a result has"),
];

/// Gateway of an API with one settings file, whose hooks use this protocol.
async fn gate(family: Family, upstream: &Upstream, protocol: &str, hooks: &Value) -> TestGateway {
    let settings = json!({ "hooks": hooks }).to_string();
    let file = json!({ "path": "settings.json", "protocol": protocol });
    let config = format!("hook_files: [{file}]\n");
    let files = [("settings.json", &*settings)];
    family.gateway_with_files(upstream, &config, &files).await
}

/// Upstream that first calls a tool, and then answers with text.
async fn upstream_calling(family: Family, call: &Part) -> Upstream {
    let answers = vec![vec![call.clone()], vec![Part::text(&["done"])]];
    family.upstream(answers).await
}

fn name(call: &Part) -> &str {
    match call {
        Part::Call(name, _) | Part::FreeText(name, _) => name,
        Part::Text(_) | Part::Thought(_) => panic!("not a call: {call:?}"),
    }
}

/// Sends a prompt with this tool, and returns the answer as the agent parses it.
async fn send_prompt(
    family: Family,
    is_stream: bool,
    gate: &TestGateway,
    tool: &str,
) -> ParsedAnswer {
    let body = family.request_with_tools(is_stream, &[tool], &[Turn::User("go on")]);
    let answer = family.post(gate, is_stream, body.to_string()).await;
    family.parse(is_stream, &answer)
}

/// Asserts that the model's call was denied, and that the agent got the model's next answer.
#[track_caller]
fn assert_denied(answer: &ParsedAnswer, context: &str) {
    assert_eq!(answer.calls, [], "{context}");
    assert!(!answer.wants_tools, "{context}");
    assert!(answer.text.ends_with("done"), "{context}: {answer:?}");
}

/// Asserts that hooks deny a call of the model on every API, in JSON answers and in streams.
async fn assert_denied_on_every_api(protocol: &str, hooks: &Value, call: &Part) {
    for (family, is_stream) in each() {
        let upstream = upstream_calling(family, call).await;
        let gate = gate(family, &upstream, protocol, hooks).await;

        let answer = send_prompt(family, is_stream, &gate, name(call)).await;

        assert_denied(&answer, &format!("{family:?} {hooks} {call:?}"));
        assert_eq!(upstream.requests().len(), 2, "{family:?}");
    }
}

fn patch() -> Part {
    let text = "*** Begin Patch\n*** Add File: test.txt\n+TEST\n*** End Patch";
    Part::FreeText("apply_patch".to_owned(), text.to_owned())
}

/// Without a denial the calls of the other tests reach the agent.
#[tokio::test]
async fn calls_that_a_hook_allows_reach_the_agent() {
    let hooks = json!({ "PreToolUse": on("", "seen", "exit 0") });
    for call in [Part::call("Bash", "ls -la"), patch()] {
        for (family, is_stream) in each() {
            let upstream = upstream_calling(family, &call).await;
            let gate = gate(family, &upstream, "claude", &hooks).await;

            let answer = send_prompt(family, is_stream, &gate, name(&call)).await;

            assert_eq!(answer.calls.len(), 1, "{family:?}");
            assert_eq!(answer.calls[0].0, name(&call), "{family:?}");
            assert!(!gate.file("seen.json").is_empty(), "{family:?}");
        }
    }
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/4669>.
#[tokio::test]
async fn a_deny_at_the_top_level_of_the_output_denies_the_call() {
    let output = json!({ "permissionDecision": "deny", "permissionDecisionReason": "no" });
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &printing(&output)) });
    let call = Part::call_with("Bash", &json!({ "command": "ls -la" }));
    assert_denied_on_every_api("claude", &hooks, &call).await;
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/37210>.
#[tokio::test]
async fn a_denied_edit_never_reaches_the_agent() {
    let output = json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "Blocked by policy" });
    let command = format!("{}; exit 2", printing(&output));
    let hooks = json!({ "PreToolUse": on("", "seen", &command) });
    let args =
        json!({ "file_path": "/p/.claude/settings.json", "old_string": "a", "new_string": "b" });
    assert_denied_on_every_api("claude", &hooks, &Part::call_with("Edit", &args)).await;
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/46537>.
#[tokio::test]
async fn a_permission_decision_of_block_denies_the_call() {
    let hooks = json!({ "PreToolUse": on("Agent", "seen", &printing(&permission("block", "no"))) });
    let call = Part::call_with("Agent", &json!({ "prompt": "explore" }));
    assert_denied_on_every_api("claude", &hooks, &call).await;
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/43407>.
#[tokio::test]
async fn exit_code_2_with_json_output_denies_the_call() {
    let command = format!(
        "echo 'checkout blocked' >&2; {}; exit 2",
        printing(&permission("deny", "no"))
    );
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &command) });
    let call = Part::call_with("Bash", &json!({ "command": "git checkout main" }));
    assert_denied_on_every_api("claude", &hooks, &call).await;
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/33106>. A line of text before
/// the JSON makes the output plain text, so such a hook must deny by exit 2.
#[tokio::test]
async fn a_denied_mcp_tool_call_never_reaches_the_agent() {
    let deny = printing(&permission("deny", "no"));
    let call = Part::call_with("mcp__my_server__my_tool", &json!({}));
    for command in [deny.clone(), format!("echo 'checking it'; {deny}; exit 2")] {
        let hooks = json!({ "PreToolUse": on("mcp__my_server__my_tool", "seen", &command) });
        assert_denied_on_every_api("claude", &hooks, &call).await;
    }
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/39344>.
#[tokio::test]
async fn an_ask_never_overrides_a_deny() {
    let mut groups = on("Bash", "ask", &printing(&permission("ask", "sure?")));
    let deny = on("Bash", "deny", &printing(&permission("deny", "no")));
    groups
        .as_array_mut()
        .unwrap()
        .extend(deny.as_array().unwrap().clone());
    let settings = json!({ "hooks": { "PreToolUse": groups } }).to_string();
    let config = "ask: allow\nhook_files: [{ path: settings.json, protocol: claude }]\n";
    let files = [("settings.json", &*settings)];
    for (family, is_stream) in each() {
        let call = Part::call_with("Bash", &json!({ "command": "printf REPRO42" }));
        let upstream = upstream_calling(family, &call).await;
        let gate = family.gateway_with_files(&upstream, config, &files).await;

        let answer = send_prompt(family, is_stream, &gate, "Bash").await;

        assert_denied(&answer, &format!("{family:?}"));
    }
}

/// Issues about headless runs: <https://github.com/anthropics/claude-code/issues/40506>,
/// <https://github.com/anthropics/claude-code/issues/36071>,
/// <https://github.com/openai/codex/issues/26452>. A gateway cannot distinguish headless runs
/// from others, so hooks run in both, before the tool does.
#[tokio::test]
async fn hooks_run_for_headless_agents() {
    let command = format!("{}; exit 2", printing(&permission("block", "no")));
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &command) });
    for user_agent in [
        "claude-cli/2.1.330 (external, sdk-cli)",
        "codex_exec/0.169.0",
    ] {
        for (family, is_stream) in each() {
            let call = Part::call_with("Bash", &json!({ "command": "echo hello" }));
            let upstream = upstream_calling(family, &call).await;
            let gate = gate(family, &upstream, "claude", &hooks).await;
            let body = family.request_with_tools(is_stream, &["Bash"], &[Turn::User("go on")]);
            let header = [("user-agent", user_agent)];

            let answer = family
                .post_with(&gate, is_stream, body.to_string(), &header)
                .await;

            let context = format!("{family:?} {user_agent}");
            assert_denied(&family.parse(is_stream, &answer), &context);
            assert!(!gate.file("seen.json").is_empty(), "{context}");
        }
    }
}

/// Issues about sub-agents: <https://github.com/anthropics/claude-code/issues/40580>,
/// <https://github.com/anthropics/claude-code/issues/69260>,
/// <https://github.com/anthropics/claude-code/issues/88441>,
/// <https://github.com/anomalyco/opencode/issues/5894>.
#[tokio::test]
async fn hooks_run_in_sub_agents() {
    let hooks = json!({ "PreToolUse": on("Grep|Glob|Read", "seen", "echo blocked >&2; exit 2") });
    for (family, is_stream) in each() {
        let call = Part::call_with("Read", &json!({ "file_path": "/p/file.ts" }));
        let upstream = upstream_calling(family, &call).await;
        let gate = gate(family, &upstream, "claude", &hooks).await;
        let body = family.request_with_tools(is_stream, &["Read"], &[Turn::User("read it")]);
        let header = [("x-claude-code-agent-id", "agent-1")];

        let answer = family
            .post_with(&gate, is_stream, body.to_string(), &header)
            .await;

        assert_denied(&family.parse(is_stream, &answer), &format!("{family:?}"));
        assert_eq!(gate.json("seen.json")["agent_id"], "agent-1", "{family:?}");
    }
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/56151>.
#[tokio::test]
async fn starting_a_sub_agent_is_a_tool_call() {
    let hooks = json!({ "PreToolUse": on("Agent", "seen", "exit 2") });
    for tool in ["Agent", "Task", "spawn_agent", "task"] {
        let call = Part::call_with(tool, &json!({ "prompt": "explore" }));
        assert_denied_on_every_api("claude", &hooks, &call).await;
    }
}

/// Issues about results: <https://github.com/anthropics/claude-code/issues/54196>,
/// <https://github.com/anthropics/claude-code/issues/67442>,
/// <https://github.com/anthropics/claude-code/issues/68951>.
#[tokio::test]
async fn an_updated_output_replaces_results_of_built_in_tools() {
    let command = printing(&result(&json!("[redacted]")));
    let hooks = json!({ "PostToolUse": on("Bash|Read|Grep|WebFetch|Glob", "seen", &command) });
    for tool in ["Bash", "WebFetch", "Read", "run_shell_command"] {
        for (family, is_stream) in each() {
            let upstream = family.upstream(vec![vec![Part::text(&["done"])]]).await;
            let gate = gate(family, &upstream, "claude", &hooks).await;
            let request_with_output = |output| {
                let call = Turn::Call(tool, "echo PROBE_MARKER");
                let turns = [Turn::User("go on"), call, Turn::Result(tool, output)];
                family.request_with_tools(is_stream, &[tool], &turns)
            };

            let answer = family
                .post(&gate, is_stream, request_with_output("secret").to_string())
                .await;

            assert_eq!(family.parse(is_stream, &answer).text, "done", "{family:?}");
            let expected = request_with_output("[redacted]");
            assert_eq!(
                upstream.only_request().json(),
                expected,
                "{family:?} {tool}"
            );
        }
    }
}

/// Issue of Claude Code: <https://github.com/anthropics/claude-code/issues/77180>.
#[tokio::test]
async fn an_updated_output_replaces_the_result_of_a_tool_that_failed() {
    let command = printing(&result(&json!("[redacted]")));
    let hooks = json!({ "PostToolUse": on("Bash", "seen", &command) });
    let without = WITHOUT_FAILED_RESULTS.map(|(family, _)| family);
    for (family, is_stream) in each().filter(|(family, _)| !without.contains(family)) {
        let upstream = family.upstream(vec![vec![Part::text(&["done"])]]).await;
        let gate = gate(family, &upstream, "claude", &hooks).await;
        let turns = [
            Turn::User("go on"),
            Turn::Call("Bash", "x"),
            Turn::Result("Bash", "secret"),
        ];
        let mut body = family.request_with_tools(is_stream, &["Bash"], &turns);
        if family == Family::Gemini {
            let response = json!({ "error": "secret" });
            body["contents"][2]["parts"][0]["functionResponse"]["response"] = response;
        } else {
            body["messages"][2]["content"][0]["is_error"] = true.into();
        }

        family.post(&gate, is_stream, body.to_string()).await;

        let request = upstream.only_request().body;
        assert!(!request.contains("secret"), "{family:?}: {request}");
        assert!(request.contains("[redacted]"), "{family:?}: {request}");
    }
}

/// Issues about the patch tool of Codex: <https://github.com/openai/codex/issues/16732>,
/// <https://github.com/openai/codex/issues/26733>,
/// <https://github.com/openai/codex/issues/26751>,
/// <https://github.com/openai/codex/issues/27833>.
#[tokio::test]
async fn a_denied_patch_never_reaches_the_agent_under_any_matcher() {
    for matcher in [
        "Write",
        "Edit",
        "apply_patch|Edit|Write",
        "^apply_patch$",
        "",
    ] {
        for command in [
            "echo no >&2; exit 2".to_owned(),
            printing(&permission("deny", "no")),
        ] {
            let hooks = json!({ "PreToolUse": on(matcher, "seen", &command) });
            assert_denied_on_every_api("codex", &hooks, &patch()).await;
        }
    }
}

/// Issue of Codex: <https://github.com/openai/codex/issues/46372>. Input for a running
/// command is a tool call of its own.
#[tokio::test]
async fn input_for_a_running_command_is_hooked() {
    let hooks = json!({ "PreToolUse": on("Bash|write_stdin", "seen", "exit 2") });
    let args = json!({ "session_id": 1, "chars": "rm -rf /\n" });
    assert_denied_on_every_api("codex", &hooks, &Part::call_with("write_stdin", &args)).await;
}

/// Issue of Codex: <https://github.com/openai/codex/issues/18607>.
#[tokio::test]
async fn hooks_run_on_all_events_of_a_turn() {
    let tool = "exec_command";
    let hooks = json!({
        "SessionStart": on("", "start", "exit 0"),
        "UserPromptSubmit": on("", "prompt", "exit 0"),
        "PreToolUse": on("Bash", "before", "exit 0"),
        "PostToolUse": on("Bash", "after", "exit 0"),
        "Stop": on("", "stop", "exit 0"),
    });
    for (family, is_stream) in each() {
        let upstream = upstream_calling(family, &Part::call(tool, "ls")).await;
        let gate = gate(family, &upstream, "codex", &hooks).await;
        let turns = [
            Turn::User("go on"),
            Turn::Call(tool, "ls"),
            Turn::Result(tool, "a b"),
        ];

        for turns in [&turns[..1], &turns[..]] {
            let body = family.request_with_tools(is_stream, &[tool], turns);
            let answer = family.post(&gate, is_stream, body.to_string()).await;
            family.parse(is_stream, &answer);
        }

        for name in ["start", "prompt", "before", "after", "stop"] {
            let seen = gate.file(&format!("{name}.json"));
            assert!(!seen.is_empty(), "{family:?} {name}");
        }
    }
}
