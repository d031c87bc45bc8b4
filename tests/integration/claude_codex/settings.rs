//! Settings files: `.claude/settings.json` and `.codex/hooks.json`, unchanged.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, task::spawn_blocking};

use super::{MODEL, request_with_tool, upstream_calling, user};
use crate::harness::{Agent, ServerProcess, TEST_TIMEOUT, Upstream, hookgate, respond, run};

const CLAUDE_SETTINGS: &str = r#"{
  "permissions": { "deny": ["Read(./.env)"] },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [
        { "type": "command", "command": "grep -q 'rm -rf' && { echo 'not that' >&2; exit 2; }; exit 0",
          "timeout": 5, "statusMessage": "checking" }
      ] }
    ]
  }
}"#;

/// Runs `check` on a config with one settings file; returns exit code, stdout and stderr.
fn check(path: &str, text: &str, more: &[&str]) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: https://example.org }} }}\nhook_files: [{{ path: {path} }}]\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    run(&[&["check", "hookgate.yaml"], more].concat(), folder.path())
}

#[tokio::test]
async fn a_settings_file_can_be_given_on_the_command_line() {
    for (folder, file) in [(".claude", "settings.json"), (".codex", "hooks.json")] {
        let upstream =
            upstream_calling("run_shell_command", &json!({ "command": "rm -rf /" })).await;
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(folder).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, CLAUDE_SETTINGS).unwrap();
        let mut command = hookgate(&["serve", "--hooks", path.to_str().unwrap()]);
        command
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--upstream", &format!("http://{}", upstream.addr)]);
        let mut served = ServerProcess::start(command);
        let agent = Agent::at(served.addr());

        let body = request_with_tool("run_shell_command", &json!([user("clean up")]));
        let answer = agent.generate(MODEL, &body).await;

        let parts = &answer.json()["candidates"][0]["content"]["parts"];
        assert_eq!(parts, &json!([{ "text": "done" }]), "{file}");
        let retry = upstream.requests()[1].json();
        let response = &retry["contents"][2]["parts"][0]["functionResponse"]["response"];
        assert_eq!(
            response["error"], "Tool execution blocked: not that",
            "{file}"
        );
        served.terminate();
        let ended = spawn_blocking(move || served.ended(TEST_TIMEOUT))
            .await
            .unwrap();
        assert_eq!(ended.0.code(), Some(0));
    }
}

