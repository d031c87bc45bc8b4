//! Hooks before and after a tool: `BeforeTool`, `AfterTool`.

use serde_json::{Value, json};

use super::{Scenario, counted, printing, responses, settings};

const CREATE: &str = "Create a file called test.txt with content \"Hello World\"";

#[tokio::test]
async fn a_tool_is_blocked_by_a_decision() {
    let block = printing(
        &json!({ "decision": "block", "reason": "File writing blocked by security policy" }),
    );
    assert_tool_is_blocked(&block).await;
}

#[tokio::test]
async fn a_tool_is_blocked_by_exit_code_2_with_stderr_as_the_reason() {
    assert_tool_is_blocked("echo 'File writing blocked by security policy' >&2; exit 2").await;
}

async fn assert_tool_is_blocked(hook: &str) {
    let scenario =
        Scenario::start("block-tool", &settings("BeforeTool", "write_file", &[hook])).await;
    let mut coder = scenario.coder();

    let answer = coder.ask(CREATE).await;

    assert_eq!(coder.ran, Vec::<Value>::new());
    assert!(coder.files.is_empty());
    assert!(
        answer.contains("blocked by the security policy"),
        "{answer}"
    );
    let contents = scenario.last_contents(2);
    assert_eq!(contents[0]["role"], "model");
    assert_eq!(
        contents[0]["parts"][0]["functionCall"]["name"],
        "write_file"
    );
    let response = &contents[1]["parts"][0]["functionResponse"]["response"];
    let reason = "Tool execution blocked: File writing blocked by security policy";
    assert_eq!(response, &json!({ "error": reason }));
    assert_eq!(scenario.calls(), 2);
}

#[tokio::test]
async fn a_tool_is_allowed_by_a_decision() {
    let allow = printing(&json!({ "decision": "allow", "reason": "File writing approved" }));
    let scenario = Scenario::start(
        "allow-tool",
        &settings("BeforeTool", "write_file", &[&allow]),
    )
    .await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn output_with_text_before_json_allows_the_tool() {
    let deny = json!({ "decision": "deny", "reason": "Should be ignored" });
    let hook = format!("echo Pollution; {}", printing(&deny));
    let scenario = Scenario::start(
        "allow-tool",
        &settings("BeforeTool", "write_file", &[&hook]),
    )
    .await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn a_failing_hook_does_not_prevent_another_from_allowing() {
    let allow = printing(&json!({ "decision": "allow", "reason": "Working hook succeeded" }));
    let hooks = settings("BeforeTool", "", &["exit 1", &allow]);
    let scenario = Scenario::start("allow-tool", &hooks).await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn a_hook_receives_every_field_of_its_input() {
    let fields = ["session_id", "cwd", "hook_event_name", "timestamp"];
    let hooks = settings("BeforeTool", "", &["cat > input.json"]);
    let scenario = Scenario::start("allow-tool", &hooks).await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called approved.txt").await;

    let input = scenario.gate.json("input.json");
    for field in fields {
        assert_ne!(input[field], "", "{field}");
        assert!(input[field].is_string(), "{field}");
    }
    assert_eq!(input["hook_event_name"], "BeforeTool");
    assert_eq!(input["tool_name"], "write_file");
    let arguments = json!({ "file_path": "approved.txt", "content": "Approved content" });
    assert_eq!(input["tool_input"], arguments);
}

#[tokio::test]
async fn the_arguments_of_a_tool_are_overridden() {
    let replacement = json!({ "file_path": "modified.txt", "content": "modified content" });
    let hook = printing(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeTool", "tool_input": replacement,
    }}));
    let hooks = settings("BeforeTool", "write_file", &[&counted(&hook)]);
    let scenario = Scenario::start("allow-tool", &hooks).await;
    let mut coder = scenario.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["modified.txt"], "modified content");
    assert_eq!(coder.files.len(), 1);
    assert_eq!(coder.ran.len(), 1);
    assert_eq!(scenario.runs(), 1);
}

#[tokio::test]
async fn a_tool_hook_stops_the_agent() {
    let stop = printing(
        &json!({ "continue": false, "reason": "Emergency Stop triggered by hook",
        "hookSpecificOutput": { "hookEventName": "BeforeTool" } }),
    );
    let scenario = Scenario::start(
        "block-tool",
        &settings("BeforeTool", "write_file", &[&stop]),
    )
    .await;
    let mut coder = scenario.coder();

    let answer = coder.ask("Use write_file to create test.txt").await;

    assert!(
        answer.contains("Emergency Stop triggered by hook"),
        "{answer}"
    );
    assert_eq!(coder.ran, Vec::<Value>::new());
    assert_eq!(scenario.calls(), 1);
}

#[tokio::test]
async fn disabled_hooks_do_not_run_in_any_turn() {
    let active = counted(&printing(&json!({ "decision": "allow" })));
    let disabled = printing(&json!({ "decision": "block", "reason": "This hook is disabled" }));
    let mut hooks = settings("BeforeTool", "", &[&active, &disabled]);
    hooks["hooksConfig"]["disabled"] = json!([disabled]);
    let script = [responses("allow-tool"), responses("allow-tool")].concat();
    let scenario = Scenario::start_with(&script, "", &hooks).await;
    let mut coder = scenario.coder();

    for turn in 1..=2 {
        coder.files.clear();
        // The recording has empty answers, after which gemini-cli retries.
        while !coder.files.contains_key("approved.txt") {
            coder.ask("Create a file called approved.txt").await;
        }
        assert_eq!(coder.files["approved.txt"], "Approved content");
        assert_eq!(scenario.runs(), turn);
    }
}

#[tokio::test]
async fn context_is_added_to_the_result_of_a_tool() {
    let context = "Security scan: File content appears safe";
    let hook = printing(&json!({ "hookSpecificOutput": {
        "hookEventName": "AfterTool", "additionalContext": context,
    }}));
    let hooks = settings("AfterTool", "read_file", &[&hook]);
    let scenario = Scenario::start("before-tool-selection", &hooks).await;
    let mut coder = scenario.coder();
    let text = "This is test content".to_owned();
    coder.files.insert("new_file_data.txt".to_owned(), text);

    coder.ask("Read the contents of new_file_data.txt").await;

    let contents = scenario.last_contents(1);
    let response = &contents[0]["parts"][0]["functionResponse"]["response"];
    let output = format!("This is test content\n\n<hook_context>{context}</hook_context>");
    assert_eq!(response, &json!({ "output": output }));
}
