//! Hooks of one family on tools of agents of another.

use serde_json::{Value, json};

use super::{answered, asking, calling, gate, gate_with, on, permission, printing, user};
use crate::harness::{TestGateway, hook};

/// Lets an agent's model call a tool, and returns what the agent is to run.
async fn run(gate: &TestGateway, tool: &str) -> Value {
    let body = asking(tool, &json!([user("go")]));
    answered(&gate.agent(), &body).await
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
            let upstream = calling(wire, &args).await;
            let deny = printing(&permission("deny", "no shell"));
            let hooks = json!({ "PreToolUse": on("Bash", "seen", &deny) });
            let gate = gate(&upstream, protocol, &hooks).await;

            let parts = run(&gate, wire).await;

            assert_eq!(parts, json!([{ "text": "done" }]), "{wire} {protocol}");
            let seen = gate.json("seen.json");
            assert_eq!(seen["tool_name"], "Bash", "{wire}");
            assert_eq!(seen["tool_input"], shown, "{wire}");
        }
    }
}

#[tokio::test]
async fn edited_arguments_go_back_under_the_agents_own_names() {
    let upstream = calling("exec_command", &json!({ "cmd": "ls", "workdir": "/a" })).await;
    let edit = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": { "command": "ls -l", "workdir": "/b" },
    }});
    let hooks = json!({ "PreToolUse": on("Bash", "seen", &printing(&edit)) });
    let gate = gate(&upstream, "claude", &hooks).await;

    let parts = run(&gate, "exec_command").await;

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
        // Written for the name on the wire.
        ("Bash", "Bash", "Bash"),
    ] {
        let upstream = calling(wire, &json!({ "x": 1 })).await;
        let group = json!({ "matcher": matcher, "hooks": [hook::refusing("seen", "no")] });
        let config = format!("hooks: {}", json!({ "BeforeTool": [group] }));
        let gate = TestGateway::start(&upstream, &config).await;

        let parts = run(&gate, wire).await;

        assert_eq!(parts, json!([{ "text": "done" }]), "{wire} {matcher}");
        assert_eq!(
            gate.json("seen.json")["tool_name"],
            shown,
            "{wire} {matcher}"
        );
    }
}

#[tokio::test]
async fn tools_of_mcp_servers_are_named_as_the_family_does() {
    let upstream = calling("mcp_github_search", &json!({})).await;
    let hooks = json!({ "PreToolUse": on("mcp__github__.*", "seen", "exit 2") });
    let gate = gate(&upstream, "claude", &hooks).await;

    run(&gate, "mcp_github_search").await;

    assert_eq!(gate.json("seen.json")["tool_name"], "mcp__github__search");
}

#[tokio::test]
async fn the_config_names_tools_of_its_own() {
    let names = "tool_names: { my_shell: Bash, shell: false }\n";
    for (wire, is_denied) in [("my_shell", true), ("shell", false), ("Bash", true)] {
        let upstream = calling(wire, &json!({ "command": "ls" })).await;
        let hooks = json!({ "PreToolUse": on("Bash", "seen", "exit 2") });
        let gate = gate_with(&upstream, "claude", &hooks, names).await;

        let parts = run(&gate, wire).await;

        let passed = parts[0].get("functionCall").is_some();
        assert_eq!(passed, !is_denied, "{wire}");
    }
}

#[tokio::test]
async fn a_tool_that_no_family_knows_keeps_its_name() {
    let upstream = calling("deploy", &json!({ "cmd": "now" })).await;
    let hooks = json!({ "PreToolUse": on("", "seen", "exit 0") });
    let gate = gate(&upstream, "claude", &hooks).await;

    run(&gate, "deploy").await;

    let seen = gate.json("seen.json");
    assert_eq!(seen["tool_name"], "deploy");
    assert_eq!(seen["tool_input"], json!({ "cmd": "now" }));
}
