//! Agents with hooks of their own: `hookgate forward` hands their events on.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::harness::{TestGateway, Upstream, hook, hookgate, run};

/// Runs `forward` as an agent would run a hook.
async fn forward(url: &str, more: &[&str], event: &Value) -> Output {
    let mut command = hookgate(&["forward", "--url", url]);
    command.args(more);
    let event = event.to_string();
    let wait = move || {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    spawn_blocking(wait).await.unwrap()
}

fn shell(command: &str) -> Value {
    json!({
        "session_id": "laptop-1",
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
        "tool_input": { "command": command },
    })
}

async fn gate() -> TestGateway {
    let upstream = Upstream::mock().await;
    let guard = hook::running(
        "guard",
        "grep -q 'rm -rf' && { echo 'not that' >&2; exit 2; }; exit 0",
    );
    TestGateway::start(&upstream, &hook::config(&[("BeforeTool", guard)])).await
}

#[tokio::test]
async fn what_the_organisations_hooks_say_is_the_hooks_output() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);

    let refused = forward(&url, &[], &shell("rm -rf /")).await;
    let allowed = forward(&url, &[], &shell("ls")).await;

    let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(said, json!({ "decision": "deny", "reason": "not that" }));
    assert_eq!(refused.status.code(), Some(0));
    assert_eq!(allowed.stdout, b"{}\n");
    assert_eq!(allowed.status.code(), Some(0));
}

#[tokio::test]
async fn an_event_that_nobody_waits_for_has_no_output() {
    let gate = gate().await;
    let url = format!("http://{}", gate.agents);
    let event = json!({ "hook_event_name": "SessionEnd", "reason": "exit" });

    let output = forward(&url, &[], &event).await;

    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
}

#[tokio::test]
async fn a_gateway_that_cannot_be_asked_warns_or_refuses() {
    // Bound and never served: nobody answers there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let quick = ["--timeout", "300"];

    let open = forward(&url, &quick, &shell("ls")).await;
    let closed = [&quick[..], &["--on-failure", "closed"]].concat();
    let closed = forward(&url, &closed, &shell("ls")).await;
    let nonsense = forward(&format!("http://{}", gate().await.agents), &[], &json!([])).await;

    assert_eq!(open.status.code(), Some(1));
    assert_eq!(closed.status.code(), Some(2));
    assert_eq!(nonsense.status.code(), Some(1));
    for output in [open, closed, nonsense] {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("hookgate: the gateway "), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_settings_for_agents_are_hooks_that_forward() {
    let mut files = 0;
    for entry in fs::read_dir("config/agents").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let hooks = settings["hooks"].as_object().unwrap();
        assert!(hooks.contains_key("BeforeTool"), "{}", path.display());
        for group in hooks.values().flat_map(|it| it.as_array().unwrap()) {
            let command = group["hooks"][0]["command"].as_str().unwrap();
            let words: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
            let (code, ..) = run(&words, Path::new("."));
            assert_eq!(code, 0, "{command}");
        }
        files += 1;
    }
    assert_eq!(files, 4);
}

#[tokio::test]
async fn a_key_in_a_file_is_shown_to_a_gateway_that_asks_who_calls() {
    let upstream = Upstream::mock().await;
    let sha256 = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"; // of `k`
    let config = format!("auth: {{ keys: [{{ name: laptop, sha256: {sha256} }}] }}");
    let files = [("key", "k\n"), ("empty", "\n")];
    let gate = TestGateway::with_files(&upstream, &config, &files).await;
    let url = format!("http://{}", gate.agents);
    let shown = async |file: &str| {
        let file = gate.path(file).display().to_string();
        let more = ["--key-file", &file];
        forward(&url, &more, &shell("ls")).await.status.code()
    };

    assert_eq!(shown("key").await, Some(0));
    for wrong in ["empty", "missing"] {
        assert_eq!(shown(wrong).await, Some(1), "{wrong}");
    }
    let without = forward(&url, &["--on-failure", "closed"], &shell("ls")).await;
    assert_eq!(without.status.code(), Some(2));
}
