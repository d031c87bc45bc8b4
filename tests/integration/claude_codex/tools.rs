//! Hooks of one agent's protocol on the tools of other agents.

use serde_json::{Value, json};

use super::{
    answer_parts, gate, gate_with, on, permission, printing, request_with_tool, upstream_calling,
    user,
};
use crate::harness::{TestGateway, hook};

/// Sends a prompt with one tool, and returns the parts of the answer.
async fn send_prompt(gate: &TestGateway, tool: &str) -> Value {
    let body = request_with_tool(tool, &json!([user("go")]));
    answer_parts(&gate.agent(), &body).await
}

#[tokio::test]
async fn a_hook_for_bash_runs_for_the_shell_of_every_agent() {
    for (wire, args, shown) in [
        (
            "Bash",
            json!({ "command": "ls" }),
            json!({ "command": "ls" }),
        ),
        (
            "run_shell_command",
            json!({ "command": "ls" }),
            json!({ "command": "ls" }),
        ),
        (
            "exec_command",
            json!({ "cmd": "ls" }),
            json!({ "cmd": "ls", "command": "ls" }),
        ),
        (
            "shell",
            json!({ "command": ["bash", "-lc", "ls"] }),
            json!({ "command": "ls" }),
        ),
        (
            "bash",
            json!({ "command": "ls" }),
            json!({ "command": "ls" }),
        ),
    ] {
        for protocol in ["claude", "codex"] {
            let upstream = upstream_calling(wire, &args).await;
            let deny = printing(&permission("deny", "no shell"));
            let hooks = json!({ "PreToolUse": on("Bash", "seen", &deny) });
            let gate = gate(&upstream, protocol, &hooks).await;

            let parts = send_prompt(&gate, wire).await;

            assert_eq!(parts, json!([{ "text": "done" }]), "{wire} {protocol}");
            let seen = gate.json("seen.json");
            assert_eq!(seen["tool_name"], "Bash", "{wire}");
            assert_eq!(seen["tool_input"], shown, "{wire}");
        }
    }
}

#[tokio::test]
async fn edited_arguments_have_the_names_of_the_agents_own_tool() {
    let upstream = upstream_calling("exec_command", &json!({ "cmd": "ls", "workdir": "/a" })).await;
    let edit = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": { "command": "ls -l", "workdir": "/b" },
    }});
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &printing(&edit)) });
    let gate = gate(&upstream, "claude", &hooks).await;

    let parts = send_prompt(&gate, "exec_command").await;

    let args = &parts[0]["functionCall"]["args"];
    assert_eq!(args, &json!({ "workdir": "/b", "cmd": "ls -l" }));
}

#[tokio::test]
async fn a_hook_of_gemini_cli_runs_for_the_tools_of_claude_code_and_codex() {
    for (wire, matcher, shown) in [
        ("Bash", "run_shell_command", "run_shell_command"),
        ("Write", "write_file|replace", "write_file"),
        ("apply_patch", "write_file|replace", "replace"),
        ("Read", "^read_file$", "read_file"),
        // A matcher for the wire name.
        ("Bash", "Bash", "Bash"),
    ] {
        let upstream = upstream_calling(wire, &json!({ "x": 1 })).await;
        let group = json!({ "matcher": matcher, "hooks": [hook::denying("seen", "no")] });
        let config = format!("hooks: {}", json!({ "BeforeTool": [group] }));
        let gate = TestGateway::start(&upstream, &config).await;

        let parts = send_prompt(&gate, wire).await;

        assert_eq!(parts, json!([{ "text": "done" }]), "{wire} {matcher}");
        assert_eq!(
            gate.json("seen.json")["tool_name"],
            shown,
            "{wire} {matcher}"
        );
    }
}

#[tokio::test]
async fn mcp_tools_have_the_names_of_the_protocol() {
    let upstream = upstream_calling("mcp_github_search", &json!({})).await;
    let hooks = json!({ "PreToolUse": on("mcp__github__.*", "seen", "exit 2") });
    let gate = gate(&upstream, "claude", &hooks).await;

    send_prompt(&gate, "mcp_github_search").await;

    assert_eq!(gate.json("seen.json")["tool_name"], "mcp__github__search");
}

#[tokio::test]
async fn a_hook_of_gemini_clis_family_matches_both_names_of_an_mcp_tool() {
    for (wire, matcher, shown) in [
        ("mcp_gh_find", "mcp__gh__.*", "mcp__gh__find"),
        ("mcp__gh__find", "mcp_gh_.*", "mcp_gh_find"),
        ("mcp_gh_find", "", "mcp_gh_find"),
        ("mcp__gh__find", "", "mcp__gh__find"),
        ("gh__find", "", "mcp_gh_find"),
    ] {
        for protocol in ["gemini", "tabnine", "llxprt"] {
            let upstream = upstream_calling(wire, &json!({})).await;
            let hooks = json!({ "BeforeTool": on(matcher, "seen", "exit 2") });
            let gate = gate(&upstream, protocol, &hooks).await;

            let parts = send_prompt(&gate, wire).await;

            let case = format!("{wire} {matcher} {protocol}");
            assert_eq!(parts, json!([{ "text": "done" }]), "{case}");
            assert_eq!(gate.json("seen.json")["tool_name"], shown, "{case}");
        }
    }
}

