//! `answer: line`: hooks that respond with their first line and may keep running.

mod after_response;

use std::{
    fs,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{assert_denied, config};
use crate::harness::{
    Agent, Answer, TEST_TIMEOUT, TestGateway, Upstream, eventually, hook, processes, prompt, run,
};

/// Settings of `prewarm`: none, and one process.
const PREWARM_COUNTS: [Option<u32>; 2] = [None, Some(1)];

/// A hook that denies on its first line, and exits when the file `go` exists.
const KEEPS_RUNNING: &str = "read -r _; echo '{\"decision\":\"deny\",\"reason\":\"no\"}'; \
     until [ -e go ]; do sleep 0.01; done; touch ended";

/// A hook that denies on its first line and never exits, with a child process.
const NEVER_EXITS: &str = "read -r _; echo '{\"decision\":\"deny\",\"reason\":\"no\"}'; \
     sleep 600 & wait";

/// Deadline for the end of terminated processes: two seconds until SIGKILL, and some
/// for a busy machine. A dead orphan counts until its new parent has reaped it.
const TERMINATION_DEADLINE: Duration = Duration::from_secs(4);

/// A gateway with one hook and a mock upstream.
struct Fixture {
    gate: TestGateway,
    upstream: Upstream,
    /// The environment variable that marks the hook's processes.
    mark: String,
    prewarm_count: usize,
    /// The processes that were prewarmed at the start.
    first_prewarmed: Vec<u32>,
}

impl Fixture {
    async fn start(command: &str, prewarm: Option<u32>) -> Self {
        Self::with(line_hook(command, prewarm), "").await
    }

    async fn with(hook: Value, more: &str) -> Self {
        Self::with_upstream(Upstream::mock().await, hook, more).await
    }

    async fn with_upstream(upstream: Upstream, mut hook: Value, more: &str) -> Self {
        let mark = mark(&mut hook);
        let prewarm_count = hook["prewarm"].as_u64().unwrap_or(0);
        let config = config("BeforeModel", &hook) + more;
        let mut fixture = Self {
            gate: TestGateway::start(&upstream, &config).await,
            upstream,
            mark,
            prewarm_count: prewarm_count.try_into().unwrap(),
            first_prewarmed: Vec::new(),
        };
        fixture.until_idle(TEST_TIMEOUT).await;
        fixture.first_prewarmed = processes(&fixture.mark);
        fixture
    }

    async fn call(&self) -> Answer {
        self.gate.agent().generate("m", &prompt("hello")).await
    }

    /// Waits until only prewarmed processes are left, and none of the first ones.
    async fn until_idle(&self, time: Duration) {
        let only_prewarmed = || {
            let alive = processes(&self.mark);
            alive.len() == self.prewarm_count
                && !self.first_prewarmed.iter().any(|id| alive.contains(id))
        };
        eventually("only prewarmed processes are left", time, only_prewarmed).await;
    }

    /// Waits until the hook that has responded runs with its child.
    async fn until_child_runs(&self) {
        let is_there = || processes(&self.mark).len() == 2 + self.prewarm_count;
        eventually("the hook and its child run", TEST_TIMEOUT, is_there).await;
    }

    /// Lets the hook `KEEPS_RUNNING` exit.
    fn release(&self) {
        fs::write(self.gate.path("go"), "").unwrap();
    }
}

fn line_hook(command: &str, prewarm: Option<u32>) -> Value {
    let mut hook = json!({ "command": command, "answer": "line" });
    if let Some(count) = prewarm {
        hook["prewarm"] = json!(count);
    }
    hook
}

/// Marks the processes of a hook by an environment variable, and returns it.
fn mark(hook: &mut Value) -> String {
    let mark = Uuid::new_v4().to_string();
    hook["env"] = json!({ "HOOKGATE_MARK": mark });
    format!("HOOKGATE_MARK={mark}")
}

fn spawn_call(agent: Agent) -> JoinHandle<Answer> {
    tokio::spawn(async move { agent.generate("m", &prompt("hello")).await })
}

/// Checks the outcome of commands that a hook runs after it has read its event: a
/// denial with this reason, or none.
async fn check(cases: &[(String, Option<&str>)]) {
    for prewarm in PREWARM_COUNTS {
        let checks = cases
            .iter()
            .map(|(command, reason)| check_one(command, prewarm, *reason));
        join_all(checks).await;
    }
}

async fn check_one(command: &str, prewarm: Option<u32>, reason: Option<&str>) {
    let mut hook = line_hook(&format!("read -r _; {command}"), prewarm);
    hook["timeout"] = json!(3000);
    let fixture = Fixture::with(hook, "\nlimits: { hook_output: 1KiB }").await;

    let answer = fixture.call().await;

    match reason {
        Some(reason) => assert_denied(&answer, reason),
        None => assert_eq!(answer.status, 200, "{command}: {}", answer.text()),
    }
    fixture.gate.stop().await;
    assert_eq!(processes(&fixture.mark), [0; 0], "{command}");
}

#[tokio::test]
async fn a_line_of_output_is_the_response_before_the_process_exits() {
    for prewarm in PREWARM_COUNTS {
        let fixture = Fixture::start(KEEPS_RUNNING, prewarm).await;

        let answer = fixture.call().await;

        assert_denied(&answer, "no");
        assert!(!fixture.gate.path("ended").exists());
        fixture.release();
        // During `exec` a process has no environment for a moment, and no mark.
        let ended = || fixture.gate.path("ended").exists();
        eventually("the hook has ended", TEST_TIMEOUT, ended).await;
        fixture.until_idle(TEST_TIMEOUT).await;

        // By default the gateway waits for the exit.
        let mut exit_hook = line_hook(KEEPS_RUNNING, prewarm);
        exit_hook["answer"] = json!("exit");
        exit_hook["timeout"] = json!(300);
        let fixture = Fixture::with(exit_hook, "").await;
        let answer = fixture.call().await;
        assert_denied(&answer, "Hook guard failed: timed out");
    }
}

#[tokio::test]
async fn output_and_exit_code_after_the_first_line_are_ignored() {
    let no = r#"{"decision":"deny","reason":"no"}"#;
    check(&[
        (format!("echo '{no}'"), Some("no")),
        (format!("echo '{no}'; exit 2"), Some("no")),
        (format!("echo '{no}'; echo other >&2; exit 2"), Some("no")),
        (format!("echo '{no}'; exit 1"), Some("no")),
        (format!("echo ' {no} '; echo '{{}}'"), Some("no")),
        (format!("printf '{no}\\r\\n{{}}'"), Some("no")),
        (
            format!("printf '{no}\\n'; exec >&- 2>&-; exit 2"),
            Some("no"),
        ),
        ("echo '{}'; echo no >&2; exit 2".to_owned(), None),
        ("echo '{\"decision\":\"allow\"}'; exit 2".to_owned(), None),
        (format!("printf '{{}}\\n{no}\\n'"), None),
        ("echo '{}'; kill -9 $$".to_owned(), None),
        ("echo '{}'; sleep 600".to_owned(), None),
    ])
    .await;
}

#[tokio::test]
async fn without_a_json_object_on_the_first_line_the_exit_is_awaited() {
    let failed = |cause: &str| format!("Hook guard failed: {cause}");
    let timed_out = failed("timed out");
    let ambiguous = "{\"decision\":\"allow\",\"decision\":\"deny\",\"reason\":\"no\"}";
    let pretty = "{\\n\"decision\": \"deny\",\\n\"reason\": \"no\"\\n}\\n";
    check(&[
        // The line is written in pieces.
        (
            "printf '{\"decision\":\"deny\",'; sleep 0.2; printf '\"reason\":\"no\"}'; \
                 sleep 0.2; echo; sleep 600"
                .to_owned(),
            Some("no"),
        ),
        // The line is not terminated.
        ("printf '{}'; echo no >&2; exit 2".to_owned(), Some("no")),
        (
            "printf '{}'; exit 1".to_owned(),
            Some(&failed("exit code 1")),
        ),
        ("printf '{}'; sleep 600".to_owned(), Some(&timed_out)),
        ("printf '{}'".to_owned(), None),
        ("true".to_owned(), None),
        ("echo no >&2; exit 2".to_owned(), Some("no")),
        // The first line is not a JSON object.
        ("echo hello; sleep 600".to_owned(), Some(&timed_out)),
        ("echo; echo '{}'; sleep 600".to_owned(), Some(&timed_out)),
        ("echo hello; exit 2".to_owned(), Some("hello")),
        (
            "echo hello; echo '{}'; exit 2".to_owned(),
            Some("hello\n{}"),
        ),
        ("echo '[]'; echo no >&2; exit 2".to_owned(), Some("no")),
        ("echo '\"{}\"'; echo no >&2; exit 2".to_owned(), Some("no")),
        ("echo '{'; echo no >&2; exit 2".to_owned(), Some("no")),
        ("echo '{}{}'; echo no >&2; exit 2".to_owned(), Some("no")),
        (format!("printf '{pretty}'"), Some("no")),
        // The line is ambiguous.
        (format!("echo '{ambiguous}'; sleep 600"), Some(&timed_out)),
        (
            format!("echo '{ambiguous}'"),
            Some(&failed(
                "output is ambiguous JSON: duplicate key, or nested too deeply",
            )),
        ),
        // The output exceeds its limit.
        (
            "printf '{\"a\":\"%1100s\"}\\n' x".to_owned(),
            Some(&failed("output limit exceeded")),
        ),
        (
            "head -c 2000 /dev/zero >&2; sleep 0.2; echo '{}'".to_owned(),
            Some(&failed("output limit exceeded")),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_disconnect_before_the_response_terminates_the_hook() {
    let waits = "read -r _; printf '{}'; touch waits; sleep 600 & wait";
    for prewarm in PREWARM_COUNTS {
        let fixture = Fixture::start(waits, prewarm).await;
        let call = spawn_call(fixture.gate.agent());
        let waits = || fixture.gate.path("waits").exists();
        eventually("the hook waits", TEST_TIMEOUT, waits).await;

        call.abort();

        fixture.until_idle(TERMINATION_DEADLINE).await;
    }
}

#[test]
fn hookgate_test_accepts_the_line_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let mut guard = line_hook(NEVER_EXITS, Some(1));
    guard["name"] = json!("guard");
    let mark = mark(&mut guard);
    let upstream = "upstreams: { gemini: { url: \"http://a\" } }\n";
    let hooks = hook::config(&[("BeforeTool", guard)]);
    file("hookgate.yaml", &format!("{upstream}{hooks}"));
    file(
        "cases.yaml",
        "config: hookgate.yaml\ncases:\n  - name: a line is an answer\n    \
         event: { hook_event_name: BeforeTool, tool_name: a, tool_input: {} }\n    \
         expect: { verdict: deny, reason: no }\n",
    );
    let started = Instant::now();

    let (code, stdout, stderr) = run(&["test", "cases.yaml"], folder.path());

    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(started.elapsed() < TEST_TIMEOUT);
    assert_eq!(processes(&mark), [0; 0]);
}
