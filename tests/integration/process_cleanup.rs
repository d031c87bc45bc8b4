//! Cleanup of hook processes: none outlives the call that it runs for.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use uuid::Uuid;

use crate::harness::{
    ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, eventually, hookgate, processes, prompt,
};

/// Time within which a hook that does not ignore SIGTERM must be gone.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Time within which a hook that ignores SIGTERM must be gone. It is killed after two seconds;
/// the rest is for a busy machine.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A hook that starts a child process and waits for it.
const WAITING_HOOK: &str = "cat > /dev/null; sleep 600 & wait";

/// A hook that does the same and ignores SIGTERM.
const SIGTERM_IGNORING_HOOK: &str = "trap '' TERM; cat > /dev/null; sleep 600 & wait";

/// Starts a gateway with this hook on `event`. Returns it with the marker that is in the
/// environment of the hook's processes.
async fn start(
    upstream: &Upstream,
    event: &str,
    command: &str,
    more_config: &str,
) -> (TestGateway, String) {
    let marker = format!("HOOKGATE_MARK={}", Uuid::new_v4());
    let (name, value) = marker.split_once('=').unwrap();
    let hook = json!({ "command": command, "env": { name: value }, "on_failure": "closed" });
    let config = format!("{more_config}\nhooks: {{ {event}: [{{ hooks: [{hook}] }}] }}");
    (TestGateway::start(upstream, &config).await, marker)
}

async fn wait_until_hook_runs(marker: &str) {
    eventually("the hook and its child run", TERMINATION_TIMEOUT, || {
        processes(marker).len() >= 2
    })
    .await;
}

async fn wait_until_processes_are_gone(marker: &str, within: Duration) {
    eventually("no process is left", within, || {
        processes(marker).is_empty()
    })
    .await;
}

/// Sends a request, and closes the connection when the hook runs.
async fn call_and_disconnect(gate: &TestGateway, path: &str, marker: &str) {
    call_with_more_and_disconnect(gate, path, "", marker).await;
}

/// Does the same with `more` behind the request.
async fn call_with_more_and_disconnect(gate: &TestGateway, path: &str, more: &str, marker: &str) {
    let body = prompt("hello").to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    let sent = head + &body + more;
    socket.write_all(sent.as_bytes()).await.unwrap();
    wait_until_hook_runs(marker).await;
}

#[tokio::test]
async fn a_disconnected_agent_terminates_its_hooks() {
    for event in ["BeforeModel", "BeforeToolSelection", "AfterModel"] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let upstream = Upstream::mock().await;
            let (gate, marker) = start(&upstream, event, WAITING_HOOK, "").await;

            call_and_disconnect(&gate, &format!("/v1beta/models/m:{method}"), &marker).await;

            wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
            assert_eq!(
                upstream.requests().len(),
                usize::from(event == "AfterModel")
            );
        }
    }
}

