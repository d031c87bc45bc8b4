//! Arguments that a tool accepts under several names: hooks read what the agent runs, and an edit
//! applies to each name.

use serde_json::{Value, json};

use super::{gate, on, printing, request_with_tool, upstream_calling, user};
use crate::harness::Upstream;

/// Protocols of gemini-cli and its forks.
const FAMILY: [&str; 4] = ["gemini", "terminai", "tabnine", "llxprt"];

/// Sends a prompt to which the model calls `tool`, with a hook of this protocol that prints
/// `output`. Returns the input of the hook, if it ran, the parts of the answer, and the upstream.
async fn run_hook(
    (protocol, matcher): (&str, &str),
    (tool, args): (&str, &Value),
    output: &Value,
) -> (Option<Value>, Value, Upstream) {
    let upstream = upstream_calling(tool, args).await;
    let is_renamed = ["claude", "codex"].contains(&protocol);
    let event = if is_renamed {
        "PreToolUse"
    } else {
        "BeforeTool"
    };
    let hooks = json!({ event: on(matcher, "seen", &printing(output)) });
    let gate = gate(&upstream, protocol, &hooks).await;
    let body = request_with_tool(tool, &json!([user("go")]));
    let parts = super::answer_parts(&gate.agent(), &body).await;
    let seen = gate.path("seen.json").exists();
    (seen.then(|| gate.json("seen.json")), parts, upstream)
}

/// Input of a hook of this protocol on a call, which must run.
async fn seen(hook: (&str, &str), call: (&str, &Value)) -> Value {
    let (seen, ..) = run_hook(hook, call, &json!({})).await;
    seen.unwrap_or_else(|| panic!("{hook:?} did not run on {call:?}"))
}

#[tokio::test]
async fn hooks_of_gemini_cli_read_the_path_under_their_own_name() {
    let args = json!({ "absolute_path": "/repo/.env", "content": "x" });
    for protocol in FAMILY {
        for matcher in ["write_file", ""] {
            let seen = seen((protocol, matcher), ("write_file", &args)).await;

            assert_eq!(seen["tool_name"], "write_file", "{protocol}");
            let expected = json!({ "absolute_path": "/repo/.env", "file_path": "/repo/.env",
                "content": "x" });
            assert_eq!(seen["tool_input"], expected, "{protocol} {matcher}");
        }
    }
    let args = json!({ "absolute_path": "/a", "patch_content": "+x" });
    let seen = seen(("llxprt", "apply_patch"), ("apply_patch", &args)).await;
    assert_eq!(seen["tool_input"]["file_path"], "/a");
}

#[tokio::test]
async fn hooks_of_llxprt_code_read_the_path_under_their_own_name() {
    for (tool, matcher) in [("read_file", "read_file"), ("Read", "read_file")] {
        let args = json!({ "file_path": "/repo/.env" });
        let seen = seen(("llxprt", matcher), (tool, &args)).await;
        assert_eq!(seen["tool_input"]["absolute_path"], "/repo/.env", "{tool}");
    }
}

#[tokio::test]
async fn other_arguments_of_an_agents_own_tools_are_shown_as_they_are() {
    for (tool, args) in [
        ("read_file", json!({ "file_path": "/a" })),
        ("glob", json!({ "pattern": "*", "path": "/a" })),
        (
            "run_shell_command",
            json!({ "command": "ls", "cmd": "pwd" }),
        ),
    ] {
        for protocol in ["gemini", "terminai", "tabnine"] {
            let seen = seen((protocol, ""), (tool, &args)).await;
            assert_eq!(seen["tool_input"], args, "{protocol}");
        }
    }
}

#[tokio::test]
async fn a_call_with_two_paths_is_denied() {
    let args = json!({ "absolute_path": "/repo/.env", "file_path": "/tmp/x", "content": "x" });
    for protocol in FAMILY {
        for (tool, matcher) in [("write_file", "write_file"), ("read_line_range", "")] {
            let (_, parts, upstream) =
                run_hook((protocol, matcher), (tool, &args), &json!({})).await;

            assert_eq!(parts, json!([{ "text": "done" }]), "{protocol} {tool}");
            let sent = upstream.requests().pop().unwrap().body;
            assert!(sent.contains("contradict each other"), "{sent}");
        }
    }
}

