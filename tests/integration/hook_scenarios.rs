//! The scenarios of gemini-cli's own hook tests, with the hooks in the gateway
//! and an agent that has none: they come to what those tests assert. What a
//! gateway cannot do is in `docs/gemini-cli-hooks.md`.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Asked, Coder, PATIENCE, TestGateway, Upstream, eventually};

const CREATE: &str = "Create a file called test.txt with content \"Hello World\"";

// --- before a tool ---

#[tokio::test]
async fn a_tool_is_blocked_by_a_decision() {
    let block =
        says(&json!({ "decision": "block", "reason": "File writing blocked by security policy" }));
    blocks(&block).await;
}

#[tokio::test]
async fn a_tool_is_blocked_by_exit_code_2_with_stderr_as_the_reason() {
    blocks("echo 'File writing blocked by security policy' >&2; exit 2").await;
}

async fn blocks(hook: &str) {
    let stage = Stage::set("block-tool", &settings("BeforeTool", "write_file", &[hook])).await;
    let mut coder = stage.coder();

    let said = coder.ask(CREATE).await;

    assert_eq!(coder.ran, Vec::<Value>::new());
    assert!(coder.files.is_empty());
    assert!(said.contains("blocked by the security policy"), "{said}");
    let told = stage.last_contents(2);
    assert_eq!(told[0]["role"], "model");
    assert_eq!(told[0]["parts"][0]["functionCall"]["name"], "write_file");
    let response = &told[1]["parts"][0]["functionResponse"]["response"];
    let reason = "Tool execution blocked: File writing blocked by security policy";
    assert_eq!(response, &json!({ "error": reason }));
    assert_eq!(stage.calls(), 2);
}

#[tokio::test]
async fn a_tool_is_allowed_by_a_decision() {
    let allow = says(&json!({ "decision": "allow", "reason": "File writing approved" }));
    let stage = Stage::set(
        "allow-tool",
        &settings("BeforeTool", "write_file", &[&allow]),
    )
    .await;
    let mut coder = stage.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn text_before_json_is_a_message_and_allows() {
    let deny = json!({ "decision": "deny", "reason": "Should be ignored" });
    let hook = format!("echo Pollution; {}", says(&deny));
    let stage = Stage::set(
        "allow-tool",
        &settings("BeforeTool", "write_file", &[&hook]),
    )
    .await;
    let mut coder = stage.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn one_failing_hook_does_not_keep_another_from_allowing() {
    let allow = says(&json!({ "decision": "allow", "reason": "Working hook succeeded" }));
    let hooks = settings("BeforeTool", "", &["exit 1", &allow]);
    let stage = Stage::set("allow-tool", &hooks).await;
    let mut coder = stage.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["approved.txt"], "Approved content");
}

#[tokio::test]
async fn a_hook_finds_every_field_of_its_input() {
    let fields = ["session_id", "cwd", "hook_event_name", "timestamp"];
    let hooks = settings("BeforeTool", "", &["cat > input.json"]);
    let stage = Stage::set("allow-tool", &hooks).await;
    let mut coder = stage.coder();

    coder.ask("Create a file called approved.txt").await;

    let input = stage.gate.json("input.json");
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
    let instead = json!({ "file_path": "modified.txt", "content": "modified content" });
    let hook = says(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeTool", "tool_input": instead,
    }}));
    let hooks = settings("BeforeTool", "write_file", &[&counted(&hook)]);
    let stage = Stage::set("allow-tool", &hooks).await;
    let mut coder = stage.coder();

    coder.ask("Create a file called approved.txt").await;

    assert_eq!(coder.files["modified.txt"], "modified content");
    assert_eq!(coder.files.len(), 1);
    assert_eq!(coder.ran.len(), 1);
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn a_tool_hook_stops_the_agent() {
    let stop = says(
        &json!({ "continue": false, "reason": "Emergency Stop triggered by hook",
        "hookSpecificOutput": { "hookEventName": "BeforeTool" } }),
    );
    let stage = Stage::set(
        "block-tool",
        &settings("BeforeTool", "write_file", &[&stop]),
    )
    .await;
    let mut coder = stage.coder();

    let said = coder.ask("Use write_file to create test.txt").await;

    assert!(said.contains("Emergency Stop triggered by hook"), "{said}");
    assert_eq!(coder.ran, Vec::<Value>::new());
    assert_eq!(stage.calls(), 1);
}

