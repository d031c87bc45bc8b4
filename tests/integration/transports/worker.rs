//! `worker`: the hook is a process that stays.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Process, assert_denied, config, hook_processes};
use crate::harness::{Answer, PATIENCE, TestGateway, Upstream, eventually, processes, prompt};

/// A worker that notes in `starts` that it has started, reads calls, and runs
/// `for_each`, which has the line in `$line`, the call's id in `$id`, and a
/// function to answer the call. What comes after it runs when no call will come.
pub(super) fn worker(for_each: &str, at_last: &str) -> String {
    format!(
        r#"echo "$$" >> starts
        answer() {{ printf '{{"id":"%s","output":%s}}\n' "$id" "$1"; }}
        while IFS= read -r line; do
            id=${{line#*'"id":"'}}; id=${{id%%'"'*}}
            {for_each}
        done
        {at_last}"#
    )
}

/// A gate with this worker, on a call to a mock.
struct Bench {
    upstream: Upstream,
    gate: TestGateway,
    /// What its processes carry in their environment.
    mark: String,
}

impl Bench {
    async fn new(for_each: &str) -> Self {
        Self::with(json!({ "command": worker(for_each, "") }), "").await
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

    async fn gone(&self) {
        let no_process = || processes(&self.mark).is_empty();
        eventually("no process is left", PATIENCE, no_process).await;
    }
}

#[tokio::test]
async fn one_process_answers_many_calls() {
    let change = r#"{"hookSpecificOutput":{"llm_request":{"model":"other"}}}"#;
    let bench = Bench::new(&format!("echo \"$line\" >> lines; answer '{change}'")).await;
    bench.assert_starts(0);

    for _ in 0..5 {
        assert_eq!(bench.call().await.status, 200);
    }

    bench.assert_starts(1);
    let lines = bench.gate.file("lines");
    let calls: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(calls.len(), 5);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(calls[0]["input"]["hook_event_name"], "BeforeModel");
    let messages = &calls[0]["input"]["llm_request"]["messages"];
    assert_eq!(messages[0]["content"], "hello");
    let paths = bench.upstream.seen().into_iter().map(|it| it.path);
    assert!(paths.into_iter().all(|it| it.contains("/other:")));
    assert_eq!(hook_processes(&bench.gate).await, 1);
}

#[tokio::test]
async fn a_document_of_many_lines_is_one_line() {
    let hook = json!({
        "command": worker("echo \"$line\" >> lines; answer '{}'", ""),
        "document": true,
    });
    let bench = Bench::with(hook, "").await;
    let text = "cut\u{2028}here\u{85}and\u{2029}there";
    let body = format!("{:#}", prompt(text)).replace('\n', "\r\n");

    let path = "/v1beta/models/m:generateContent";
    let answer = bench.gate.agent().post(path, body.clone()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines = bench.gate.file("lines");
    assert_eq!(lines.lines().count(), 1);
    assert!(!lines.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r']));
    let call: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(call["input"]["document"], prompt(text));
    assert_eq!(bench.upstream.only().body, body);
}

#[tokio::test]
async fn a_worker_refuses_and_stays() {
    let bench = Bench::new(r#"answer '{"decision":"deny","reason":"not today"}'"#).await;

    for _ in 0..2 {
        assert_denied(&bench.call().await, "not today");
    }

    bench.assert_starts(1);
    assert!(bench.upstream.seen().is_empty());
}

#[tokio::test]
async fn an_output_that_is_no_object_fails_the_call_alone() {
    for output in ["null", "[{}]", "\"yes\"", "1"] {
        let bench = Bench::new(&format!("answer '{output}'")).await;

        for _ in 0..2 {
            let reason = "Hook guard failed: output is not a JSON object";
            assert_denied(&bench.call().await, reason);
        }

        bench.assert_starts(1);
    }
}

/// What workers do instead of answering, and how that is reported.
const FAULTS: &[(&str, &str)] = &[
    ("exit 0", "process exited unexpectedly"),
    ("kill -9 $$", "process exited unexpectedly"),
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
async fn a_worker_that_does_not_answer_fails_its_call_and_is_started_again() {
    for (fault, reason) in FAULTS {
        let once = format!("[ -e once ] || {{ touch once; {fault}; }}\nanswer '{{}}'");
        let hook = json!({ "command": worker(&once, "") });
        let bench = Bench::with(hook, "limits: { hook_output: 4KiB }").await;

        let reason = format!("Hook guard failed: {reason}");
        assert_denied(&bench.call().await, &reason);
        assert_eq!(bench.call().await.status, 200, "{fault}");

        bench.assert_starts(2);
        assert_eq!(bench.upstream.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_worker_that_fails_open_lets_the_call_pass() {
    let bench = Bench::with(
        json!({ "command": worker("exit 1", ""), "on_failure": "open" }),
        "",
    )
    .await;

    assert_eq!(bench.call().await.status, 200);

    assert_eq!(bench.upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_worker_killed_in_mid_call_fails_it_at_once() {
    let bench = Bench::new("[ -e once ] || { touch once; read -r _; }; answer '{}'").await;
    let kill = async {
        let called = || bench.gate.path("once").exists();
        eventually("the worker is called", PATIENCE, called).await;
        let id = bench.gate.file("starts").trim().parse().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    };

    let (answer, ()) = tokio::join!(bench.call(), kill);

    assert_denied(&answer, "Hook guard failed: process exited unexpectedly");
    assert_eq!(bench.call().await.status, 200);
    bench.assert_starts(2);
}

#[tokio::test]
async fn a_worker_that_speaks_unasked_is_started_again_and_no_call_fails() {
    let bench = Bench::new("answer '{}'; echo unasked").await;

    for _ in 0..3 {
        assert_eq!(bench.call().await.status, 200);
        bench.gone().await;
    }

    bench.assert_starts(3);
}

#[tokio::test]
async fn a_worker_that_cannot_run_is_started_ever_more_seldom() {
    let bench = Bench::with(json!({ "command": "echo $$ >> starts; exit 1" }), "").await;
    let started = Instant::now();

    for _ in 0..4 {
        assert_eq!(bench.call().await.status, 403);
    }

    // 100 ms, 200 ms and 400 ms.
    assert!(started.elapsed() >= Duration::from_millis(700));
    bench.assert_starts(4);
}

#[tokio::test]
async fn a_late_answer_is_used_for_no_event() {
    let slow = "[ -e once ] || { touch once; until [ -e go ]; do sleep 0.01; done; }";
    let hook = json!({
        "command": worker(&format!("{slow}; answer '{{}}'"), ""),
        "timeout": 1000,
    });
    let bench = Bench::with(hook, "").await;

    let answer = bench.call().await;
    std::fs::write(bench.gate.path("go"), "").unwrap();

    assert_denied(&answer, "Hook guard failed: timed out");
    // It is worth waiting for.
    assert_eq!(bench.call().await.status, 200);
    bench.assert_starts(1);
}

#[tokio::test]
async fn a_worker_that_hangs_is_ended_with_its_children() {
    let hang = "[ -e once ] || { touch once; sleep 600; }; answer '{}'";
    let hook = json!({ "command": worker(hang, ""), "timeout": 1000 });
    let bench = Bench::with(hook, "").await;

    let answer = bench.call().await;

    assert_denied(&answer, "Hook guard failed: timed out");
    bench.gone().await;
    assert_eq!(bench.call().await.status, 200);
    bench.assert_starts(2);
}

#[tokio::test]
async fn an_agent_that_leaves_fails_no_other_call() {
    let slow = "[ -e once ] || { touch once; until [ -e go ]; do sleep 0.01; done; }";
    let bench = Bench::new(&format!("{slow}; answer '{{}}'")).await;
    let agent = bench.gate.agent();
    let leaving = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    let called = || bench.gate.path("once").exists();
    eventually("the worker is called", PATIENCE, called).await;

    leaving.abort();
    let other = bench.call();
    let go = async { std::fs::write(bench.gate.path("go"), "").unwrap() };
    let (answer, ()) = tokio::join!(other, go);

    assert_eq!(answer.status, 200, "{}", answer.text());
    bench.assert_starts(1);
}

#[tokio::test]
async fn a_hundred_calls_share_two_processes() {
    let echo = r#"[[ $line =~ call-[0-9]+ ]]
        answer '{"decision":"deny","reason":"'"${BASH_REMATCH[0]}"'"}'"#;
    let hook = json!({ "command": worker(echo, ""), "instances": 2 });
    let bench = Bench::with(hook, "").await;
    let agent = bench.gate.agent();

    let calls = (0..100).map(|number| {
        let (agent, text) = (agent.clone(), format!("call-{number}."));
        async move { agent.generate("m", &prompt(&text)).await }
    });
    let answers = join_all(calls).await;

    for (number, answer) in answers.iter().enumerate() {
        assert_denied(answer, &format!("call-{number}"));
    }
    bench.assert_starts(2);
    assert_eq!(hook_processes(&bench.gate).await, 2);
}

#[tokio::test]
async fn instances_work_at_the_same_time() {
    // Each waits for the other; one after the other, they would time out.
    let meet =
        "touch here-$$; until [ $(ls here-* | wc -l) = 2 ]; do sleep 0.01; done; answer '{}'";
    let hook = json!({ "command": worker(meet, ""), "instances": 2, "timeout": 20_000 });
    let bench = Bench::with(hook, "").await;

    let (one, other) = tokio::join!(bench.call(), bench.call());

    assert_eq!((one.status, other.status), (200, 200));
}

#[tokio::test]
async fn a_worker_has_its_folder_and_no_session() {
    let env =
        r#"answer '{"decision":"deny","reason":"'"$PWD $GEMINI_CWD ${GEMINI_SESSION_ID-none}"'"}'"#;
    let bench = Bench::new(env).await;

    let folder = bench.gate.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');

    assert_denied(&bench.call().await, &format!("{folder} {folder} none"));
}

#[tokio::test]
async fn a_gateway_that_stops_lets_its_workers_finish() {
    let finish = "sleep 0.1; echo bye > bye";
    let hook = json!({ "command": worker("answer '{}'", finish), "instances": 2 });
    let bench = Bench::with(hook, "").await;
    bench.call().await;
    // The gate takes its folder with it.
    let folder = tempfile::tempdir().unwrap();
    let bye = folder.path().join("bye");
    std::os::unix::fs::symlink(&bye, bench.gate.path("bye")).unwrap();

    bench.gate.stop().await;

    assert!(processes(&bench.mark).is_empty());
    assert_eq!(std::fs::read_to_string(bye).unwrap(), "bye\n");
}

#[tokio::test]
async fn a_gateway_that_stops_leaves_no_worker_that_does_not_listen() {
    let stay = "trap '' TERM; sleep 600 & wait";
    let hook = json!({ "command": worker("answer '{}'", stay) });
    let bench = Bench::with(hook, "").await;
    bench.call().await;

    bench.gate.stop().await;

    assert!(processes(&bench.mark).is_empty());
}

#[tokio::test]
async fn a_gateway_that_stops_ends_a_worker_in_mid_call() {
    let hang = worker("touch called; sleep 600", "");
    let bench = Bench::with(json!({ "command": hang }), "timeouts: { drain: 100ms }").await;
    let agent = bench.gate.agent();
    let call = tokio::spawn(async move {
        let path = "/v1beta/models/m:generateContent";
        agent.open(path, prompt("hello").to_string()).await
    });
    let called = || bench.gate.path("called").exists();
    eventually("the worker is called", PATIENCE, called).await;

    bench.gate.stop().await;

    assert!(processes(&bench.mark).is_empty());
    call.await.ok();
}

#[tokio::test]
async fn what_a_worker_complains_of_is_logged_within_bounds() {
    let upstream = Upstream::mock().await;
    let complain =
        "printf 'odd \\033[1m thing\\n%5000s\\n' x >&2; seq 500 >&2; answer '{}'; exit 1";
    let hook = json!({ "type": "worker", "command": worker(complain, "") });
    let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
    let mark = gateway.served.mark.clone();

    let answer = gateway.agent.generate("m", &prompt("hello")).await;
    let log = gateway.stop().await;

    assert_eq!(answer.status, 200);
    assert!(processes(&mark).is_empty());
    let said: Vec<&str> = log
        .lines()
        .filter(|it| it.contains("worker stderr"))
        .collect();
    assert!(said[0].contains("WARN") && said[0].contains(r#"hook.name="guard""#));
    assert!(
        said[0].contains("odd ") && !log.contains('\u{1b}'),
        "{}",
        said[0]
    );
    assert!((2..=60).contains(&said.len()), "{}", said.len());
    assert!(said.iter().all(|it| it.len() < 1200), "{said:#?}");
    let failed =
        |it: &&str| it.contains("worker failed") && it.contains("process exited unexpectedly");
    assert!(log.lines().any(|it| failed(&it)), "{log}");
}

fn is_installed(interpreter: &str) -> bool {
    let mut version = std::process::Command::new(interpreter);
    let version = version.arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

/// A gate with a worker of the examples, if its interpreter is here.
async fn example(event: &str, interpreter: &str, file: &str) -> Option<(Upstream, TestGateway)> {
    if !is_installed(interpreter) {
        return None;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples");
    let hook = json!({ "type": "worker", "command": format!("{folder}/hooks/{file}") });
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config(event, &hook)).await;
    Some((upstream, gate))
}

#[tokio::test]
async fn the_manuals_example_refuses() {
    if !is_installed("python3") {
        return;
    }
    let manual = include_str!("../../../docs/hooks.md");
    let (_, example) = manual.split_once("```python\nimport").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let hook = json!({ "type": "worker", "command": "python3 worker.py" });
    let files = [("worker.py", &*format!("import{example}"))];
    let upstream = Upstream::mock().await;
    let gate = TestGateway::with_files(&upstream, &config("BeforeTool", &hook), &files).await;
    let report = async |tool: &str| {
        let event = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });
        gate.agent().report(&event, "").await.json()
    };

    assert_eq!(report("run_shell_command").await["reason"], "no shell here");
    assert_eq!(report("glob").await, json!({}));
}

#[tokio::test]
async fn the_python_example_masks() {
    let Some((upstream, gate)) = example("BeforeModel", "python3", "mask_worker.py").await else {
        return;
    };
    let ask = async |text: &str| gate.agent().generate("m", &prompt(text)).await;

    for text in ["to a.b@example.org \u{2028}ü", "to nobody"] {
        assert_eq!(ask(text).await.status, 200);
    }

    let seen = upstream.seen();
    let masked = prompt("to [REDACTED:email] \u{2028}ü");
    assert_eq!(seen[0].json(), masked);
    assert_eq!(seen[1].json(), prompt("to nobody"));
}

#[tokio::test]
async fn the_javascript_example_refuses() {
    let Some((_upstream, gate)) = example("BeforeTool", "node", "push_worker.mjs").await else {
        return;
    };
    let report = async |command: &str| {
        let event = json!({
            "hook_event_name": "BeforeTool",
            "tool_name": "run_shell_command",
            "tool_input": { "command": command },
        });
        gate.agent().report(&event, "").await.json()
    };

    // The first has what some readers take for the end of a line.
    let refused = report("echo \u{2028}; git push origin --force").await;
    let allowed = report("git push origin main").await;

    assert_eq!(refused["decision"], "deny");
    assert_eq!(refused["reason"], "no forced push");
    assert_eq!(allowed, json!({}));
}
