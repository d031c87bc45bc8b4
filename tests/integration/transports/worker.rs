//! `worker`: long-lived hook processes that handle many events.

mod examples;
mod termination;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Process, assert_denied, config, hook_processes};
use crate::harness::{Answer, TEST_TIMEOUT, TestGateway, Upstream, eventually, processes, prompt};

/// A worker script. It appends its process id to `starts`, then runs `on_call` for
/// each call, with the line in `$line`, the call's id in `$id`, and the function
/// `answer`. It runs `on_end` at the end of its input.
pub(super) fn worker(on_call: &str, on_end: &str) -> String {
    format!(
        r#"echo "$$" >> starts
        answer() {{ printf '{{"id":"%s","output":%s}}\n' "$id" "$1"; }}
        while IFS= read -r line; do
            id=${{line#*'"id":"'}}; id=${{id%%'"'*}}
            {on_call}
        done
        {on_end}"#
    )
}

/// A gateway with one worker and a mock upstream.
struct Fixture {
    upstream: Upstream,
    gate: TestGateway,
    /// The environment variable that marks the hook's processes.
    mark: String,
}

impl Fixture {
    async fn new(on_call: &str) -> Self {
        Self::with(json!({ "command": worker(on_call, "") }), "").await
    }

    async fn with(mut hook: Value, more: &str) -> Self {
        let mark = format!("HOOKGATE_MARK={}", Uuid::new_v4());
        let (name, value) = mark.split_once('=').unwrap();
        hook["type"] = json!("worker");
        hook["env"] = json!({ name: value });
        let upstream = Upstream::mock().await;
        let config = config("BeforeModel", &hook) + more;
        let gate = TestGateway::start(&upstream, &config).await;
        Self {
            upstream,
            gate,
            mark,
        }
    }

    async fn call(&self) -> Answer {
        self.gate.agent().generate("m", &prompt("hello")).await
    }

    #[track_caller]
    fn assert_starts(&self, expected: usize) {
        assert_eq!(self.gate.file("starts").lines().count(), expected);
    }

    async fn until_no_process(&self) {
        let no_process = || processes(&self.mark).is_empty();
        eventually("no process is left", TEST_TIMEOUT, no_process).await;
    }
}

#[tokio::test]
async fn one_process_answers_many_calls() {
    let change = r#"{"hookSpecificOutput":{"llm_request":{"model":"other"}}}"#;
    let fixture = Fixture::new(&format!("echo \"$line\" >> lines; answer '{change}'")).await;
    fixture.assert_starts(0);

    for _ in 0..5 {
        assert_eq!(fixture.call().await.status, 200);
    }

    fixture.assert_starts(1);
    let lines = fixture.gate.file("lines");
    let calls: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(calls.len(), 5);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(calls[0]["input"]["hook_event_name"], "BeforeModel");
    let messages = &calls[0]["input"]["llm_request"]["messages"];
    assert_eq!(messages[0]["content"], "hello");
    let paths = fixture
        .upstream
        .requests()
        .into_iter()
        .map(|request| request.path);
    assert!(paths.into_iter().all(|path| path.contains("/other:")));
    assert_eq!(hook_processes(&fixture.gate).await, 1);
}

#[tokio::test]
async fn a_multi_line_document_reaches_the_worker_on_one_line() {
    let hook = json!({
        "command": worker("echo \"$line\" >> lines; answer '{}'", ""),
        "document": true,
    });
    let fixture = Fixture::with(hook, "").await;
    let text = "cut\u{2028}here\u{85}and\u{2029}there";
    let body = format!("{:#}", prompt(text)).replace('\n', "\r\n");

    let path = "/v1beta/models/m:generateContent";
    let answer = fixture.gate.agent().post(path, body.clone()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines = fixture.gate.file("lines");
    assert_eq!(lines.lines().count(), 1);
    assert!(!lines.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r']));
    let call: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(call["input"]["document"], prompt(text));
    assert_eq!(fixture.upstream.only_request().body, body);
}

#[tokio::test]
async fn a_worker_keeps_running_after_a_denial() {
    let fixture = Fixture::new(r#"answer '{"decision":"deny","reason":"not today"}'"#).await;

    for _ in 0..2 {
        assert_denied(&fixture.call().await, "not today");
    }

    fixture.assert_starts(1);
    assert!(fixture.upstream.requests().is_empty());
}

#[tokio::test]
async fn an_output_that_is_not_an_object_fails_the_call_not_the_worker() {
    for output in ["null", "[{}]", "\"yes\"", "1"] {
        let fixture = Fixture::new(&format!("answer '{output}'")).await;

        for _ in 0..2 {
            let reason = "Hook guard failed: output is not a JSON object";
            assert_denied(&fixture.call().await, reason);
        }

        fixture.assert_starts(1);
    }
}

#[tokio::test]
async fn a_denial_in_one_of_several_outputs_of_a_line_counts() {
    let (deny, none) = (r#"{"decision":"deny","reason":"not today"}"#, "{}");
    let outputs = [(deny, none), (none, deny)];
    for (first, second) in outputs {
        let answer = format!("answer '{first},\"output\":{second}'");
        let hook = json!({ "command": worker(&answer, ""), "on_failure": "open" });
        let fixture = Fixture::with(hook, "").await;

        assert_denied(&fixture.call().await, "not today");
    }
}

#[tokio::test]
async fn several_outputs_of_a_line_without_a_denial_fail_the_call() {
    let fixture = Fixture::new(r#"answer '{},"output":{}'"#).await;

    let reason = "Hook guard failed: unexpected output line";
    assert_denied(&fixture.call().await, reason);
}

/// Commands that a worker runs instead of answering, and the reported failures.
const FAULTS: &[(&str, &str)] = &[
    ("exit 0", "process exited unexpectedly"),
    ("kill -9 $$", "process exited unexpectedly"),
    ("sleep 600 & exit 0", "process exited unexpectedly"),
    ("printf '{\"id\":'; exit", "process exited unexpectedly"),
    ("echo ready", "unexpected output line"),
    ("echo", "unexpected output line"),
    ("id=other; answer '{}'", "unexpected output line"),
    ("answer '{\"unfinished\":'", "unexpected output line"),
    (
        "answer \"\\\"$(printf '%5000s')\\\"\"",
        "output limit exceeded",
    ),
    ("cat /dev/zero", "output limit exceeded"),
];

#[tokio::test]
async fn a_worker_that_does_not_answer_fails_its_call_and_is_restarted() {
    for (fault, reason) in FAULTS {
        let once = format!("[ -e once ] || {{ touch once; {fault}; }}\nanswer '{{}}'");
        let hook = json!({ "command": worker(&once, "") });
        let fixture = Fixture::with(hook, "limits: { hook_output: 4KiB }").await;

        let reason = format!("Hook guard failed: {reason}");
        assert_denied(&fixture.call().await, &reason);
        assert_eq!(fixture.call().await.status, 200, "{fault}");

        fixture.assert_starts(2);
        assert_eq!(fixture.upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_worker_that_fails_open_lets_the_call_pass() {
    let fixture = Fixture::with(
        json!({ "command": worker("exit 1", ""), "on_failure": "open" }),
        "",
    )
    .await;

    assert_eq!(fixture.call().await.status, 200);

    assert_eq!(fixture.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_worker_killed_during_a_call_fails_it_and_is_restarted() {
    let fixture = Fixture::new("[ -e once ] || { touch once; read -r _; }; answer '{}'").await;
    let kill = async {
        let called = || fixture.gate.path("once").exists();
        eventually("the worker is called", TEST_TIMEOUT, called).await;
        let id = fixture.gate.file("starts").trim().parse().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    };

    let (answer, ()) = tokio::join!(fixture.call(), kill);

    assert_denied(&answer, "Hook guard failed: process exited unexpectedly");
    assert_eq!(fixture.call().await.status, 200);
    fixture.assert_starts(2);
}

#[tokio::test]
async fn a_worker_with_unrequested_output_is_restarted_and_no_call_fails() {
    let fixture = Fixture::new("answer '{}'; echo unasked").await;

    for _ in 0..3 {
        assert_eq!(fixture.call().await.status, 200);
        fixture.until_no_process().await;
    }

    fixture.assert_starts(3);
}

#[tokio::test]
async fn the_exit_of_an_idle_worker_is_noticed_although_its_child_holds_the_pipes() {
    let fixture = Fixture::new("sleep 600 & answer '{}'; exit").await;

    for _ in 0..2 {
        assert_eq!(fixture.call().await.status, 200);
        fixture.until_no_process().await;
    }

    fixture.assert_starts(2);
}

#[tokio::test]
async fn a_worker_that_cannot_run_is_restarted_with_backoff() {
    let fixture = Fixture::with(json!({ "command": "echo $$ >> starts; exit 1" }), "").await;
    let started = Instant::now();

    for _ in 0..4 {
        assert_eq!(fixture.call().await.status, 403);
    }

    // At least half of 100 ms, 200 ms and 400 ms.
    assert!(started.elapsed() >= Duration::from_millis(350));
    fixture.assert_starts(4);
}

#[tokio::test]
async fn an_answer_after_the_timeout_is_discarded() {
    let slow = "[ -e once ] || { touch once; until [ -e go ]; do sleep 0.01; done; }";
    let hook = json!({
        "command": worker(&format!("{slow}; answer '{{}}'"), ""),
        "timeout": 1000,
    });
    let fixture = Fixture::with(hook, "").await;

    let answer = fixture.call().await;
    std::fs::write(fixture.gate.path("go"), "").unwrap();

    assert_denied(&answer, "Hook guard failed: timed out");
    // The worker is kept, as it does answer in the end.
    assert_eq!(fixture.call().await.status, 200);
    fixture.assert_starts(1);
}

#[tokio::test]
async fn a_worker_that_hangs_is_terminated_with_its_children() {
    let hang = "[ -e once ] && mkdir hung && sleep 600; touch once; answer '{}'";
    let hook = json!({ "command": worker(hang, ""), "timeout": 1000 });
    let fixture = Fixture::with(hook, "").await;
    assert_eq!(fixture.call().await.status, 200);

    let answer = fixture.call().await;

    assert_denied(&answer, "Hook guard failed: timed out");
    fixture.until_no_process().await;
    assert_eq!(fixture.call().await.status, 200);
    fixture.assert_starts(2);
}

#[tokio::test]
async fn a_worker_that_starts_slowly_answers_later_calls() {
    let command = format!("sleep 4; {}", worker("answer '{}'", ""));
    let hook = json!({ "command": command, "timeout": 1000 });
    let fixture = Fixture::with(hook, "").await;

    let answer = fixture.call().await;

    assert_denied(&answer, "Hook guard failed: timed out");
    let started = || fixture.gate.path("starts").exists();
    eventually("the worker has started", TEST_TIMEOUT, started).await;
    assert_eq!(fixture.call().await.status, 200);
    fixture.assert_starts(1);
}

#[tokio::test]
async fn a_worker_whose_later_starts_are_slower_answers_again() {
    let on_call = "answer '{}'; [ -e slow ] || { touch slow; exit; }";
    let command = format!("[ ! -e slow ] || sleep 4; {}", worker(on_call, ""));
    let hook = json!({ "command": command, "timeout": 1000 });
    let fixture = Fixture::with(hook, "").await;
    assert_eq!(fixture.call().await.status, 200);

    let deadline = Instant::now() + 2 * TEST_TIMEOUT;
    while fixture.call().await.status != 200 {
        assert!(Instant::now() < deadline, "the worker never starts");
    }
}

#[tokio::test]
async fn a_disconnected_agent_fails_no_other_call() {
    let slow = "[ -e once ] || { touch once; until [ -e go ]; do sleep 0.01; done; }";
    let fixture = Fixture::new(&format!("{slow}; answer '{{}}'")).await;
    let agent = fixture.gate.agent();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    let called = || fixture.gate.path("once").exists();
    eventually("the worker is called", TEST_TIMEOUT, called).await;

    call.abort();
    let other = fixture.call();
    let go = async { std::fs::write(fixture.gate.path("go"), "").unwrap() };
    let (answer, ()) = tokio::join!(other, go);

    assert_eq!(answer.status, 200, "{}", answer.text());
    fixture.assert_starts(1);
}

#[tokio::test]
async fn a_hundred_calls_share_two_processes() {
    let echo = r#"[[ $line =~ call-[0-9]+ ]]
        answer '{"decision":"deny","reason":"'"${BASH_REMATCH[0]}"'"}'"#;
    let hook = json!({ "command": worker(echo, ""), "instances": 2 });
    let fixture = Fixture::with(hook, "").await;
    let agent = fixture.gate.agent();

    let calls = (0..100).map(|number| {
        let (agent, text) = (agent.clone(), format!("call-{number}."));
        async move { agent.generate("m", &prompt(&text)).await }
    });
    let answers = join_all(calls).await;

    for (number, answer) in answers.iter().enumerate() {
        assert_denied(answer, &format!("call-{number}"));
    }
    fixture.assert_starts(2);
    assert_eq!(hook_processes(&fixture.gate).await, 2);
}

#[tokio::test]
async fn instances_handle_calls_concurrently() {
    // Each waits for the other; one after the other, they would time out.
    let meet =
        "touch here-$$; until [ $(ls here-* | wc -l) = 2 ]; do sleep 0.01; done; answer '{}'";
    let hook = json!({ "command": worker(meet, ""), "instances": 2, "timeout": 20_000 });
    let fixture = Fixture::with(hook, "").await;

    let (one, other) = tokio::join!(fixture.call(), fixture.call());

    assert_eq!((one.status, other.status), (200, 200));
}

#[tokio::test]
async fn a_worker_runs_in_the_config_folder_without_a_session_id() {
    let env =
        r#"answer '{"decision":"deny","reason":"'"$PWD $GEMINI_CWD ${GEMINI_SESSION_ID-none}"'"}'"#;
    let fixture = Fixture::new(env).await;

    let folder = fixture.gate.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');

    assert_denied(&fixture.call().await, &format!("{folder} {folder} none"));
}

#[tokio::test]
async fn stderr_of_a_worker_is_logged_within_limits() {
    let upstream = Upstream::mock().await;
    let print_stderr =
        "printf 'odd \\033[1m thing\\n%5000s\\n' x >&2; seq 500 >&2; answer '{}'; exit 1";
    let hook = json!({ "type": "worker", "command": worker(print_stderr, "") });
    let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
    let mark = gateway.served.mark.clone();

    let answer = gateway.agent.generate("m", &prompt("hello")).await;
    let log = gateway.stop().await;

    assert_eq!(answer.status, 200);
    assert!(processes(&mark).is_empty());
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("worker stderr"))
        .collect();
    assert!(lines[0].contains("WARN") && lines[0].contains(r#"hook.name="guard""#));
    assert!(
        lines[0].contains("odd ") && !log.contains('\u{1b}'),
        "{}",
        lines[0]
    );
    assert!((2..=60).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().all(|line| line.len() < 1200), "{lines:#?}");
    let failed = |line: &&str| {
        line.contains("worker failed") && line.contains("process exited unexpectedly")
    };
    assert!(log.lines().any(|line| failed(&line)), "{log}");
}