#[tokio::test]
async fn disabled_hooks_do_not_run_in_any_turn() {
    let active = counted(&says(&json!({ "decision": "allow" })));
    let disabled = says(&json!({ "decision": "block", "reason": "This hook is disabled" }));
    let mut hooks = settings("BeforeTool", "", &[&active, &disabled]);
    hooks["hooksConfig"]["disabled"] = json!([disabled]);
    let script = [responses("allow-tool"), responses("allow-tool")].concat();
    let stage = Stage::playing(&script, "", &hooks).await;
    let mut coder = stage.coder();

    for turn in 1..=2 {
        coder.files.clear();
        // The recording has empty answers, which gemini-cli asks for anew.
        while !coder.files.contains_key("approved.txt") {
            coder.ask("Create a file called approved.txt").await;
        }
        assert_eq!(coder.files["approved.txt"], "Approved content");
        assert_eq!(stage.runs(), turn);
    }
}

// --- after a tool ---

#[tokio::test]
async fn context_is_added_to_the_result_of_a_tool() {
    let context = "Security scan: File content appears safe";
    let hook = says(&json!({ "hookSpecificOutput": {
        "hookEventName": "AfterTool", "additionalContext": context,
    }}));
    let hooks = settings("AfterTool", "read_file", &[&hook]);
    let stage = Stage::set("before-tool-selection", &hooks).await;
    let mut coder = stage.coder();
    let text = "This is test content".to_owned();
    coder.files.insert("new_file_data.txt".to_owned(), text);

    coder.ask("Read the contents of new_file_data.txt").await;

    let told = stage.last_contents(1);
    let response = &told[0]["parts"][0]["functionResponse"]["response"];
    let output = format!("This is test content\n\n<hook_context>{context}</hook_context>");
    assert_eq!(response, &json!({ "output": output }));
}

// --- around a model call ---

#[tokio::test]
async fn a_model_request_is_replaced() {
    let message =
        "Please respond with exactly: The security hook modified this request successfully.";
    let hook = says(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeModel",
        "llm_request": { "messages": [{ "role": "user", "content": message }] },
    }}));
    let stage = Stage::set("before-model", &settings("BeforeModel", "", &[&hook])).await;

    let said = stage.coder().ask("Tell me a story").await;

    assert!(
        said.to_lowercase().contains("security hook modified"),
        "{said}"
    );
    let contents = stage.last_contents(1);
    assert!(contents[0].to_string().contains(message), "{contents:?}");
    assert!(!stage.upstream.only().body.contains("Tell me a story"));
}

#[tokio::test]
async fn a_model_call_is_denied_and_never_made() {
    for decision in ["deny", "block"] {
        let reason = "Model execution blocked by security policy";
        let hook = says(&json!({ "decision": decision, "reason": reason }));
        let stage = Stage::set("before-model", &settings("BeforeModel", "", &[&hook])).await;

        let said = stage.coder().ask("Hello").await;

        assert_eq!(said, reason);
        assert_eq!(stage.calls(), 0);
    }
}

#[tokio::test]
async fn a_model_answer_is_replaced() {
    let text = "[FILTERED] Response has been filtered for security compliance.";
    let hook = says(
        &json!({ "hookSpecificOutput": { "hookEventName": "AfterModel", "llm_response": {
            "candidates": [{ "content": { "role": "model", "parts": [text] }, "finishReason": "STOP" }],
        }}}),
    );
    let stage = Stage::set("after-model", &settings("AfterModel", "", &[&hook])).await;

    let said = stage.coder().ask("What is 2 + 2?").await;

    assert!(said.contains(text), "{said}");
    assert!(!said.contains('4'), "{said}");
}

