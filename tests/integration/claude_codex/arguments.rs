//! Arguments of tools of other agents, and of the tools of model APIs, as hooks see and edit them.

use serde_json::{Value, json};

use super::{answer_parts, gate, on, printing, request_with_tool, upstream_calling, user};
use crate::families::family::{Family, Turn};
use crate::harness::{TestGateway, Upstream, hook, respond};

/// Call of the Responses API's tool `shell`.
fn shell_call() -> Value {
    json!({
        "type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed",
        "action": { "commands": ["cd /tmp", "rm x"], "timeout_ms": 5000 },
    })
}

/// Call of the Responses API's tool `local_shell`.
fn local_shell_call() -> Value {
    json!({
        "type": "local_shell_call", "id": "ls_1", "call_id": "c1", "status": "completed",
        "action": { "type": "exec", "command": ["bash", "-lc", "rm x"], "env": { "A": "b" } },
    })
}

/// Call of the Responses API's tool `apply_patch`.
fn apply_patch_call(operation: &Value) -> Value {
    json!({
        "type": "apply_patch_call", "id": "ap_1", "call_id": "c1", "status": "completed",
        "operation": operation,
    })
}

/// Upstream of the Responses API that answers with an item, and with a text to its result.
async fn upstream_with_item(item: &Value) -> Upstream {
    let answer = |item: &Value| {
        json!({
            "id": "r", "object": "response", "created_at": 1, "status": "completed",
            "model": "m", "output": [item],
        })
    };
    let text = json!({
        "type": "message", "id": "m1", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "done", "annotations": [] }],
    });
    let (call, text) = (answer(item).to_string(), answer(&text).to_string());
    Upstream::with(move |asked| {
        let is_second = asked.body.contains("_call_output");
        let answer = if is_second { &text } else { &call };
        respond(200, "application/json", answer.clone())
    })
    .await
}

/// Sends a prompt with the tools of the API, and returns the first item of the answer.
async fn first_item(gateway: &TestGateway) -> Value {
    let mut request = Family::Responses.request_with_tools(false, &[], &[Turn::User("go")]);
    let local = json!({ "type": "local" });
    request["tools"] = json!([
        { "type": "shell", "environment": local },
        { "type": "local_shell" },
        { "type": "apply_patch" },
    ]);
    let body = request.to_string();
    let answer = Family::Responses.post(gateway, false, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["output"][0].clone()
}

/// Runs a hook of one protocol on a call of the Responses API; returns the arguments that it saw,
/// and the first item that the agent received.
async fn run_on_item(item: &Value, protocol: &str, matcher: &str, command: &str) -> (Value, Value) {
    let upstream = upstream_with_item(item).await;
    let event = if protocol == "gemini" {
        "BeforeTool"
    } else {
        "PreToolUse"
    };
    let settings = json!({ "hooks": { event: on(matcher, "seen", command) } }).to_string();
    let file = json!({ "path": "settings.json", "protocol": protocol });
    let config = format!("hook_files: [{file}]\n");
    let files = [("settings.json", &*settings)];
    let gateway = Family::Responses
        .gateway_with_files(&upstream, &config, &files)
        .await;
    let item = first_item(&gateway).await;
    (gateway.json("seen.json")["tool_input"].clone(), item)
}

#[tokio::test]
async fn a_shell_hook_denies_the_commands_of_a_shell_call() {
    let guard = "grep -q 'rm x' seen.json && exit 2; exit 0";
    for (protocol, matcher) in [
        ("gemini", "^run_shell_command$"),
        ("claude", "Bash"),
        ("codex", "Bash"),
    ] {
        let (seen, item) = run_on_item(&shell_call(), protocol, matcher, guard).await;

        assert_eq!(seen["command"], "cd /tmp\nrm x", "{protocol}");
        assert_eq!(item["type"], "message", "{protocol}: {item}");
    }
}

#[tokio::test]
async fn an_edited_command_is_the_only_one_of_a_shell_call() {
    let edit = json!({ "command": "echo SAFE" });
    let gemini = printing(&json!({ "hookSpecificOutput": { "tool_input": edit } }));
    let claude = printing(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": edit,
    }}));
    let merged = json!({ "commands": ["echo SAFE"], "timeout_ms": 5000 });
    let replaced = json!({ "commands": ["echo SAFE"] });
    for (protocol, matcher, command, expected) in [
        ("gemini", "run_shell_command", &gemini, &merged),
        ("claude", "Bash", &claude, &replaced),
    ] {
        let (_, item) = run_on_item(&shell_call(), protocol, matcher, command).await;

        assert_eq!(&item["action"], expected, "{protocol}");
    }

    let (_, item) = run_on_item(&local_shell_call(), "claude", "Bash", &claude).await;

    // The API requires the type and the variables of an action.
    let expected = json!({
        "command": ["bash", "-lc", "echo SAFE"], "type": "exec", "env": {},
    });
    assert_eq!(item["action"], expected);
}

