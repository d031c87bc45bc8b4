//! Public complaints about hooks of Claude Code, Codex and opencode, each as it was
//! filed, and not so behind hookgate. `docs/agents/complaints.md` lists them.

use serde_json::{Value, json};

use super::{
    answered, asking, calling, gate, on, permission, printing, result, told, user, with_result,
};
use crate::harness::{TestGateway, Upstream};

/// Whether a call of a tool reaches an agent behind a gateway with these hooks.
async fn passes(protocol: &str, hooks: &Value, tool: &str, args: &Value) -> bool {
    let upstream = calling(tool, args).await;
    let gate = gate(&upstream, protocol, hooks).await;
    reaches(&gate, tool).await
}

async fn reaches(gate: &TestGateway, tool: &str) -> bool {
    let parts = answered(&gate.agent(), &asking(tool, &json!([user("go")]))).await;
    parts[0].get("functionCall").is_some()
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/4669>.
#[tokio::test]
async fn a_deny_at_the_top_level_is_no_allow() {
    let output = json!({ "permissionDecision": "deny", "permissionDecisionReason": "no" });
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &printing(&output)) });
    assert!(!passes("claude", &hooks, "Bash", &json!({ "command": "ls -la" })).await);
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/37210>.
#[tokio::test]
async fn a_deny_of_an_edit_holds() {
    let output = json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "Blocked by policy" });
    let command = format!("{}; exit 2", printing(&output));
    let hooks = json!({ "PreToolUse": on("", "seen", &command) });
    let args =
        json!({ "file_path": "/p/.claude/settings.json", "old_string": "a", "new_string": "b" });
    assert!(!passes("claude", &hooks, "Edit", &args).await);
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/46537>.
#[tokio::test]
async fn a_permission_of_block_is_a_deny() {
    let hooks = json!({ "PreToolUse": on("Agent", "seen", &printing(&permission("block", "no"))) });
    assert!(!passes("claude", &hooks, "Agent", &json!({ "prompt": "explore" })).await);
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/43407>.
#[tokio::test]
async fn exit_2_beside_json_denies() {
    let command = format!(
        "echo 'checkout blocked' >&2; {}; exit 2",
        printing(&permission("deny", "no"))
    );
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &command) });
    let args = json!({ "command": "git checkout main" });
    assert!(!passes("claude", &hooks, "Bash", &args).await);
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/33106>, whose hook prints a
/// line of text before its JSON. With `on_failure: closed` that denies.
#[tokio::test]
async fn a_deny_of_an_mcp_tool_holds() {
    let deny = printing(&permission("deny", "no"));
    let hooks = json!({ "PreToolUse": on("mcp__my_server__my_tool", "seen", &deny) });
    assert!(!passes("claude", &hooks, "mcp__my_server__my_tool", &json!({})).await);
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/39344>.
#[tokio::test]
async fn an_ask_never_loosens_a_deny() {
    let mut groups = on("Bash", "ask", &printing(&permission("ask", "sure?")));
    let deny = on("Bash", "deny", &printing(&permission("deny", "no")));
    groups
        .as_array_mut()
        .unwrap()
        .extend(deny.as_array().unwrap().clone());
    let upstream = calling("Bash", &json!({ "command": "printf REPRO42" })).await;
    let settings = json!({ "hooks": { "PreToolUse": groups } }).to_string();
    let config = "ask: allow\nhook_files: [{ path: settings.json, protocol: claude }]\n";
    let gate = TestGateway::with_files(&upstream, config, &[("settings.json", &settings)]).await;
    assert!(!reaches(&gate, "Bash").await);
}

/// Complaints about headless runs: <https://github.com/anthropics/claude-code/issues/40506>,
/// <https://github.com/anthropics/claude-code/issues/36071>,
/// <https://github.com/openai/codex/issues/26452>. A gateway cannot tell a headless run from
/// another one, so hooks run in both, before the tool does.
#[tokio::test]
async fn hooks_run_however_the_agent_was_started() {
    for user_agent in [
        "claude-cli/2.1.330 (external, sdk-cli)",
        "codex_exec/0.169.0",
    ] {
        let upstream = calling("Bash", &json!({ "command": "echo hello" })).await;
        let command = format!("{}; exit 2", printing(&permission("block", "no")));
        let hooks = json!({ "PreToolUse": on("Bash", "seen", &command) });
        let gate = gate(&upstream, "claude", &hooks).await;
        let agent = gate.agent().sending("user-agent", user_agent);

        let parts = answered(&agent, &asking("Bash", &json!([user("go")]))).await;

        assert_eq!(parts, json!([{ "text": "done" }]), "{user_agent}");
        assert!(!gate.file("seen.json").is_empty(), "{user_agent}");
    }
}

/// Complaints about sub-agents: <https://github.com/anthropics/claude-code/issues/40580>,
/// <https://github.com/anthropics/claude-code/issues/69260>,
/// <https://github.com/anthropics/claude-code/issues/88441>,
/// <https://github.com/anomalyco/opencode/issues/5894>.
#[tokio::test]
async fn hooks_run_in_sub_agents() {
    let upstream = calling("Read", &json!({ "file_path": "/p/file.ts" })).await;
    let hooks = json!({ "PreToolUse": on("Grep|Glob|Read", "seen", "echo blocked >&2; exit 2") });
    let gate = gate(&upstream, "claude", &hooks).await;
    let agent = gate.agent().sending("x-claude-code-agent-id", "agent-1");

    let parts = answered(&agent, &asking("Read", &json!([user("read it")]))).await;

    assert_eq!(parts, json!([{ "text": "done" }]));
    assert_eq!(gate.json("seen.json")["agent_id"], "agent-1");
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/56151>.
#[tokio::test]
async fn starting_a_sub_agent_is_a_tool_call() {
    let hooks = json!({ "PreToolUse": on("Agent", "seen", "exit 2") });
    for tool in ["Agent", "Task", "spawn_agent", "task"] {
        let args = json!({ "prompt": "explore" });
        assert!(!passes("claude", &hooks, tool, &args).await, "{tool}");
    }
}

/// Complaints about results: <https://github.com/anthropics/claude-code/issues/54196>,
/// <https://github.com/anthropics/claude-code/issues/67442>,
/// <https://github.com/anthropics/claude-code/issues/68951>.
#[tokio::test]
async fn an_updated_output_replaces_results_of_built_in_tools() {
    for tool in ["Bash", "WebFetch", "Read", "run_shell_command"] {
        let upstream = Upstream::mock().await;
        let command = printing(&result(&json!("[redacted]")));
        let hooks = json!({ "PostToolUse": on("Bash|Read|Grep|WebFetch|Glob", "seen", &command) });
        let gate = gate(&upstream, "claude", &hooks).await;
        let contents = with_result(tool, &json!({ "command": "echo PROBE_MARKER" }), "secret");

        answered(&gate.agent(), &asking(tool, &contents)).await;

        assert_eq!(told(&upstream), json!({ "output": "[redacted]" }), "{tool}");
        assert!(!upstream.only().body.contains("secret"), "{tool}");
    }
}

/// Complaint: <https://github.com/anthropics/claude-code/issues/77180>.
#[tokio::test]
async fn an_updated_output_replaces_the_result_of_a_tool_that_failed() {
    let upstream = Upstream::mock().await;
    let command = printing(&result(&json!("[redacted]")));
    let hooks = json!({ "PostToolUse": on("Bash", "seen", &command) });
    let gate = gate(&upstream, "claude", &hooks).await;
    let mut contents = with_result("Bash", &json!({ "command": "x" }), "");
    contents[2]["parts"][0]["functionResponse"]["response"] = json!({ "error": "secret" });

    answered(&gate.agent(), &asking("Bash", &contents)).await;

    assert!(!upstream.only().body.contains("secret"));
}

/// Complaints about the patch tool of Codex: <https://github.com/openai/codex/issues/16732>,
/// <https://github.com/openai/codex/issues/26733>,
/// <https://github.com/openai/codex/issues/26751>,
/// <https://github.com/openai/codex/issues/27833>.
#[tokio::test]
async fn a_patch_is_hooked_and_a_deny_of_it_holds() {
    let args = json!({ "input": "*** Begin Patch\n*** Add File: test.txt\n+TEST\n*** End Patch" });
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
            assert!(
                !passes("codex", &hooks, "apply_patch", &args).await,
                "{matcher}"
            );
        }
    }
}

