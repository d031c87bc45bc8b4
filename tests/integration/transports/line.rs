//! `answer: line`: hooks whose first line is the answer, and that may go on.

use std::{
    fs,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::timeout};
use uuid::Uuid;

use super::{Process, assert_denied, config, whole};
use crate::harness::{
    Agent, Answer, PATIENCE, TestGateway, Upstream, closed, eventually, hook, processes, prompt,
    run,
};

/// Started for an event, or before it.
const EACH: [Option<u32>; 2] = [None, Some(1)];

/// A hook that says no on a line, and goes on until it may end.
const GOES_ON: &str = "read -r _; echo '{\"decision\":\"deny\",\"reason\":\"no\"}'; \
     until [ -e go ]; do sleep 0.01; done; touch ended";

/// The same, but it is never ended; it has a child.
const STAYS: &str = "read -r _; echo '{\"decision\":\"deny\",\"reason\":\"no\"}'; \
     sleep 600 & wait";

/// How long what is asked to end may take: two seconds until it is killed, and some
/// for a busy machine. An orphan that is dead counts until its new parent has looked.
const SOON: Duration = Duration::from_secs(4);

/// A hook on a call to a mock.
struct Bench {
    gate: TestGateway,
    upstream: Upstream,
    /// What its processes carry in their environment.
    mark: String,
    spares: usize,
    /// The first spares.
    waiting: Vec<u32>,
}

impl Bench {
    async fn start(command: &str, prewarm: Option<u32>) -> Self {
        Self::with(line(command, prewarm), "").await
    }

    async fn with(hook: Value, more: &str) -> Self {
        Self::before(Upstream::mock().await, hook, more).await
    }

    async fn before(upstream: Upstream, mut hook: Value, more: &str) -> Self {
        let mark = mark(&mut hook);
        let spares = hook["prewarm"].as_u64().unwrap_or(0);
        let config = config("BeforeModel", &hook) + more;
        let mut bench = Self {
            gate: TestGateway::start(&upstream, &config).await,
            upstream,
            mark,
            spares: spares.try_into().unwrap(),
            waiting: Vec::new(),
        };
        bench.quiet(PATIENCE).await;
        bench.waiting = processes(&bench.mark);
        bench
    }

    async fn call(&self) -> Answer {
        self.gate.agent().generate("m", &prompt("hello")).await
    }

    /// Waits until only processes that wait for events are left, and not the first
    /// ones.
    async fn quiet(&self, time: Duration) {
        let are_alone = || {
            let alive = processes(&self.mark);
            alive.len() == self.spares && !self.waiting.iter().any(|it| alive.contains(it))
        };
        eventually("only spares are left", time, are_alone).await;
    }

    /// Waits until a process that has answered has a child.
    async fn goes_on(&self) {
        let are_there = || processes(&self.mark).len() == 2 + self.spares;
        eventually("it goes on", PATIENCE, are_there).await;
    }

    fn let_go(&self) {
        fs::write(self.gate.path("go"), "").unwrap();
    }
}

fn line(command: &str, prewarm: Option<u32>) -> Value {
    let mut hook = json!({ "command": command, "answer": "line" });
    if let Some(count) = prewarm {
        hook["prewarm"] = json!(count);
    }
    hook
}

/// Marks the processes of a hook.
fn mark(hook: &mut Value) -> String {
    let mark = Uuid::new_v4().to_string();
    hook["env"] = json!({ "HOOKGATE_MARK": mark });
    format!("HOOKGATE_MARK={mark}")
}

fn calling(agent: Agent) -> JoinHandle<Answer> {
    tokio::spawn(async move { agent.generate("m", &prompt("hello")).await })
}

/// Checks what comes of hooks that read their event and then do this.
async fn check(cases: &[(String, Option<&str>)]) {
    for prewarm in EACH {
        let checks = cases
            .iter()
            .map(|(command, denied)| one(command, prewarm, *denied));
        join_all(checks).await;
    }
}

async fn one(command: &str, prewarm: Option<u32>, denied: Option<&str>) {
    let mut hook = line(&format!("read -r _; {command}"), prewarm);
    hook["timeout"] = json!(3000);
    let bench = Bench::with(hook, "\nlimits: { hook_output: 1KiB }").await;

    let answer = bench.call().await;

    match denied {
        Some(reason) => assert_denied(&answer, reason),
        None => assert_eq!(answer.status, 200, "{command}: {}", answer.text()),
    }
    bench.gate.stop().await;
    assert_eq!(processes(&bench.mark), [0; 0], "{command}");
}