#[tokio::test]
async fn tool_names_can_be_configured() {
    let names = "tool_names: { my_shell: Bash, shell: false }\n";
    for (wire, is_denied) in [("my_shell", true), ("shell", false), ("Bash", true)] {
        let upstream = upstream_calling(wire, &json!({ "command": "ls" })).await;
        let hooks = json!({ "PreToolUse": on("Bash", "seen", "exit 2") });
        let gate = gate_with(&upstream, "claude", &hooks, names).await;

        let parts = send_prompt(&gate, wire).await;

        let passed = parts[0].get("functionCall").is_some();
        assert_eq!(passed, !is_denied, "{wire}");
    }
}

#[tokio::test]
async fn an_unknown_tool_keeps_its_name() {
    let upstream = upstream_calling("deploy", &json!({ "cmd": "now" })).await;
    let hooks = json!({ "PreToolUse": on("", "seen", "exit 0") });
    let gate = gate(&upstream, "claude", &hooks).await;

    send_prompt(&gate, "deploy").await;

    let seen = gate.json("seen.json");
    assert_eq!(seen["tool_name"], "deploy");
    assert_eq!(seen["tool_input"], json!({ "cmd": "now" }));
}

/// Sends a prompt to which the model calls `tool`, with a hook for `Bash` that prints this output,
/// and returns the arguments that the agent receives.
async fn edited_arguments(tool: &str, args: &Value, updated: &Value) -> Value {
    let upstream = upstream_calling(tool, args).await;
    let edit = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": updated,
    }});
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &printing(&edit)) });
    let gate = gate(&upstream, "claude", &hooks).await;
    send_prompt(&gate, tool).await[0]["functionCall"]["args"].clone()
}

#[tokio::test]
async fn a_changed_command_replaces_the_program_of_a_list() {
    for (list, edited) in [
        (json!(["bash", "-lc", "rm x"]), json!(["bash", "-lc", "ls"])),
        (json!(["bash", "evil.sh", "x"]), json!(["bash", "-c", "ls"])),
        (
            json!(["bash", "-x", "evil.sh"]),
            json!(["bash", "-c", "ls"]),
        ),
        (
            json!(["bash", "-l", "-c", "rm x"]),
            json!(["bash", "-c", "ls"]),
        ),
    ] {
        let updated = json!({ "command": "ls" });
        let args = edited_arguments("shell", &json!({ "command": list }), &updated).await;
        assert_eq!(args, json!({ "command": edited }), "{list}");
    }
}

#[tokio::test]
async fn a_shell_in_another_folder_than_the_systems_is_a_part_of_the_command() {
    for (list, shown) in [
        (json!(["/bin/bash", "-lc", "git status"]), "git status"),
        (
            json!(["/tmp/x/bash", "-c", "git status"]),
            "/tmp/x/bash -c git status",
        ),
        (json!(["./sh", "-lc", "git status"]), "./sh -lc git status"),
    ] {
        let upstream = upstream_calling("shell", &json!({ "command": list })).await;
        let hooks = json!({ "PreToolUse": on("Bash", "seen", "exit 0") });
        let gate = gate(&upstream, "claude", &hooks).await;

        send_prompt(&gate, "shell").await;

        let seen = gate.json("seen.json");
        assert_eq!(seen["tool_input"]["command"], shown, "{list}");
    }
}

#[tokio::test]
async fn an_unchanged_command_is_kept_under_the_agents_own_name() {
    let args = json!({ "cmd": "ls", "workdir": "/" });
    let updated = json!({ "command": "ls", "timeout": 1000 });
    let edited = edited_arguments("exec_command", &args, &updated).await;
    assert_eq!(edited, json!({ "cmd": "ls", "timeout": 1000 }));
}

#[tokio::test]
async fn a_call_whose_arguments_contradict_each_other_is_denied() {
    for (tool, args) in [
        (
            "exec_command",
            json!({ "cmd": "rm -rf /", "command": "ls" }),
        ),
        ("exec_command", json!({ "cmd": 5, "script": "rm -rf /" })),
        (
            "exec_command",
            json!({ "input": "ls", "script": "rm -rf /" }),
        ),
        (
            "read_file",
            json!({ "absolute_path": "/secret", "file_path": "/a" }),
        ),
    ] {
        let upstream = upstream_calling(tool, &args).await;
        let hooks = json!({ "PreToolUse": on("", "seen", "exit 0") });
        let gate = gate(&upstream, "claude", &hooks).await;

        let parts = send_prompt(&gate, tool).await;

        assert_eq!(parts, json!([{ "text": "done" }]), "{args}");
        let sent = upstream.requests().pop().unwrap().body;
        assert!(sent.contains("contradict each other"), "{sent}");
    }
}

#[tokio::test]
async fn equal_and_missing_arguments_under_several_names_are_no_contradiction() {
    for args in [
        json!({ "cmd": "ls", "command": "ls" }),
        json!({ "cmd": "ls", "script": null }),
    ] {
        let upstream = upstream_calling("exec_command", &args).await;
        let hooks = json!({ "PreToolUse": on("", "seen", "exit 0") });
        let gate = gate(&upstream, "claude", &hooks).await;

        let parts = send_prompt(&gate, "exec_command").await;

        assert_eq!(parts[0]["functionCall"]["args"], args);
        assert_eq!(gate.json("seen.json")["tool_input"]["command"], "ls");
    }
}