/// Arguments that the agent receives if a hook of this protocol edits those of a call.
async fn edited(hook: (&str, &str), call: (&str, &Value), edit: Value) -> Value {
    let is_renamed = ["claude", "codex"].contains(&hook.0);
    let field = if is_renamed {
        "updatedInput"
    } else {
        "tool_input"
    };
    let output = json!({ "hookSpecificOutput": { field: edit } });
    let (_, parts, _) = run_hook(hook, call, &output).await;
    parts[0]["functionCall"]["args"].clone()
}

#[tokio::test]
async fn an_edited_command_has_each_name_of_the_call() {
    let args = json!({ "command": "X", "cmd": "X", "workdir": "/" });
    for protocol in ["claude", "codex"] {
        for edit in [
            json!({ "command": "box X", "cmd": "X" }),
            json!({ "command": "X", "cmd": "box X" }),
            json!({ "command": "box X" }),
        ] {
            let args = edited((protocol, "Bash"), ("exec_command", &args), edit).await;
            assert_eq!(args, json!({ "command": "box X", "cmd": "box X" }));
        }
    }
}

#[tokio::test]
async fn an_edited_path_has_each_name_of_the_call() {
    let both = json!({ "file_path": "/a", "absolute_path": "/a" });
    let expected = json!({ "file_path": "/b", "absolute_path": "/b" });
    for (protocol, name) in [
        ("claude", "file_path"),
        ("gemini", "file_path"),
        ("llxprt", "absolute_path"),
    ] {
        let args = edited((protocol, ""), ("read_file", &both), json!({ name: "/b" })).await;
        assert_eq!(args, expected, "{protocol}");
    }
    let one = json!({ "absolute_path": "/a" });
    let edit = json!({ "file_path": "/b" });
    let args = edited(("gemini", ""), ("read_file", &one), edit).await;
    assert_eq!(args, json!({ "absolute_path": "/b" }));
}

#[tokio::test]
async fn hooks_of_codex_receive_the_name_that_matches() {
    for (wire, matcher, shown) in [
        ("Write", "apply_patch", "apply_patch"),
        ("Write", "Write", "Write"),
        ("Edit", "apply_patch", "apply_patch"),
        ("apply_patch", "Edit", "apply_patch"),
        ("Agent", "", "spawn_agent"),
    ] {
        let seen = seen(("codex", matcher), (wire, &json!({ "x": 1 }))).await;
        assert_eq!(seen["tool_name"], shown, "{wire} {matcher}");
    }
}

#[tokio::test]
async fn tools_of_gemini_cli_and_its_forks_match_by_their_kind() {
    let lines = json!({ "absolute_path": "/a", "start_line": 1 });
    for (hook, wire, shown) in [
        (("claude", "WebFetch"), "direct_web_fetch", "WebFetch"),
        (("claude", "WebSearch"), "exa_web_search", "WebSearch"),
        (("claude", "Agent|Task"), "invoke_agent", "Agent"),
        (("gemini", "^replace$"), "insert_at_line", "replace"),
        (("gemini", "^replace$"), "delete_line_range", "replace"),
        (("gemini", "^replace$"), "ast_edit", "replace"),
        (("gemini", "^read_file$"), "read_line_range", "read_file"),
        (("gemini", "^read_file$"), "ast_read_file", "read_file"),
        (("llxprt", ""), "insert_at_line", "insert_at_line"),
        (("llxprt", ""), "exa_web_search", "exa_web_search"),
        (("gemini", ""), "invoke_agent", "invoke_agent"),
    ] {
        let seen = seen(hook, (wire, &lines)).await;
        assert_eq!(seen["tool_name"], shown, "{hook:?} {wire}");
        assert_eq!(seen["tool_input"]["file_path"], "/a", "{hook:?} {wire}");
    }
    let patch = json!({ "absolute_path": "/a", "patch_content": "+x" });
    let seen_patch = seen(("codex", ""), ("apply_patch", &patch)).await;
    assert_eq!(seen_patch["tool_input"]["command"], "+x");
    let cell = json!({ "notebook_path": "/a.ipynb", "new_source": "print()" });
    let seen_cell = seen(("gemini", "replace"), ("NotebookEdit", &cell)).await;
    assert_eq!(seen_cell["tool_input"]["file_path"], "/a.ipynb");
    assert_eq!(seen_cell["tool_input"]["new_string"], "print()");
}