#[tokio::test]
async fn a_line_is_an_answer_before_the_end() {
    for prewarm in EACH {
        let bench = Bench::start(GOES_ON, prewarm).await;

        let answer = bench.call().await;

        assert_denied(&answer, "no");
        assert!(!bench.gate.path("ended").exists());
        bench.let_go();
        // A process that turns into another one carries nothing for a moment.
        let ended = || bench.gate.path("ended").exists();
        eventually("it came to its end", PATIENCE, ended).await;
        bench.quiet(PATIENCE).await;

        // By default its end is waited for.
        let mut waits = line(GOES_ON, prewarm);
        waits["answer"] = json!("exit");
        waits["timeout"] = json!(300);
        let bench = Bench::with(waits, "").await;
        let answer = bench.call().await;
        assert_denied(&answer, "Hook guard failed: timed out");
    }
}

#[tokio::test]
async fn what_comes_after_the_line_does_not_count() {
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
async fn what_is_no_line_of_json_is_waited_for() {
    let failed = |cause: &str| format!("Hook guard failed: {cause}");
    let late = failed("timed out");
    let unclear = "{\"decision\":\"allow\",\"decision\":\"deny\",\"reason\":\"no\"}";
    let pretty = "{\\n\"decision\": \"deny\",\\n\"reason\": \"no\"\\n}\\n";
    check(&[
        // It comes in pieces.
        (
            "printf '{\"decision\":\"deny\",'; sleep 0.2; printf '\"reason\":\"no\"}'; \
                 sleep 0.2; echo; sleep 600"
                .to_owned(),
            Some("no"),
        ),
        // There is no end of a line.
        ("printf '{}'; echo no >&2; exit 2".to_owned(), Some("no")),
        (
            "printf '{}'; exit 1".to_owned(),
            Some(&failed("exit code 1")),
        ),
        ("printf '{}'; sleep 600".to_owned(), Some(&late)),
        ("printf '{}'".to_owned(), None),
        ("true".to_owned(), None),
        ("echo no >&2; exit 2".to_owned(), Some("no")),
        // The first line is something else.
        ("echo hello; sleep 600".to_owned(), Some(&late)),
        ("echo; echo '{}'; sleep 600".to_owned(), Some(&late)),
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
        // It means two things.
        (format!("echo '{unclear}'; sleep 600"), Some(&late)),
        (
            format!("echo '{unclear}'"),
            Some(&failed(
                "output is ambiguous JSON: duplicate key, or nested too deeply",
            )),
        ),
        // It is too long.
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
async fn a_hook_that_goes_on_may_read_and_write() {
    let length = "read -r -n 1 _; echo '{}'; cat /dev/zero | head -c 500000; cat /dev/zero | head -c 500000 >&2; \
         sleep 0.2; wc -c > length";
    let text = "x".repeat(3 * 1024 * 1024);
    for prewarm in EACH {
        let bench = Bench::start(length, prewarm).await;

        let answer = bench.gate.agent().generate("m", &prompt(&text)).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        bench.quiet(PATIENCE).await;
        let length: usize = bench.gate.file("length").trim().parse().unwrap();
        assert!(length > text.len(), "{length}");
    }
}

#[tokio::test]
async fn a_hook_that_goes_on_too_much_is_ended() {
    for prewarm in EACH {
        for command in [
            "trap '' TERM PIPE; echo '{}'; yes",
            "trap '' TERM PIPE; echo '{}'; yes >&2",
        ] {
            let bench = Bench::start(&format!("read -r _; {command}"), prewarm).await;

            let answer = bench.call().await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            bench.quiet(SOON).await;
        }
    }
}

#[tokio::test]
async fn a_hook_that_goes_on_is_ended_with_its_time() {
    let deaf = format!("trap '' TERM; {STAYS}; sleep 600");
    for prewarm in EACH {
        for command in [STAYS, &deaf] {
            let mut hook = line(command, prewarm);
            hook["timeout"] = json!(500);
            let bench = Bench::with(hook, "").await;
            let started = Instant::now();

            let answer = bench.call().await;

            assert_denied(&answer, "no");
            bench.goes_on().await;
            bench.quiet(SOON).await;
            assert!(started.elapsed() >= Duration::from_millis(500));
        }
    }
}

#[tokio::test]
async fn a_hook_that_goes_on_ends_with_the_gateway() {
    for prewarm in EACH {
        let bench = Bench::start(STAYS, prewarm).await;
        assert_denied(&bench.call().await, "no");
        bench.goes_on().await;

        let started = Instant::now();
        bench.gate.stop().await;

        assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        assert_eq!(processes(&bench.mark), [0; 0]);
    }
}

#[tokio::test]
async fn a_hook_that_goes_on_ends_with_its_config() {
    for prewarm in EACH {
        let upstream = Upstream::mock().await;
        let mut guard = line(STAYS, prewarm);
        let mark = mark(&mut guard);
        let gateway = Process::start(&upstream, &config("BeforeModel", &guard), &[]);
        let reload = async |hooks: &str| {
            let file = gateway.folder.path().join("hookgate.yaml");
            fs::write(file, whole(&upstream, hooks)).unwrap();
            let reloaded = gateway.operator.post("/reload", "").await;
            assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        };
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "no");
        let going_on = processes(&mark);

        // A hook that stays as it was is left alone.
        guard["timeout"] = json!(50_000);
        reload(&config("BeforeModel", &guard)).await;
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "no");
        let alive = processes(&mark);
        assert!(!going_on.is_empty() && going_on.iter().all(|it| alive.contains(it)));

        reload("").await;
        eventually("all are gone", SOON, || processes(&mark).is_empty()).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_agent_that_leaves_before_the_answer_takes_its_process_with_it() {
    let waits = "read -r _; printf '{}'; touch waits; sleep 600 & wait";
    for prewarm in EACH {
        let bench = Bench::start(waits, prewarm).await;
        let call = calling(bench.gate.agent());
        let waits = || bench.gate.path("waits").exists();
        eventually("it waits", PATIENCE, waits).await;

        call.abort();

        bench.quiet(SOON).await;
    }
}

#[tokio::test]
async fn an_agent_that_leaves_after_the_answer_leaves_no_process() {
    let goes_on = "read -r _; echo '{}'; sleep 600 & wait";
    for prewarm in EACH {
        let silent = Upstream::raw(|_, mut socket| async move { closed(&mut socket).await });
        let mut hook = line(goes_on, prewarm);
        hook["timeout"] = json!(2000);
        let bench = Bench::before(silent.await, hook, "").await;
        let started = Instant::now();
        let call = calling(bench.gate.agent());
        let is_called = || !bench.upstream.seen().is_empty();
        eventually("the call goes on", PATIENCE, is_called).await;

        call.abort();

        bench.quiet(PATIENCE).await;
        assert!(started.elapsed() >= Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_place_is_free_when_the_process_is_gone() {
    let count = "read -r _; touch run.$$; set -- run.*; \
         echo '{\"decision\":\"deny\",\"reason\":\"'$#'\"}'; \
         until [ -e go ]; do sleep 0.01; done; rm run.$$";
    for prewarm in EACH {
        let hook = line(count, prewarm);
        let bench = Bench::with(hook, "\nlimits: { hook_processes: 1 }").await;

        assert_denied(&bench.call().await, "1");
        let mut second = calling(bench.gate.agent());
        let early = timeout(Duration::from_millis(300), &mut second).await;
        assert!(early.is_err(), "the first has its place still: {early:?}");
        bench.let_go();

        assert_denied(&second.await.unwrap(), "1");
        bench.quiet(PATIENCE).await;
    }
}

#[tokio::test]
async fn an_end_that_denies_the_answer_is_logged() {
    let upstream = Upstream::mock().await;
    for (end, cause) in [
        ("exit 2", Some("exit code 2")),
        ("kill -9 $$", Some("terminated by signal 9")),
        ("sleep 600", Some("timed out")),
        ("cat /dev/zero", Some("output limit exceeded")),
        ("exit 0", None),
    ] {
        let mut hook = line(&format!("read -r _; echo '{{}}'; {end}"), None);
        hook["timeout"] = json!(500);
        let mark = mark(&mut hook);
        let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let ended = || processes(&mark).is_empty();
        eventually("it has ended", PATIENCE, ended).await;

        let log = gateway.stop().await;

        let said = "hook failed after responding hook.name=\"guard\" error=";
        match cause {
            Some(cause) => assert!(log.contains(&format!("{said}\"{cause}\"")), "{log}"),
            None => assert!(!log.contains(said), "{log}"),
        }
    }
}

#[test]
fn rehearsals_take_the_line_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let mut guard = line(STAYS, Some(1));
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

    let (code, told, stderr) = run(&["test", "cases.yaml"], folder.path());

    assert_eq!(code, 0, "{told}{stderr}");
    assert!(started.elapsed() < PATIENCE);
    assert_eq!(processes(&mark), [0; 0]);
}