/// Complaint: <https://github.com/openai/codex/issues/46372>. Input for a command that runs
/// is a tool call of its own.
#[tokio::test]
async fn input_for_a_running_command_is_hooked() {
    let hooks = json!({ "PreToolUse": on("Bash|write_stdin", "seen", "exit 2") });
    let args = json!({ "session_id": 1, "chars": "rm -rf /\n" });
    assert!(!passes("codex", &hooks, "write_stdin", &args).await);
}

/// Complaint: <https://github.com/openai/codex/issues/18607>.
#[tokio::test]
async fn all_events_of_a_turn_have_their_hooks() {
    let upstream = calling("exec_command", &json!({ "cmd": "ls" })).await;
    let hooks = json!({
        "SessionStart": on("", "start", "exit 0"),
        "UserPromptSubmit": on("", "prompt", "exit 0"),
        "PreToolUse": on("Bash", "before", "exit 0"),
        "PostToolUse": on("Bash", "after", "exit 0"),
        "Stop": on("", "stop", "exit 0"),
    });
    let gate = gate(&upstream, "codex", &hooks).await;
    let agent = gate.agent();

    answered(&agent, &asking("exec_command", &json!([user("go on")]))).await;
    let contents = with_result("exec_command", &json!({ "cmd": "ls" }), "a b");
    answered(&agent, &asking("exec_command", &contents)).await;

    for name in ["start", "prompt", "before", "after", "stop"] {
        assert!(!gate.file(&format!("{name}.json")).is_empty(), "{name}");
    }
}
