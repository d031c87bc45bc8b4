//! No hook process outlives the call that it runs for.

use std::time::Duration;

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use uuid::Uuid;

use crate::harness::{TestGateway, Upstream, eventually, processes, prompt};

/// How long a hook that ends when asked may stay.
const POLITE: Duration = Duration::from_secs(2);

/// And one that must be killed: two more seconds, and some for a busy machine.
const KILLED: Duration = Duration::from_secs(5);

/// A hook that starts a child of its own and waits for ever.
const WAITS: &str = "cat > /dev/null; sleep 600 & wait";

/// The same, when asked to end does not.
const STAYS: &str = "trap '' TERM; cat > /dev/null; sleep 600 & wait";

/// A gate with this hook on `event`, and the mark that its processes carry.
async fn start(
    upstream: &Upstream,
    event: &str,
    command: &str,
    more: &str,
) -> (TestGateway, String) {
    let mark = format!("HOOKGATE_MARK={}", Uuid::new_v4());
    let (name, value) = mark.split_once('=').unwrap();
    let hook = json!({ "command": command, "env": { name: value }, "on_failure": "closed" });
    let config = format!("{more}\nhooks: {{ {event}: [{{ hooks: [{hook}] }}] }}");
    (TestGateway::start(upstream, &config).await, mark)
}

async fn running(mark: &str) {
    eventually("the hook runs, and its child", POLITE, || {
        processes(mark).len() >= 2
    })
    .await;
}

async fn gone(mark: &str, within: Duration) {
    eventually("no process is left", within, || processes(mark).is_empty()).await;
}

/// Calls, and leaves when the hook runs.
async fn call_and_leave(gate: &TestGateway, path: &str, mark: &str) {
    let body = prompt("hello").to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    running(mark).await;
}

#[tokio::test]
async fn an_agent_that_leaves_takes_its_hooks_with_it() {
    for event in ["BeforeModel", "BeforeToolSelection", "AfterModel"] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let upstream = Upstream::mock().await;
            let (gate, mark) = start(&upstream, event, WAITS, "").await;

            call_and_leave(&gate, &format!("/v1beta/models/m:{method}"), &mark).await;

            gone(&mark, POLITE).await;
            assert_eq!(upstream.seen().len(), usize::from(event == "AfterModel"));
        }
    }
}

#[tokio::test]
async fn a_late_agent_that_leaves_takes_its_hooks_with_it() {
    // Keep-alives are on their way when it leaves.
    let upstream = Upstream::mock().await;
    let early = "timeouts: { keep_alive: 20ms }";
    let (gate, mark) = start(&upstream, "BeforeModel", WAITS, early).await;

    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let answer = gate.agent().open(path, prompt("hello").to_string()).await;
    running(&mark).await;
    drop(answer);

    gone(&mark, POLITE).await;
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_reporter_that_leaves_takes_its_hooks_with_it() {
    let upstream = Upstream::mock().await;
    let (gate, mark) = start(&upstream, "BeforeTool", WAITS, "").await;
    let event = r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":{}}"#;
    let length = event.len();
    let request = format!(
        "POST /hookgate/v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{event}"
    );
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    running(&mark).await;
    drop(socket);

    gone(&mark, POLITE).await;
}

#[tokio::test]
async fn a_hook_that_does_not_end_when_asked_is_killed() {
    let upstream = Upstream::mock().await;
    let (gate, mark) = start(&upstream, "BeforeModel", STAYS, "").await;

    call_and_leave(&gate, "/v1beta/models/m:generateContent", &mark).await;

    gone(&mark, KILLED).await;
}

#[tokio::test]
async fn a_hook_that_is_too_slow_does_not_stay() {
    let upstream = Upstream::mock().await;
    let defaults = "hook_defaults: { timeout: 300 }";
    let (gate, mark) = start(&upstream, "BeforeModel", WAITS, defaults).await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert!(answer.text().contains("timed out"), "{}", answer.text());
    gone(&mark, POLITE).await;
}

#[tokio::test]
async fn what_a_hook_leaves_behind_does_not_stay() {
    let upstream = Upstream::mock().await;
    let leaves = "cat > /dev/null; sleep 600 > /dev/null 2>&1 & exit 0";
    let (gate, mark) = start(&upstream, "BeforeModel", leaves, "").await;

    let answer = gate.agent().generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    gone(&mark, POLITE).await;
}

#[tokio::test]
async fn a_gateway_that_stops_leaves_no_hook() {
    let upstream = Upstream::mock().await;
    let drain = "timeouts: { drain: 200ms }";
    let (gate, mark) = start(&upstream, "BeforeModel", WAITS, drain).await;
    let agent = gate.agent();
    let call = tokio::spawn(async move {
        let path = "/v1beta/models/m:generateContent";
        let answer = agent.open(path, prompt("hello").to_string());
        answer.await
    });
    running(&mark).await;

    gate.stop().await;

    assert!(processes(&mark).is_empty());
    assert!(upstream.seen().is_empty());
    call.await.ok();
}
