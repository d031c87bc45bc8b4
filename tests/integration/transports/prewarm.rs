//! `prewarm`: processes of command hooks that are started ahead of their events.

mod lifecycle;

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Process, assert_denied, config, hook_processes};
use crate::harness::{
    Answer, TEST_TIMEOUT, TestGateway, Upstream, eventually, hook, processes, prompt,
};

/// A hook that starts slowly, then denies with its process id.
const SLOW_TO_START: &str = "sleep 0.3; touch ready-$$; cat > /dev/null; echo $$ >&2; exit 2";

/// A hook that denies with its process id and starts no other process.
const SINGLE_PROCESS: &str = ": > ready-$$; read -r _; echo $$ >&2; exit 2";

/// Deadline for the end of terminated processes.
const TERMINATION_DEADLINE: Duration = Duration::from_secs(2);

/// A gateway with a prewarmed hook and a mock upstream.
struct Fixture {
    gate: TestGateway,
    _upstream: Upstream,
    /// The environment variable that marks the hook's processes.
    mark: String,
}

impl Fixture {
    async fn start(command: &str, count: u32) -> Self {
        Self::with(json!({ "command": command, "prewarm": count }), "").await
    }

    async fn with(mut hook: Value, more: &str) -> Self {
        let mark = format!("HOOKGATE_MARK={}", Uuid::new_v4());
        let (name, value) = mark.split_once('=').unwrap();
        hook["env"] = json!({ name: value });
        let upstream = Upstream::mock().await;
        let config = config("BeforeModel", &hook) + more;
        Self {
            gate: TestGateway::start(&upstream, &config).await,
            _upstream: upstream,
            mark,
        }
    }

    async fn call(&self) -> Answer {
        self.gate.agent().generate("m", &prompt("hello")).await
    }

    /// Makes a call and returns the id of the process that denied it.
    async fn denying_process(&self) -> u32 {
        let answer = self.call().await;
        let message = answer.json()["error"]["message"].clone();
        message.as_str().unwrap().parse().unwrap()
    }

    /// Waits until this many processes are ready for an event.
    async fn until_ready(&self, count: usize) {
        let folder = self.gate.path("");
        let are_ready = || {
            let names = fs::read_dir(&folder).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let ready = names.filter_map(|name| name.strip_prefix("ready-")?.parse().ok());
            let alive = processes(&self.mark);
            ready.filter(|id| alive.contains(id)).count() == count
        };
        eventually("prewarmed processes are ready", TEST_TIMEOUT, are_ready).await;
    }
}

