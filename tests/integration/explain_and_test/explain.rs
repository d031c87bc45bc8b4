//! Output of the `explain` command for events and model calls.

use std::process::Stdio;

use hookgate::{
    hook::HookExecution,
    server::handle_agent_request,
    test_case::{AgentAction, DEFAULT_MODEL},
    trial::{self, run_trial},
};
use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::folder;
use crate::harness::{TEST_TIMEOUT, eventually, hookgate, run};

/// The output of `explain`, with durations replaced by `N`.
fn explain(folder: &TempDir, arguments: &[&str]) -> String {
    let arguments = [&["explain", "--config", "hookgate.yaml"], arguments].concat();
    let (code, stdout, stderr) = run(&arguments, folder.path());
    let only_warnings = stderr.lines().all(|line| line.starts_with("warning: "));
    assert!(code == 0 && only_warnings, "{code}: {stdout}{stderr}");
    let words = stdout.split(' ').collect::<Vec<_>>();
    let word = |(index, word): (usize, &&str)| match words.get(index + 1) {
        Some(unit) if unit.starts_with("ms,") && word.parse::<u64>().is_ok() => "N".to_owned(),
        _ => (*word).to_owned(),
    };
    let words = words.iter().enumerate().map(word).collect::<Vec<_>>();
    words.join(" ")
}