#[tokio::test]
async fn a_patch_of_the_responses_api_is_a_command_with_its_file() {
    for (operation, shown) in [
        (
            json!({ "type": "create_file", "path": ".env", "diff": "+a" }),
            "*** Begin Patch\n*** Add File: .env\n+a\n*** End Patch",
        ),
        (
            json!({ "type": "delete_file", "path": ".env" }),
            "*** Begin Patch\n*** Delete File: .env\n*** End Patch",
        ),
    ] {
        let item = apply_patch_call(&operation);
        let (seen, received) = run_on_item(&item, "codex", "apply_patch", "exit 0").await;
        assert_eq!(seen["command"], shown);
        assert_eq!(received["operation"], operation);

        let edit = printing(&json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": { "command": "*** Begin Patch\n*** End Patch" },
        }}));
        let (_, received) = run_on_item(&item, "codex", "apply_patch", &edit).await;
        assert_eq!(received["type"], "message", "{received}");
    }
}

/// Runs a hook that prints `output` on a call; returns its input, and the parts of the answer.
async fn run_on_call(
    (tool, args): (&str, &Value),
    (protocol, matcher): (&str, &str),
    output: &Value,
) -> (Value, Value) {
    let upstream = upstream_calling(tool, args).await;
    let body = request_with_tool(tool, &json!([user("go")]));
    let event = if protocol == "gemini" {
        "BeforeTool"
    } else {
        "PreToolUse"
    };
    let hooks = json!({ event: on(matcher, "seen", &printing(output)) });
    let gate = gate(&upstream, protocol, &hooks).await;
    let parts = answer_parts(&gate.agent(), &body).await;
    (gate.json("seen.json"), parts)
}

#[tokio::test]
async fn a_patch_is_the_command_under_each_of_its_names() {
    let patch = "*** Begin Patch\n*** Add File: .env\n+a\n*** End Patch";
    for (tool, name) in [("apply_patch", "patchText"), ("patch", "patch")] {
        for (protocol, matcher) in [
            ("codex", "apply_patch"),
            ("claude", "Edit"),
            ("gemini", "^replace$"),
        ] {
            let args = json!({ name: patch });
            let (seen, _) = run_on_call((tool, &args), (protocol, matcher), &json!({})).await;
            assert_eq!(seen["tool_input"]["command"], patch, "{name} {protocol}");
        }
    }
}

#[tokio::test]
async fn text_that_an_editor_inserts_is_a_new_string_and_its_verb_is_no_patch() {
    let args = json!({ "command": "insert", "path": "/a", "insert_line": 1, "insert_text": "X" });
    for tool in ["str_replace_based_edit_tool", "str_replace_editor"] {
        for (protocol, matcher) in [
            ("codex", "apply_patch"),
            ("claude", "Write|Edit"),
            ("gemini", "write_file|replace"),
        ] {
            let (seen, parts) = run_on_call((tool, &args), (protocol, matcher), &json!({})).await;
            let input = &seen["tool_input"];
            assert_eq!(input["new_string"], "X", "{tool} {protocol}");
            assert_eq!(input["content"], "X", "{tool} {protocol}");
            assert_eq!(input["file_path"], "/a", "{tool} {protocol}");
            assert!(input.get("command").is_none(), "{tool} {protocol}");
            assert_eq!(parts[0]["functionCall"]["args"], args, "{tool} {protocol}");
        }
    }
    let edit = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow",
        "updatedInput": { "file_path": "/a", "insert_line": 1, "new_string": "Y" },
    }});
    let call = ("str_replace_based_edit_tool", &args);
    let (_, parts) = run_on_call(call, ("claude", "Edit"), &edit).await;
    let mut expected = args.clone();
    expected["insert_text"] = json!("Y");
    assert_eq!(parts[0]["functionCall"]["args"], expected);
}