#[tokio::test]
async fn tools_are_selected() {
    let names = json!(["read_file", "run_shell_command"]);
    let hook = says(&json!({ "hookSpecificOutput": {
        "hookEventName": "BeforeToolSelection",
        "toolConfig": { "mode": "ANY", "allowedFunctionNames": names },
    }}));
    let hooks = settings("BeforeToolSelection", "", &[&counted(&hook)]);
    let stage = Stage::set("before-tool-selection", &hooks).await;
    let mut coder = stage.coder();
    let text = "test data".to_owned();
    coder.files.insert("new_file_data.txt".to_owned(), text);

    coder.ask("Check the content of new_file_data.txt").await;

    assert_eq!(coder.ran[0]["name"], "read_file");
    assert_eq!(stage.runs(), stage.calls());
    for asked in stage.upstream.seen() {
        let config = &asked.json()["toolConfig"]["functionCallingConfig"];
        assert_eq!(
            config,
            &json!({ "mode": "ANY", "allowedFunctionNames": names })
        );
    }
}

// --- prompts and answers ---

#[tokio::test]
async fn context_is_added_to_a_prompt() {
    let context = "SYSTEM INSTRUCTION: You are in a secure environment. Always mention security compliance in your responses.";
    let hook = says(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeAgent", "additionalContext": context,
    }}));
    let stage = Stage::set("before-agent", &settings("BeforeAgent", "", &[&hook])).await;

    let said = stage.coder().ask("Hello, how are you?").await;

    assert!(said.contains("security"), "{said}");
    assert_eq!(
        stage.last_texts()[1..],
        ["Hello, how are you?", &tagged(context)]
    );
}

#[tokio::test]
async fn hooks_in_sequence_both_add_their_context() {
    let context = |text: &str| {
        says(&json!({ "decision": "allow", "hookSpecificOutput": {
            "hookEventName": "BeforeAgent", "additionalContext": text,
        }}))
    };
    let steps = [
        "Step 1: Initial validation passed.",
        "Step 2: Security check completed.",
    ];
    let hooks = settings("BeforeAgent", "", &[&context(steps[0]), &context(steps[1])]);
    let stage = Stage::set("before-agent", &hooks).await;

    stage.coder().ask("Hello, please help me with a task").await;

    let texts = stage.last_texts();
    assert_eq!(texts.last().unwrap(), &tagged(&steps.join("\n")));
}

#[tokio::test]
async fn a_hook_gets_the_prompt_and_the_answer_once_in_a_turn_with_tools() {
    let mut hooks = settings(
        "BeforeAgent",
        "",
        &["cat >> before.jsonl; echo >> before.jsonl"],
    );
    let after = settings(
        "AfterAgent",
        "",
        &["cat >> after.jsonl; echo >> after.jsonl"],
    );
    hooks["hooks"]["AfterAgent"] = after["hooks"]["AfterAgent"].clone();
    let stage = Stage::set("before-tool-selection", &hooks).await;
    let mut coder = stage.coder();
    coder
        .files
        .insert("new_file_data.txt".to_owned(), String::new());

    coder.ask("Do a multi-step task").await;

    let lines = |file| -> Vec<Value> {
        let text = stage.gate.file(file);
        let lines = text.lines().filter(|it| !it.is_empty());
        lines.map(|it| serde_json::from_str(it).unwrap()).collect()
    };
    let (before, after) = (lines("before.jsonl"), lines("after.jsonl"));
    assert_eq!((before.len(), after.len(), stage.calls()), (1, 1, 2));
    assert_eq!(before[0]["prompt"], "Do a multi-step task");
    assert_eq!(after[0]["prompt"], "Do a multi-step task");
    assert_eq!(after[0]["prompt_response"], "Done.");
    assert_eq!(after[0]["stop_hook_active"], false);
}