#[test]
fn the_protocol_is_detected_by_folder_or_event_names() {
    for path in [
        ".claude/settings.json",
        "settings.json",
        ".codex/hooks.json",
    ] {
        let (code, stdout, stderr) = check(path, CLAUDE_SETTINGS, &[]);
        assert_eq!(code, 0, "{stderr}");
        assert!(
            stdout.ends_with("hookgate.yaml: valid, 1 hook\n"),
            "{stdout}"
        );
        assert!(stderr.contains("hook `grep"), "{stderr}");
    }
    let mixed = CLAUDE_SETTINGS.replace("PreToolUse", "BeforeTool");
    let (code, _, stderr) = check("settings.json", &mixed, &[]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn unsupported_settings_are_reported_with_their_position() {
    let settings = r#"{
  "hooks": {
    "PreToolUes": [],
    "PermissionRequest": [{ "hooks": [{ "type": "command", "command": "x" }] }],
    "PreToolUse": [{ "hooks": [
      { "type": "prompt", "prompt": "is it safe?" },
      { "type": "command", "command": "y", "if": "Bash(git *)" }
    ] }],
    "SubagentStop": [{ "matcher": "Explore", "hooks": [{ "type": "command", "command": "z" }] }]
  }
}"#;
    let (code, _, stderr) = check(".claude/settings.json", settings, &[]);
    assert_eq!(code, 78);
    let unknown = ".claude/settings.json:3:5: unknown event `PreToolUes` of the protocol `claude`; did you mean `PreToolUse`?";
    assert!(stderr.contains(unknown), "{stderr}");
    assert!(stderr.contains(".claude/settings.json:6:17: "), "{stderr}");
    assert!(stderr.contains("not `prompt`"), "{stderr}");

    let valid = settings
        .replace(r#""PreToolUes": [],"#, "")
        .replace(r#"{ "type": "prompt", "prompt": "is it safe?" },"#, "");
    let (code, _, stderr) = check(".claude/settings.json", &valid, &[]);
    assert_eq!(code, 0, "{stderr}");
    for warning in [
        ".claude/settings.json:4:5: `claude` hooks on PermissionRequest never run",
        ".claude/settings.json:7:50: `if` is ignored",
        ".claude/settings.json:9:35: a gateway does not see the types of sub-agents",
    ] {
        assert!(stderr.contains(warning), "{warning}\n{stderr}");
    }
}

#[test]
fn a_short_timeout_in_seconds_is_no_warning() {
    for timeout in ["0.06", r#""60ms""#] {
        let timeout = format!(r#""timeout": {timeout}"#);
        let settings = CLAUDE_SETTINGS.replace(r#""timeout": 5"#, &timeout);

        let (code, _, stderr) = check(".claude/settings.json", &settings, &[]);

        assert_eq!(code, 0, "{stderr}");
        assert!(!stderr.contains("timeout"), "{stderr}");
    }
}

#[test]
fn a_timeout_that_is_probably_milliseconds_is_a_warning() {
    let warnings = |timeout: &str| {
        let timeout = format!(r#""timeout": {timeout}"#);
        let settings = CLAUDE_SETTINGS.replace(r#""timeout": 5"#, &timeout);
        let (code, _, stderr) = check(".claude/settings.json", &settings, &[]);
        assert_eq!(code, 0, "{stderr}");
        let lines = stderr.lines().filter(|line| line.contains("timeout"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };

    assert_eq!(
        warnings("5500"),
        [
            "warning: .claude/settings.json:7:22: the timeout is 5500 seconds: in milliseconds it would be 5.5"
        ]
    );
    for timeout in ["3600", r#""2h""#] {
        assert_eq!(warnings(timeout), [""; 0], "{timeout}");
    }
}

#[test]
fn two_events_of_one_meaning_keep_their_positions() {
    let settings = r#"{
  "hooks": {
    "Stop": [{ "hooks": [{ "type": "command", "command": "a" }] }],
    "SubagentStop": [{ "hooks": [
      { "type": "command", "command": "b", "timeout": "soon" }
    ] }]
  }
}"#;

    let (code, _, stderr) = check(".claude/settings.json", settings, &[]);

    assert_eq!(code, 78);
    assert!(stderr.contains(".claude/settings.json:5:"), "{stderr}");
}

#[test]
fn check_prints_the_names_of_tools() {
    let (_, stdout, _) = check(".claude/settings.json", CLAUDE_SETTINGS, &[]);
    let shell = "tool shell: gemini run_shell_command; claude Bash; codex Bash; on the wire shell shell_command local_shell exec_command bash\n";
    assert!(stdout.contains(shell), "{stdout}");

    let (_, without_hooks, _) = check("settings.json", r#"{ "hooks": {} }"#, &[]);
    assert!(!without_hooks.contains("tool shell"), "{without_hooks}");
    let (_, with_option, _) = check("settings.json", r#"{ "hooks": {} }"#, &["--tool-names"]);
    assert!(with_option.contains(shell), "{with_option}");
}

#[test]
fn disable_all_hooks_disables_the_hooks_of_a_file() {
    let off = CLAUDE_SETTINGS.replacen('{', r#"{ "disableAllHooks": true,"#, 1);
    let (code, stdout, stderr) = check(".claude/settings.json", &off, &[]);
    assert_eq!(code, 0);
    assert!(stdout.ends_with("valid, 0 hooks\n"), "{stdout}");
    assert!(stderr.contains(".claude/settings.json:1:"), "{stderr}");
}

#[test]
fn names_of_disabled_hooks_beside_disable_all_hooks_are_checked() {
    let switches = r#"{ "disableAllHooks": true, "hooksConfig": { "disabled": ["absent"] },"#;
    let off = CLAUDE_SETTINGS.replacen('{', switches, 1);

    let (code, stdout, stderr) = check(".claude/settings.json", &off, &[]);

    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.ends_with("valid, 0 hooks\n"), "{stdout}");
    let warning = "no hook is named `absent`, so none is disabled";
    assert!(stderr.contains(warning), "{stderr}");
}

#[test]
fn a_matcher_that_is_no_text_is_an_error_on_every_event() {
    for event in ["PreToolUse", "SubagentStop"] {
        let hooks = r#""hooks": [{ "type": "command", "command": "a" }]"#;
        let settings = format!(r#"{{ "hooks": {{ "{event}": [{{ "matcher": 5, {hooks} }}] }} }}"#);

        let (code, _, stderr) = check(".claude/settings.json", &settings, &[]);

        assert_eq!(code, 78, "{event}: {stderr}");
        assert!(
            stderr.contains("matcher` must be text"),
            "{event}: {stderr}"
        );
    }
}

#[tokio::test]
async fn a_command_with_arguments_runs_without_a_shell() {
    let upstream = Upstream::mock().await;
    let hook = json!({ "type": "command", "command": "printf", "args": ["%s", "a $b `c`"] });
    let hooks = json!({ "UserPromptSubmit": [{ "hooks": [hook] }] });
    let gate = super::gate(&upstream, "claude", &hooks).await;
    let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "Q" });

    let answer: Value = gate.agent().report(&event, "").await.json();

    let context = &answer["hookSpecificOutput"]["additionalContext"];
    assert_eq!(context, "a $b `c`");
}

#[tokio::test]
async fn an_http_hook_may_answer_with_text_or_nothing() {
    for (status, media_type, body, context) in [
        (204, "", "", None),
        (200, "application/json", "", None),
        (
            202,
            "text/plain; charset=utf-8",
            "be brief",
            Some("be brief"),
        ),
    ] {
        let server = Upstream::with(move |_| respond(status, media_type, body)).await;
        let hook = json!({ "type": "http", "url": format!("http://{}/", server.addr), "on_failure": "closed" });
        let hooks = json!({ "UserPromptSubmit": [{ "hooks": [hook] }] });
        let upstream = Upstream::mock().await;
        let gate = super::gate(&upstream, "claude", &hooks).await;
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "Q" });

        let answer: Value = gate.agent().report(&event, "").await.json();

        assert_eq!(server.requests().len(), 1);
        assert_ne!(answer["decision"], "deny", "{status}: {answer}");
        let added = &answer["hookSpecificOutput"]["additionalContext"];
        assert_eq!(added.as_str(), context, "{status}: {answer}");
    }
}

#[tokio::test]
async fn an_http_hook_with_another_answer_fails() {
    for (status, media_type, body) in [(500, "text/plain", "ok"), (200, "text/html", "<p>ok</p>")] {
        let server = Upstream::with(move |_| respond(status, media_type, body)).await;
        let hook = json!({ "type": "http", "url": format!("http://{}/", server.addr), "on_failure": "closed" });
        let hooks = json!({ "UserPromptSubmit": [{ "hooks": [hook] }] });
        let upstream = Upstream::mock().await;
        let gate = super::gate(&upstream, "claude", &hooks).await;
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "Q" });

        let answer: Value = gate.agent().report(&event, "").await.json();

        assert_eq!(answer["decision"], "deny", "{status}: {answer}");
    }
}

#[tokio::test]
async fn an_http_hook_that_breaks_off_after_its_head_fails() {
    for (fields, is_denied) in [
        ("content-type: application/json\r\n", true),
        ("content-type: text/plain\r\n", true),
        ("", true),
        ("content-length: 0\r\n", false),
        ("transfer-encoding: chunked\r\n\r\n0\r\n", false),
    ] {
        let server = Upstream::raw(move |_, mut socket| async move {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            socket.write_all(answer.as_bytes()).await.unwrap();
        })
        .await;
        let hook = json!({ "type": "http", "url": format!("http://{}/", server.addr), "on_failure": "closed" });
        let hooks = json!({ "UserPromptSubmit": [{ "hooks": [hook] }] });
        let upstream = Upstream::mock().await;
        let gate = super::gate(&upstream, "claude", &hooks).await;
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "Q" });

        let answer: Value = gate.agent().report(&event, "").await.json();

        assert_eq!(
            answer["decision"] == "deny",
            is_denied,
            "{fields}: {answer}"
        );
    }
}