#[tokio::test]
async fn a_file_that_an_editor_creates_is_a_new_string() {
    let args = json!({ "command": "create", "path": "/a", "file_text": "X" });
    let call = ("str_replace_based_edit_tool", &args);
    let (seen, _) = run_on_call(call, ("claude", "Write|Edit"), &json!({})).await;
    assert_eq!(seen["tool_name"], "Edit");
    assert_eq!(seen["tool_input"]["new_string"], "X");
    assert_eq!(seen["tool_input"]["content"], "X");
}

#[tokio::test]
async fn the_texts_of_several_edits_are_shown_together_and_cannot_be_changed() {
    let args = json!({ "file_path": "/a", "edits": [
        { "old_string": "a", "new_string": "b" }, { "oldString": "c", "newString": "d" },
    ]});
    let call = ("MultiEdit", &args);
    for (protocol, matcher, name) in [
        ("claude", "Edit", "Edit"),
        ("claude", "Write|Edit", "Edit"),
        ("codex", "apply_patch", "apply_patch"),
        ("gemini", "^replace$", "replace"),
    ] {
        let (seen, parts) = run_on_call(call, (protocol, matcher), &json!({})).await;
        assert_eq!(seen["tool_name"], name, "{protocol}");
        assert_eq!(seen["tool_input"]["old_string"], "a\nc", "{protocol}");
        assert_eq!(seen["tool_input"]["new_string"], "b\nd", "{protocol}");
        assert_eq!(parts[0]["functionCall"]["args"], args, "{protocol}");
    }

    let edit = json!({ "hookSpecificOutput": { "tool_input": { "new_string": "x" } } });
    let (_, parts) = run_on_call(call, ("gemini", "^replace$"), &edit).await;
    assert_eq!(parts, json!([{ "text": "done" }]));

    // A hook for the tool itself sees the call as it is.
    let (seen, _) = run_on_call(call, ("claude", "MultiEdit"), &json!({})).await;
    assert_eq!(seen["tool_name"], "MultiEdit");
    assert_eq!(seen["tool_input"], args);
}

#[tokio::test]
async fn a_harmless_argument_beside_the_one_that_an_agent_reads_is_a_contradiction() {
    let patch = json!({ "type": "create_file", "path": ".env", "diff": "+a", "command": "x" });
    for (tool, args) in [
        ("shell", json!({ "commands": ["rm x"], "command": "ls" })),
        ("shell", json!({ "commands": ["rm x"], "cmd": ["ls"] })),
        (
            "MultiEdit",
            json!({ "edits": [{ "new_string": "a" }], "new_string": "b" }),
        ),
        ("apply_patch", json!({ "patchText": "a", "input": "b" })),
        ("apply_patch", patch),
    ] {
        let upstream = upstream_calling(tool, &args).await;
        let hooks =
            json!([{ "hooks": [hook::printing("allow", &json!({ "decision": "allow" }))] }]);
        let config = format!("hooks: {}", json!({ "BeforeTool": hooks }));
        let gate = TestGateway::start(&upstream, &config).await;

        let body = request_with_tool(tool, &json!([user("go")]));
        let parts = answer_parts(&gate.agent(), &body).await;

        assert_eq!(parts, json!([{ "text": "done" }]), "{args}");
        let sent = upstream.requests().pop().unwrap().body;
        assert!(sent.contains("contradict each other"), "{sent}");
    }
}