#[tokio::test]
async fn a_rejected_answer_is_tried_again_with_a_cleared_context() {
    let hook = says(
        &json!({ "decision": "block", "reason": "Security policy triggered",
        "hookSpecificOutput": { "hookEventName": "AfterAgent", "clearContext": true } }),
    );
    let hooks = settings("AfterAgent", "", &[&hook]);
    let bounds = "events: { max_answer_retries: 2 }\n";
    let stage = Stage::playing(&responses("after-agent"), bounds, &hooks).await;

    let said = stage.coder().ask("Hello test").await;

    assert!(said.contains("Security policy triggered"), "{said}");
    let seen = stage.upstream.seen();
    let requests: Vec<Value> = seen.iter().map(Asked::json).collect();
    let lengths: Vec<usize> = requests.iter().map(|it| contents(it).len()).collect();
    assert_eq!(lengths, [1, 1, 1]);
    assert_eq!(
        texts(&requests[1]).last().unwrap(),
        "Security policy triggered"
    );
    assert!(!requests[1].to_string().contains("Hello test"));
}

// --- all of a session ---

#[tokio::test]
async fn hooks_of_all_major_events_run_in_one_turn() {
    let context = |event: &str, text: &str| {
        says(
            &json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } }),
        )
    };
    let logged =
        json!({ "decision": "allow", "systemMessage": "BeforeTool: File operation logged" });
    let mut hooks = settings("BeforeTool", "write_file", &[&counted(&says(&logged))]);
    for (event, matcher, text) in [
        (
            "AfterTool",
            "write_file",
            "AfterTool: Operation completed successfully",
        ),
        ("BeforeAgent", "", "BeforeAgent: User request processed"),
    ] {
        let block = settings(event, matcher, &[&counted(&context(event, text))]);
        hooks["hooks"][event] = block["hooks"][event].clone();
    }
    let stage = Stage::set("multiple-events", &hooks).await;
    let mut coder = stage.coder();

    coder.ask("Create a file called multi-event-test.txt").await;

    assert_eq!(
        coder.files["multi-event-test.txt"],
        "testing multiple events"
    );
    assert_eq!(stage.runs(), 3);
    let sent = stage.upstream.seen().last().unwrap().body.clone();
    assert!(
        sent.contains("AfterTool: Operation completed successfully"),
        "{sent}"
    );
    assert!(
        sent.contains("BeforeAgent: User request processed"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_session_starts_once() {
    let hook = format!("cat > start.json; {}", counted("true"));
    let stage = Stage::twice(
        "session-startup",
        &settings("SessionStart", "startup", &[&hook]),
    )
    .await;
    let mut coder = stage.coder();

    coder.ask("Say hello").await;
    coder.ask("Say hello again").await;

    let input = stage.gate.json("start.json");
    assert_eq!(input["hook_event_name"], "SessionStart");
    assert_eq!(input["source"], "startup");
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn what_is_said_at_the_start_is_in_every_request() {
    let context = "If asked about your identity, you must respond with the following: I am a protocol droid that speaks the bacchi.";
    let message = "Context injected via SessionStart hook";
    let hook = says(
        &json!({ "decision": "allow", "systemMessage": message, "hookSpecificOutput": {
            "hookEventName": "SessionStart", "additionalContext": context,
        }}),
    );
    let stage = Stage::twice(
        "session-startup",
        &settings("SessionStart", "startup", &[&hook]),
    )
    .await;
    let mut coder = stage.coder();

    coder.ask("Who are you?").await;
    coder.ask("Who are you again?").await;

    let told = coder.answers[0].header("x-hookgate-system-message");
    assert_eq!(told, message.replace(' ', "%20"));
    assert_eq!(stage.calls(), 2);
    for asked in stage.upstream.seen() {
        // Behind what the CLI tells of itself, in front of the first prompt.
        assert_eq!(texts(&asked.json())[1], tagged(context));
    }
}

#[tokio::test]
async fn a_session_ends_when_nothing_more_is_heard_of_it() {
    let hooks = settings(
        "SessionEnd",
        "",
        &["cat > end.json; mv end.json ended.json"],
    );
    let idle = "sessions: { idle: 300ms }\n";
    let stage = Stage::playing(&responses("session-startup"), idle, &hooks).await;

    stage.coder().ask("Hello").await;

    let ended = || !stage.gate.file("ended.json").is_empty();
    eventually("the session ends", PATIENCE, ended).await;
    let input = stage.gate.json("ended.json");
    assert_eq!(input["hook_event_name"], "SessionEnd");
    assert_eq!(input["reason"], "other");
}

/// A model API that answers as recorded, and a gateway with hooks.
struct Stage {
    upstream: Upstream,
    gate: TestGateway,
}

impl Stage {
    /// With the recorded answers of a scenario, and a settings.json.
    async fn set(scenario: &str, settings: &Value) -> Self {
        Self::playing(&responses(scenario), "", settings).await
    }

    /// With recorded answers for two turns.
    async fn twice(scenario: &str, settings: &Value) -> Self {
        let script = [responses(scenario), responses(scenario)].concat();
        Self::playing(&script, "", settings).await
    }

    async fn playing(script: &str, config: &str, settings: &Value) -> Self {
        let upstream = Upstream::scripted(script).await;
        let config = format!("{config}hook_files: [{{ path: settings.json }}]\n");
        let settings = [("settings.json", &*settings.to_string())];
        let gate = TestGateway::with_files(&upstream, &config, &settings).await;
        Self { upstream, gate }
    }

    fn coder(&self) -> Coder {
        Coder::new(self.gate.agent())
    }

    /// How many calls reached the model API.
    fn calls(&self) -> usize {
        self.upstream.seen().len()
    }

    /// How often hooks ran that are [`counted`].
    fn runs(&self) -> usize {
        self.gate.file("runs").lines().count()
    }

    /// The last contents of the last request.
    fn last_contents(&self, count: usize) -> Vec<Value> {
        let request = self.upstream.seen().pop().unwrap().json();
        let contents = contents(&request);
        contents[contents.len() - count..].to_vec()
    }

    /// The texts of the user in the last request.
    fn last_texts(&self) -> Vec<String> {
        texts(&self.upstream.seen().pop().unwrap().json())
    }
}

/// A settings.json of gemini-cli with one group of hooks, run in sequence.
fn settings(event: &str, matcher: &str, commands: &[&str]) -> Value {
    let hooks = commands.iter();
    let hooks = hooks.map(|it| json!({ "type": "command", "command": it, "timeout": 5000 }));
    let hooks: Vec<Value> = hooks.collect();
    let mut group = json!({ "sequential": true, "hooks": hooks });
    if !matcher.is_empty() {
        group["matcher"] = json!(matcher);
    }
    json!({ "hooksConfig": { "enabled": true }, "hooks": { event: [group] } })
}

/// A command that prints this output.
fn says(output: &Value) -> String {
    format!("echo '{output}'")
}

/// A command that also notes that it ran.
fn counted(command: &str) -> String {
    format!("echo run >> runs; {command}")
}

/// Context of hooks, as a request has it.
fn tagged(context: &str) -> String {
    format!("<hook_context>{context}</hook_context>")
}

fn contents(request: &Value) -> &Vec<Value> {
    request["contents"].as_array().unwrap()
}

fn texts(request: &Value) -> Vec<String> {
    let of_user = contents(request).iter().filter(|it| it["role"] == "user");
    let parts = of_user.flat_map(|it| it["parts"].as_array().unwrap());
    let texts = parts.filter_map(|it| it["text"].as_str());
    texts.map(str::to_owned).collect()
}

fn responses(scenario: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/responses");
    fs::read_to_string(format!("{folder}/hooks-system.{scenario}.responses")).unwrap()
}