#[tokio::test]
async fn an_event_does_not_wait_for_a_prewarmed_process_to_start() {
    let fixture = Fixture::start(SLOW_TO_START, 1).await;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        fixture.until_ready(1).await;

        let started = Instant::now();
        let answer = fixture.call().await;

        fastest = fastest.min(started.elapsed());
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");

    // Without a prewarmed process, an event waits for the start.
    let cold = Fixture::with(json!({ "command": SLOW_TO_START }), "").await;
    let started = Instant::now();
    cold.denying_process().await;
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn each_event_has_a_process_of_its_own() {
    let fixture = Fixture::start(SINGLE_PROCESS, 2).await;
    fixture.until_ready(2).await;
    let waiting: BTreeSet<u32> = processes(&fixture.mark).into_iter().collect();
    let mut seen = BTreeSet::new();

    for _ in 0..10 {
        seen.insert(fixture.denying_process().await);
    }

    assert_eq!(seen.len(), 10);
    assert!(
        waiting.is_subset(&seen),
        "prewarmed processes are used: {waiting:?}"
    );
    fixture.until_ready(2).await;
}

#[tokio::test]
async fn more_events_than_prewarmed_processes_are_handled() {
    let fixture = Fixture::start(SINGLE_PROCESS, 2).await;

    let answers = join_all((0..30).map(|_| fixture.denying_process())).await;

    let seen: BTreeSet<u32> = answers.into_iter().collect();
    assert_eq!(seen.len(), 30);
    fixture.until_ready(2).await;
}

#[tokio::test]
async fn prewarmed_processes_are_counted_in_the_metrics() {
    let fixture = Fixture::start(SINGLE_PROCESS, 3).await;
    fixture.until_ready(3).await;
    assert_eq!(hook_processes(&fixture.gate).await, 3);

    for _ in 0..5 {
        fixture.denying_process().await;
    }

    fixture.until_ready(3).await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while hook_processes(&fixture.gate).await != 3 {
        assert!(
            Instant::now() < deadline,
            "the metric still counts used processes"
        );
    }
}

#[tokio::test]
async fn a_prewarmed_process_has_its_session_only_in_the_event() {
    let print_session = r#"[[ $(cat) =~ '"session_id":"'([a-z0-9]*) ]]; told=${BASH_REMATCH[1]}
        echo "$told ${GEMINI_SESSION_ID-none} ${TERMINAI_SESSION_ID-none} $PWD $GEMINI_CWD" >&2
        exit 2"#;
    let fixture = Fixture::start(print_session, 1).await;
    let folder = fixture.gate.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let expected = format!("s1 none none {folder} {folder}");
    let agent = fixture.gate.agent().sending("x-hookgate-session", "s1");

    // Some events find no prewarmed process, which makes no difference.
    let body = prompt("hello");
    for answer in join_all((0..5).map(|_| agent.generate("m", &body))).await {
        assert_denied(&answer, &expected);
    }
}

#[tokio::test]
async fn a_prewarmed_process_may_read_its_event_slowly_or_never() {
    let length = "sleep 0.2; wc -c >&2; exit 2";
    let never = "exec <&-; sleep 0.2; echo unread >&2; exit 2";
    let text = "x".repeat(3 * 1024 * 1024);
    for (command, least) in [(length, Some(text.len())), (never, None)] {
        let fixture = Fixture::start(command, 1).await;

        let answer = fixture.gate.agent().generate("m", &prompt(&text)).await;

        let message = answer.json()["error"]["message"].clone();
        let message = message.as_str().unwrap();
        match least {
            Some(least) => assert!(message.parse::<usize>().unwrap() > least),
            None => assert_eq!(message, "unread"),
        }
    }
}

#[tokio::test]
async fn a_failed_prewarmed_process_denies_the_call_and_is_replaced() {
    for (command, reason) in [
        ("read -r _; exit 3", "exit code 3"),
        ("read -r _; kill -9 $$", "terminated by signal 9"),
        ("read -r _; cat /dev/zero", "output limit exceeded"),
        ("read -r _; sleep 600 & wait", "timed out"),
    ] {
        let hook = json!({ "command": command, "prewarm": 1, "timeout": 500 });
        let fixture = Fixture::with(hook, "").await;
        let runs_one = || processes(&fixture.mark).len() == 1;
        eventually("a prewarmed process runs", TEST_TIMEOUT, runs_one).await;

        let answer = fixture.call().await;

        assert_denied(&answer, &format!("Hook guard failed: {reason}"));
        eventually("only a prewarmed process is left", TEST_TIMEOUT, runs_one).await;
    }
}

#[tokio::test]
async fn a_disconnected_agent_ends_its_hook_process_and_its_child() {
    let waits = ": > ready-$$; cat > /dev/null; sleep 600 & echo $$ $! > ids; wait";
    let fixture = Fixture::start(waits, 1).await;
    fixture.until_ready(1).await;
    let agent = fixture.gate.agent();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    let ids = || -> Vec<u32> {
        let text = fixture.gate.file("ids");
        text.split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect()
    };
    eventually("the hook waits, with its child", TEST_TIMEOUT, || {
        ids().len() == 2
    })
    .await;

    call.abort();

    eventually("both processes have ended", TERMINATION_DEADLINE, || {
        let alive = processes(&fixture.mark);
        !ids().iter().any(|id| alive.contains(id))
    })
    .await;
    fixture.until_ready(1).await;
}

#[tokio::test]
async fn a_dead_prewarmed_process_receives_no_event() {
    let fixture = Fixture::start(SINGLE_PROCESS, 1).await;
    for _ in 0..5 {
        fixture.until_ready(1).await;
        let id = processes(&fixture.mark)[0].cast_signed();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
        let is_dead = || !processes(&fixture.mark).contains(&id.cast_unsigned());
        eventually("the process has ended", TEST_TIMEOUT, is_dead).await;

        assert_ne!(fixture.denying_process().await, id.cast_unsigned());
    }
}

#[tokio::test]
async fn a_hook_that_exits_without_reading_is_restarted_with_backoff() {
    let upstream = Upstream::mock().await;
    let hook = json!({ "command": "echo $$ >> starts; echo broken >&2; exit 1", "prewarm": 2 });
    let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
    let starts = || gateway.file("starts").lines().count();
    eventually("the hook is started again", TEST_TIMEOUT, || starts() >= 6).await;
    let before = starts();
    let begun = Instant::now();

    // Calls start processes of their own, and report the failure of those.
    for _ in 0..3 {
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "Hook guard failed: exit code 1");
    }

    // The six starts were 100 and 200 ms apart: from now on each of the two tasks that
    // prewarm starts at most one process per 400 ms, and the three calls start one each.
    let max_starts = 3 + 2 * (1 + usize::try_from(begun.elapsed().as_millis()).unwrap() / 400);
    assert!(
        starts() - before <= max_starts,
        "{} {max_starts}",
        starts() - before
    );
    let started = starts();
    let log = gateway.stop().await;
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("prewarmed process failed"))
        .collect();
    // A process that is slow to exit counts as idle, and the next failure is logged
    // again.
    assert!((1..=started / 3).contains(&warnings.len()), "{log}");
    assert!(warnings[0].contains(r#"hook.name="guard" error="exit code 1""#));
}

#[tokio::test]
async fn prewarmed_processes_respect_the_process_limit() {
    let hook = json!({ "command": SINGLE_PROCESS, "prewarm": 9 });
    let fixture = Fixture::with(hook, "limits: { hook_processes: 3 }").await;
    fixture.until_ready(3).await;

    let watch = async {
        let mut max_processes = 0;
        for _ in 0..100 {
            max_processes = max_processes.max(processes(&fixture.mark).len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        max_processes
    };
    let calls = join_all((0..40).map(|_| fixture.denying_process()));
    let (seen, max_processes) = tokio::join!(calls, watch);

    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 40);
    assert!(max_processes <= 3, "{max_processes}");
    fixture.until_ready(3).await;
}

#[tokio::test]
async fn a_prewarmed_process_yields_its_slot_to_the_event_of_another_hook() {
    // The second one ignores SIGTERM.
    for command in [SINGLE_PROCESS, "trap '' TERM; read -r _; exit 2"] {
        let upstream = Upstream::mock().await;
        let mut guard = hook::command("guard", command);
        guard["prewarm"] = json!(2);
        guard["env"] = json!({ "HOOKGATE_MARK": Uuid::new_v4().to_string() });
        let mark = format!(
            "HOOKGATE_MARK={}",
            guard["env"]["HOOKGATE_MARK"].as_str().unwrap()
        );
        let other = hook::denying("other", "no");
        let hooks = hook::config(&[("BeforeTool", guard), ("BeforeModel", other)]);
        let limits = "denials: error\nlimits: { hook_processes: 2 }";
        let gate = TestGateway::start(&upstream, &format!("{limits}\n{hooks}")).await;
        let prewarmed = || processes(&mark).len();
        eventually("prewarmed processes use all slots", TEST_TIMEOUT, || {
            prewarmed() == 2
        })
        .await;

        let agent = gate.agent();
        let body = prompt("hello");
        let started = Instant::now();
        let calls = join_all((0..4).map(|_| agent.generate("m", &body))).await;

        for answer in calls {
            assert_denied(&answer, "no");
        }
        assert!(started.elapsed() < TEST_TIMEOUT);
        eventually("the prewarmed processes run again", TEST_TIMEOUT, || {
            prewarmed() == 2
        })
        .await;
    }
}

#[test]
fn hookgate_check_starts_no_prewarmed_process() {
    let folder = tempfile::tempdir().unwrap();
    let hook = json!({ "command": "touch started", "prewarm": 1 });
    let upstream = "upstreams: { gemini: { url: \"http://a\" } }\n";
    let text = config("BeforeModel", &hook) + upstream;
    fs::write(folder.path().join("hookgate.yaml"), text).unwrap();

    let (code, _, stderr) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 0, "{stderr}");
    let started: PathBuf = folder.path().join("started");
    assert!(!started.exists());
}

#[test]
fn prewarmed_processes_beyond_the_limit_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let check = |prewarm: u32| {
        let text = format!(
            "\
upstreams: {{ gemini: {{ url: \"http://a\" }} }}
limits: {{ hook_processes: 4 }}
hooks:
  BeforeModel:
    - hooks:
        - {{ type: worker, name: w, command: a, on_failure: closed }}
        - {{ name: a, command: a, prewarm: 2, on_failure: closed }}
        - {{ name: b, command: b, prewarm: {prewarm}, on_failure: closed }}
"
        );
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
        let (code, _, warnings) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 0);
        let mut process_warnings = warnings.lines().map(str::to_owned).collect::<Vec<_>>();
        process_warnings.retain(|warning| warning.contains("hook_processes"));
        process_warnings
    };

    assert_eq!(check(1), [""; 0]);
    assert_eq!(
        check(2),
        [
            "warning: hookgate.yaml:8:11: hook `b`: `limits.hook_processes` is 4, so not all \
             processes of workers and of `prewarm` can wait at once"
        ]
    );
}