/// A folder with a config, a model call and an event.
fn explain_folder() -> TempDir {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
policies:
  - { policy: model_swap, swap: { gemini-2.5-pro: gemini-2.5-flash } }
hooks:
  BeforeModel:
    - hooks:
        - name: cold
          prewarm: 1
          command: |
            touch ran; echo '{\"hookSpecificOutput\":{\"llm_request\":{\"config\":{\"temperature\":0}}}}'
        - { name: looks, command: \"exit 2\", mode: observe }
  BeforeTool:
    - sequential: true
      hooks:
        - { name: guard, command: \"echo 'not this' >&2; exit 2\" }
        - { name: broken, command: \"exit 5\" }
    - matcher: ^write_file$
      hooks: [{ name: other, command: cat }]
";
    let call = json!({
        "path": "/v1beta/models/gemini-2.5-pro:generateContent",
        "body": { "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] },
        "answer": { "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] } }] },
    });
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {},
    });
    folder(&[
        ("hookgate.yaml", config),
        ("call.json", &call.to_string()),
        ("event.json", &event.to_string()),
    ])
}

#[test]
fn policies_and_hooks_of_one_name_are_shown_with_their_own_lines() {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
policies:
  - { policy: tool_guard, deny: [write_file] }
  - { policy: tool_guard, deny: [run_shell_command], reason: not this }
hooks:
  BeforeTool:
    - hooks:
        - { name: guard, command: \"exit 0\" }
        - { name: guard, command: \"echo nor this >&2; exit 2\" }
";
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {},
    });
    let folder = folder(&[
        ("hookgate.yaml", config),
        ("event.json", &event.to_string()),
    ]);

    let listed = explain(&folder, &["--dry-run", "event.json"]);
    let output = explain(&folder, &["event.json"]);

    for line in [3, 4] {
        let policy = format!("tool_guard (builtin, hookgate.yaml:{line})");
        assert!(listed.contains(&policy), "{policy}: {listed}");
    }
    for line in [8, 9] {
        let hook = format!("guard (command, hookgate.yaml:{line})");
        assert!(listed.contains(&hook), "{hook}: {listed}");
    }
    let denied = "tool_guard (builtin, hookgate.yaml:4), ok, N ms, output";
    assert!(output.contains(denied), "{output}");
}

#[test]
fn a_model_call_is_explained() {
    let folder = explain_folder();

    let output = explain(&folder, &["call.json"]);

    assert!(folder.path().join("ran").exists());
    assert_snapshot!(output, @r#"
    BeforeModel, hooks in parallel:
      1. model_swap (builtin, hookgate.yaml:3), ok, N ms, edits the request
      2. cold (command, hookgate.yaml:7), ok, N ms, output {"hookSpecificOutput":{"llm_request":{"config":{"temperature":0}}}}
      3. looks (command, hookgate.yaml:11), block, N ms, only observes, would deny, output {"decision":"deny","reason":"Hook exited with code 2 without an error message"}
      4. model_swap (builtin, hookgate.yaml:3), ok, N ms, no output
      result: proceed
    upstream: /v1beta/models/gemini-2.5-flash:generateContent
      generationConfig: nothing → {"temperature":0}
    agent: 200 Hi
    verdict: proceed
    "#);
}

#[test]
fn parts_of_an_output_without_effect_are_explained() {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  BeforeModel:
    - hooks:
        - { name: text, command: \"printf 'log\\n{\\\"decision\\\":\\\"deny\\\"}'\" }
        - name: fields
          command: |
            echo '{\"decison\":\"deny\",\"hookSpecificOutput\":{\"permissionDecision\":\"deny\"}}'
";
    let call = r#"{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}"#;
    let folder = folder(&[("hookgate.yaml", config), ("call.json", call)]);

    let output = explain(&folder, &["call.json"]);

    for line in [
        "     plain_text: stdout is text and so no decision; write logs to stderr",
        "     object_in_text: the text has a line with an output, which has no effect",
        "     unknown_key: no effect on BeforeModel: `decison`, \
         `hookSpecificOutput.permissionDecision`",
    ] {
        assert!(
            output.lines().any(|found| found == line),
            "{line}: {output}"
        );
    }
}

#[test]
fn control_characters_of_answers_and_reasons_are_escaped() {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  AfterModel: [{ hooks: [{ name: \"a\\e[2J\", command: \"printf 'b\\e\\nverdict: proceed' >&2; exit 2\" }] }]
";
    let text = "c\u{1b}[2J\nverdict: proceed";
    let call = json!({
        "body": { "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] },
        "answer": { "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }] },
    });
    let passed = "upstreams: { gemini: { url: https://example.org } }\n";
    for (config, shown, verdict) in [
        (config, r"b\u{1b}\nverdict: proceed", "verdict: deny: b"),
        (passed, r"c\u{1b}[2J\nverdict: proceed", "verdict: proceed"),
    ] {
        let call = call.to_string();
        let folder = folder(&[("hookgate.yaml", config), ("call.json", &call)]);

        let output = explain(&folder, &["call.json"]);

        assert!(!output.contains('\u{1b}'), "{output}");
        assert!(output.contains(shown), "{output}");
        let verdicts = output.lines().filter(|line| line.starts_with("verdict:"));
        let verdicts: Vec<&str> = verdicts.collect();
        assert!(
            verdicts.len() == 1 && verdicts[0].starts_with(verdict),
            "{output}"
        );
    }
}

#[test]
fn parts_of_the_merged_output_without_effect_are_explained() {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  BeforeModel:
    - hooks:
        - name: edit
          command: |
            echo '{\"hookSpecificOutput\":{\"llm_response\":{\"candidates\":5},\"llm_request\":{\"foo\":1,\"config\":\"x\",\"systemInstruction\":5,\"toolConfig\":{\"mode\":\"none\"}}}}'
  AfterTool:
    - hooks:
        - name: tail
          command: |
            echo '{\"hookSpecificOutput\":{\"tailToolCallRequest\":{\"name\":\"a\",\"args\":{}},\"additionalContext\":5}}'
";
    let call = r#"{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}"#;
    let event = json!({
        "hook_event_name": "AfterTool", "tool_name": "read_file", "tool_input": {},
        "tool_response": { "llmContent": "r", "returnDisplay": "r" },
    });
    let folder = folder(&[
        ("hookgate.yaml", config),
        ("call.json", call),
        ("event.json", &event.to_string()),
    ]);

    let call = explain(&folder, &["call.json"]);
    let event = explain(&folder, &["event.json"]);
    let report = explain(&folder, &["--json", "call.json"]);

    let of_call = "  result: proceed
    unknown_key: foo
    edit_dropped: config: unusable value
    edit_dropped: systemInstruction: unusable value
    edit_dropped: toolConfig.mode: unusable value
    malformed_response: llm_response
";
    assert!(call.contains(of_call), "{call}");
    let of_event = "  result: proceed
    wrong_type: additionalContext
    tail_tool_call: a gateway cannot run tools; the request was dropped
";
    assert!(event.contains(of_event), "{event}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        report["events"][0]["diagnostics"][4],
        json!(["malformed_response", "llm_response"])
    );
}

#[test]
fn edits_of_an_answer_without_effect_are_explained_with_it() {
    let edit = json!({ "hookSpecificOutput": { "llm_response": { "candidates": [
        {}, { "content": { "parts": ["more"] } },
    ] } } });
    let hook = json!({ "name": "edit", "command": format!("echo '{edit}'") });
    let config = format!(
        "hooks: {}\n",
        json!({ "AfterModel": [{ "hooks": [hook] }] })
    );

    let output = explain_answer(&config, &answer(&json!({ "text": "Hi" })), &Value::Null);

    let (_, after) = output.split_once("AfterModel:").unwrap();
    assert!(after.contains("\n    edit_dropped: "), "{output}");
}

#[test]
fn an_empty_text_for_an_answer_without_a_candidate_is_no_dropped_edit() {
    let edit = json!({ "hookSpecificOutput": { "llm_response": { "text": "" } } });
    let hook = json!({ "name": "edit", "command": format!("echo '{edit}'") });
    let config = format!(
        "hooks: {}\n",
        json!({ "AfterModel": [{ "hooks": [hook] }] })
    );
    let unknown = json!({ "candidates": [], "unknown": "x" });

    let output = explain_answer(&config, &unknown, &Value::Null);

    let (_, after) = output.split_once("AfterModel:").unwrap();
    assert!(!after.contains("edit_dropped"), "{output}");
}

/// Explains a call with this answer under `hookgate.yaml`.
fn explain_answer(config: &str, answer: &Value, then: &Value) -> String {
    let call = json!({
        "body": { "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] },
        "answer": answer,
        "then": then,
    });
    let config = format!("upstreams: {{ gemini: {{ url: https://example.org }} }}\n{config}");
    let files = [
        ("hookgate.yaml", config.as_str()),
        ("call.json", &call.to_string()),
    ];
    explain(&folder(&files), &["call.json"])
}

fn answer(part: &Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP" }] })
}

#[test]
fn a_policy_that_masks_an_answer_is_explained() {
    let redact = "{ type: builtin, policy: redact, detect: [email], name: mask }";
    let config = format!("hooks: {{ AfterModel: [{{ hooks: [{redact}] }}] }}\n");
    let mail = answer(&json!({ "text": "Ask ann@example.com." }));

    let output = explain_answer(&config, &mail, &Value::Null);

    assert_snapshot!(output, @r"
    AfterModel:
      1. mask (builtin, hookgate.yaml:2), ok, N ms, edits the answer
      result: proceed
    upstream: /v1beta/models/gemini-2.5-flash:generateContent
      unchanged
    agent: 200 Ask [REDACTED:email].
    verdict: proceed
    ");
}

#[test]
fn an_observing_policy_edits_nothing() {
    let config = "policies: [{ policy: redact, detect: [email], mode: observe, name: mask }]\n";
    let mail = answer(&json!({ "text": "Ask ann@example.com." }));

    let output = explain_answer(config, &mail, &Value::Null);

    let line = "mask (builtin, hookgate.yaml:2), ok, N ms, only observes, would proceed, would edit the answer";
    assert!(output.contains(line), "{output}");
}

#[test]
fn a_policy_that_denies_a_tool_call_of_an_answer_is_explained() {
    let config = "policies: [{ policy: tool_guard, deny: [web_fetch] }]\n";
    let call = answer(&json!({ "functionCall": { "name": "web_fetch", "args": {} } }));

    let output = explain_answer(config, &call, &answer(&json!({ "text": "Then not." })));

    assert_snapshot!(output, @r#"
    BeforeModel:
      1. tool_guard (builtin, hookgate.yaml:2), ok, N ms, no output
      result: proceed
    AfterModel:
      1. tool_guard (builtin, hookgate.yaml:2), ok, N ms, removes calls of `web_fetch`
      result: deny: The tool `web_fetch` is not allowed here.
    BeforeModel (2):
      1. tool_guard (builtin, hookgate.yaml:2), ok, N ms, no output
      result: proceed
    upstream: /v1beta/models/gemini-2.5-flash:generateContent
      unchanged
    upstream: /v1beta/models/gemini-2.5-flash:generateContent
      contents[1]: nothing → {"role":"model","parts":[{"functionCall":{"name":"web_fetch","args":{}}}]}
      contents[2]: nothing → {"role":"user","parts":[{"functionResponse":{"name":"web_fetch","response":{"error":"Tool execution blocked: The tool `web_fetch` is not allowed here."}}}]}
    agent: 200 Then not.
    verdict: deny: The tool `web_fetch` is not allowed here.
    "#);
}

#[test]
fn an_event_is_explained() {
    let output = explain(&explain_folder(), &["event.json"]);

    assert_snapshot!(output, @r#"
    BeforeTool, hooks one after the other:
      1. guard (command, hookgate.yaml:15), block, N ms, output {"decision":"deny","reason":"not this"}
      2. broken (command, hookgate.yaml:16), failed, N ms, no output
         failed: exit code 5
      not run: other (hookgate.yaml:18), because its matcher does not match
      result: deny: not this
    answer: 200 {"decision":"deny","reason":"not this"}
    verdict: deny: not this
    "#);
}

#[test]
fn a_dry_run_starts_no_hook() {
    let folder = explain_folder();

    let call = explain(&folder, &["--dry-run", "call.json"]);
    let event = explain(&folder, &["--dry-run", "event.json"]);

    assert!(!folder.path().join("ran").exists());
    assert_snapshot!(format!("{call}{event}"), @r"
    BeforeModel, hooks in parallel:
      1. model_swap (builtin, hookgate.yaml:3)
      2. cold (command, hookgate.yaml:7)
      3. looks (command, hookgate.yaml:11)
    BeforeTool, hooks one after the other:
      1. guard (command, hookgate.yaml:15)
      2. broken (command, hookgate.yaml:16)
      not run: other (hookgate.yaml:18), because its matcher does not match
    ");
}

#[tokio::test]
async fn an_aborted_trial_leaves_no_task() {
    let config = "hooks: { BeforeModel: [{ hooks: [{ command: 'touch ran; sleep 60' }] }] }\n";
    let folder = folder(&[("hookgate.yaml", config)]);
    let config = trial::load_config(Some(&folder.path().join("hookgate.yaml"))).unwrap();
    let call = json!({ "contents": [{ "parts": [{ "text": "Hello" }] }] });
    let action = AgentAction::from_json(&call.to_string(), DEFAULT_MODEL).unwrap();
    let tasks = Handle::current().metrics();
    let before = tasks.num_alive_tasks();

    let execution = HookExecution::Executed;
    let run = Box::pin(run_trial(
        &config,
        &action,
        execution,
        handle_agent_request,
        TaskTracker::new(),
    ));
    let ran = || folder.path().join("ran").exists();
    tokio::select! {
        _ = run => panic!("the hook does not sleep"),
        () = eventually("the hook runs", TEST_TIMEOUT, ran) => (),
    }

    eventually("all tasks end", TEST_TIMEOUT, || {
        tasks.num_alive_tasks() <= before
    })
    .await;
}

#[test]
fn explain_prints_the_result_as_json() {
    let folder = explain_folder();
    let mut command = hookgate(&[
        "explain",
        "--config",
        "hookgate.yaml",
        "--json",
        "--model",
        "m-1",
        "-",
    ]);
    let mut child = command
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] });
    serde_json::to_writer(child.stdin.take().unwrap(), &request).unwrap();

    let output = child.wait_with_output().unwrap();

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "proceed");
    assert_eq!(report["events"][0]["event"], "BeforeModel");
    assert_eq!(report["events"][0]["hooks"][1]["name"], "cold");
    assert_eq!(report["events"][0]["hooks"][2]["would"], "deny");
    assert_eq!(
        report["upstream"][0]["path"],
        "/v1beta/models/m-1:generateContent"
    );
    assert_eq!(
        report["upstream"][0]["body"]["generationConfig"]["temperature"],
        0
    );
    assert_eq!(report["status"], 200);
    let rule = &report["record"]["detail"]["events"][0]["rules"][1];
    assert_eq!(
        (&rule["name"], &rule["at"]["line"]),
        (&json!("cold"), &json!(7))
    );
}

#[test]
fn invalid_input_files_for_explain_are_errors() {
    let folder = folder(&[
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: https://example.org } }\n",
        ),
        ("list.json", "[]"),
        ("wrapped.json", r#"{"body": {}, "hedaers": {}}"#),
        ("path.json", r#"{"body": {}, "path": "v1beta"}"#),
        ("header.json", r#"{"body": {}, "headers": {"a b": ""}}"#),
        ("event.json", r#"{"hook_event_name": "BeforeTol"}"#),
        ("chat.json", r#"{"model": "gpt-5", "messages": []}"#),
        ("twice.json", r#"{"contents": [], "contents": []}"#),
    ]);
    let explain = |file| {
        run(
            &["explain", "--config", "hookgate.yaml", file],
            folder.path(),
        )
    };

    let (code, _, stderr) = explain("list.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`list.json`: invalid type"), "{stderr}");
    let (code, _, stderr) = explain("wrapped.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("unknown field `hedaers`"), "{stderr}");
    let (code, _, stderr) = explain("path.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`path` must begin with `/`"), "{stderr}");
    let (code, _, stderr) = explain("header.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`a b` cannot be sent"), "{stderr}");
    let (code, _, stderr) = explain("chat.json");
    assert_eq!(code, 1);
    let path = "send `{\"path\":\"/v1/chat/completions\",\"body\":…}`";
    assert!(stderr.contains(path), "{stderr}");
    let (code, _, stderr) = explain("twice.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`contents` is duplicated"), "{stderr}");
    let (code, stdout, _) = explain("event.json");
    assert_eq!(code, 1);
    assert!(stdout.starts_with("answer: 400 "), "{stdout}");
    let (code, _, stderr) = explain("none.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`none.json`"), "{stderr}");
}

#[test]
fn explain_prints_the_warnings_of_the_config() {
    let config =
        "upstreams: { gemini: { url: https://a.example } }\nhooksConfig: { disabled: [none] }\n";
    let folder = folder(&[
        ("hookgate.yaml", config),
        ("event.json", "{ \"contents\": [] }"),
    ]);

    let (_, _, stderr) = run(
        &["explain", "--config", "hookgate.yaml", "event.json"],
        folder.path(),
    );

    let warning = "warning: hookgate.yaml:2:27: no hook is named `none`, so none is disabled\n";
    assert!(stderr.contains(warning), "{stderr}");
}

#[test]
fn explain_fails_if_the_gateway_refuses_the_input() {
    let folder = folder(&[
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: https://example.org } }\n",
        ),
        (
            "event.json",
            r#"{"hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "t", "tool_input": 1}"#,
        ),
    ]);
    let arguments = ["explain", "--config", "hookgate.yaml", "event.json"];

    let (code, out, error) = run(&arguments, folder.path());

    assert_eq!(code, 1, "{out}{error}");
    assert!(out.contains("verdict: error: "), "{out}");
    assert!(error.contains("`tool_input`"), "{error}");
}