#[tokio::test]
async fn a_disconnect_behind_more_input_terminates_the_hooks() {
    let large = "x".repeat(1 << 16);
    for more in ["\r\n", "GET / HTTP/1.1\r\nhost: x\r\n\r\n", &large] {
        let upstream = Upstream::mock().await;
        let (gate, marker) = start(&upstream, "BeforeModel", WAITING_HOOK, "").await;
        let path = "/v1beta/models/m:generateContent";

        call_with_more_and_disconnect(&gate, path, more, &marker).await;

        wait_until_processes_are_gone(&marker, 2 * TERMINATION_TIMEOUT).await;
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn a_disconnect_after_keep_alives_terminates_the_hooks() {
    // The agent disconnects after the first keep-alive.
    let upstream = Upstream::mock().await;
    let short_keep_alive = "timeouts: { keep_alive: 20ms }";
    let (gate, marker) = start(&upstream, "BeforeModel", WAITING_HOOK, short_keep_alive).await;

    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let answer = gate.agent().open(path, prompt("hello").to_string()).await;
    wait_until_hook_runs(&marker).await;
    drop(answer);

    wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_disconnect_from_the_events_endpoint_terminates_the_hooks() {
    let upstream = Upstream::mock().await;
    let (gate, marker) = start(&upstream, "BeforeTool", WAITING_HOOK, "").await;
    let event = r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":{}}"#;
    let length = event.len();
    let request = format!(
        "POST /hookgate/v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{event}"
    );
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    wait_until_hook_runs(&marker).await;
    drop(socket);

    wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
}

#[tokio::test]
async fn a_hook_that_ignores_sigterm_is_killed() {
    let upstream = Upstream::mock().await;
    let (gate, marker) = start(&upstream, "BeforeModel", SIGTERM_IGNORING_HOOK, "").await;
    let started = Instant::now();

    call_and_disconnect(&gate, "/v1beta/models/m:generateContent", &marker).await;

    wait_until_processes_are_gone(&marker, KILL_TIMEOUT).await;
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_hook_over_its_timeout_is_terminated() {
    let upstream = Upstream::mock().await;
    let defaults = "hook_defaults: { timeout: 300 }";
    let (gate, marker) = start(&upstream, "BeforeModel", WAITING_HOOK, defaults).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert!(answer.text().contains("timed out"), "{}", answer.text());
    wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
}

#[tokio::test]
async fn a_background_process_of_a_hook_is_terminated() {
    let upstream = Upstream::mock().await;
    let background_hook = "cat > /dev/null; sleep 600 > /dev/null 2>&1 & exit 0";
    let (gate, marker) = start(&upstream, "BeforeModel", background_hook, "").await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
}

#[tokio::test]
async fn shutdown_terminates_running_hooks() {
    let upstream = Upstream::mock().await;
    let drain = "timeouts: { drain: 200ms }";
    let (gate, marker) = start(&upstream, "BeforeModel", WAITING_HOOK, drain).await;
    let agent = gate.agent();
    let call = tokio::spawn(async move {
        let path = "/v1beta/models/m:generateContent";
        let answer = agent.open(path, prompt("hello").to_string());
        answer.await
    });
    wait_until_hook_runs(&marker).await;

    gate.stop().await;

    assert!(processes(&marker).is_empty());
    assert!(upstream.requests().is_empty());
    call.await.ok();
}

#[tokio::test]
async fn a_signal_ends_the_hooks_of_commands() {
    let folder = TempDir::new().unwrap();
    let started = folder.path().join("started");
    let config = "upstreams: { gemini: { url: https://a.example } }
hooks: { BeforeModel: [{ hooks: [{ name: slow, on_failure: closed, must_deny: [{ prompt: x }],
  command: 'cat > /dev/null; sleep 600 & touch started; wait' }] }] }";
    let event = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;
    let cases = format!(
        "config: hookgate.yaml\ncases: [{{ name: a, request: {event}, expect: {{ verdict: proceed }} }}]"
    );
    for (name, text) in [
        ("hookgate.yaml", config),
        ("event.json", event),
        ("cases.yaml", &cases),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (arguments, signal, code) in [
        (&["check", "hookgate.yaml", "--prove"][..], Signal::INT, 130),
        (&["test", "cases.yaml"], Signal::TERM, 143),
        (
            &["explain", "--config", "hookgate.yaml", "event.json"],
            Signal::INT,
            130,
        ),
    ] {
        fs::remove_file(&started).ok();
        let mut command = hookgate(arguments);
        command.current_dir(folder.path());
        let process = ServerProcess::start(command);
        let marker = process.mark.clone();
        eventually("the hook runs", TEST_TIMEOUT, || started.exists()).await;
        // The command itself has the marker, too.
        assert!(processes(&marker).len() >= 3, "{arguments:?}");

        process.signal(signal);
        let ended = tokio::task::spawn_blocking(move || process.ended(TEST_TIMEOUT));
        let (status, stderr) = ended.await.unwrap();

        assert_eq!(status.code(), Some(code), "{arguments:?}: {stderr}");
        wait_until_processes_are_gone(&marker, TERMINATION_TIMEOUT).await;
    }
}
