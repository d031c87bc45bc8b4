//! `prewarm`: processes of command hooks that wait for events.

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

use super::{Process, assert_denied, config, hook_processes, whole};
use crate::harness::{
    Answer, PATIENCE, TestGateway, Upstream, eventually, hook, processes, prompt,
};

/// A hook that is slow to start, then refuses with the number of its process.
const SLOW_TO_START: &str = "sleep 0.3; touch ready-$$; cat > /dev/null; echo $$ >&2; exit 2";

/// A hook that refuses with the number of its process, its only one.
const PLAIN: &str = ": > ready-$$; read -r _; echo $$ >&2; exit 2";

/// A hook with spares, on a call to a mock.
struct Bench {
    gate: TestGateway,
    _upstream: Upstream,
    /// What its processes carry in their environment.
    mark: String,
}

impl Bench {
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

    /// The process that refuses a call.
    async fn refuser(&self) -> u32 {
        let answer = self.call().await;
        let message = answer.json()["error"]["message"].clone();
        message.as_str().unwrap().parse().unwrap()
    }

    /// Waits until a process has noted that it will now wait for its event.
    async fn ready(&self, count: usize) {
        let folder = self.gate.path("");
        let are_ready = || {
            let names = fs::read_dir(&folder).unwrap();
            let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
            let ready = names.filter_map(|it| it.strip_prefix("ready-")?.parse().ok());
            let alive = processes(&self.mark);
            ready.filter(|it| alive.contains(it)).count() == count
        };
        eventually("spares wait", PATIENCE, are_ready).await;
    }
}

#[tokio::test]
async fn an_event_does_not_wait_for_the_start() {
    let bench = Bench::start(SLOW_TO_START, 1).await;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        bench.ready(1).await;

        let started = Instant::now();
        let answer = bench.call().await;

        fastest = fastest.min(started.elapsed());
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");

    // An event that comes too early takes what a start takes.
    let cold = Bench::with(json!({ "command": SLOW_TO_START }), "").await;
    let started = Instant::now();
    cold.refuser().await;
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn each_event_has_a_process_of_its_own() {
    let bench = Bench::start(PLAIN, 2).await;
    bench.ready(2).await;
    let waiting: BTreeSet<u32> = processes(&bench.mark).into_iter().collect();
    let mut seen = BTreeSet::new();

    for _ in 0..10 {
        seen.insert(bench.refuser().await);
    }

    assert_eq!(seen.len(), 10);
    assert!(waiting.is_subset(&seen), "spares are used: {waiting:?}");
    bench.ready(2).await;
}

#[tokio::test]
async fn more_events_than_spares_are_answered_too() {
    let bench = Bench::start(PLAIN, 2).await;

    let answers = join_all((0..30).map(|_| bench.refuser())).await;

    let seen: BTreeSet<u32> = answers.into_iter().collect();
    assert_eq!(seen.len(), 30);
    bench.ready(2).await;
}

#[tokio::test]
async fn spares_are_counted() {
    let bench = Bench::start(PLAIN, 3).await;
    bench.ready(3).await;
    assert_eq!(hook_processes(&bench.gate).await, 3);

    for _ in 0..5 {
        bench.refuser().await;
    }

    bench.ready(3).await;
    let deadline = Instant::now() + PATIENCE;
    while hook_processes(&bench.gate).await != 3 {
        assert!(Instant::now() < deadline, "used ones are not counted");
    }
}

#[tokio::test]
async fn a_prewarmed_process_learns_its_session_from_the_event_alone() {
    let say = r#"[[ $(cat) =~ '"session_id":"'([a-z0-9]*) ]]; told=${BASH_REMATCH[1]}
        echo "$told ${GEMINI_SESSION_ID-none} ${TERMINAI_SESSION_ID-none} $PWD $GEMINI_CWD" >&2
        exit 2"#;
    let bench = Bench::start(say, 1).await;
    let folder = bench.gate.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let expected = format!("s1 none none {folder} {folder}");
    let agent = bench.gate.agent().sending("x-hookgate-session", "s1");

    // Some find no spare, which makes no difference.
    let body = prompt("hello");
    for answer in join_all((0..5).map(|_| agent.generate("m", &body))).await {
        assert_denied(&answer, &expected);
    }
}

#[tokio::test]
async fn a_spare_may_be_slow_to_read_or_never_do() {
    let length = "sleep 0.2; wc -c >&2; exit 2";
    let never = "exec <&-; sleep 0.2; echo unread >&2; exit 2";
    let text = "x".repeat(3 * 1024 * 1024);
    for (command, least) in [(length, Some(text.len())), (never, None)] {
        let bench = Bench::start(command, 1).await;

        let answer = bench.gate.agent().generate("m", &prompt(&text)).await;

        let message = answer.json()["error"]["message"].clone();
        let message = message.as_str().unwrap();
        match least {
            Some(least) => assert!(message.parse::<usize>().unwrap() > least),
            None => assert_eq!(message, "unread"),
        }
    }
}

#[tokio::test]
async fn a_spare_fails_as_any_hook_does() {
    for (command, reason) in [
        ("read -r _; exit 3", "exit code 3"),
        ("read -r _; kill -9 $$", "terminated by signal 9"),
        ("read -r _; cat /dev/zero", "output limit exceeded"),
        ("read -r _; sleep 600 & wait", "timed out"),
    ] {
        let hook = json!({ "command": command, "prewarm": 1, "timeout": 500 });
        let bench = Bench::with(hook, "").await;
        let spare = || processes(&bench.mark).len() == 1;
        eventually("a spare waits", PATIENCE, spare).await;

        let answer = bench.call().await;

        assert_denied(&answer, &format!("Hook guard failed: {reason}"));
        eventually("only a spare is left", PATIENCE, spare).await;
    }
}

#[tokio::test]
async fn an_agent_that_leaves_takes_its_process_with_it() {
    let waits = ": > ready-$$; cat > /dev/null; sleep 600 & echo $$ $! > ids; wait";
    let bench = Bench::start(waits, 1).await;
    bench.ready(1).await;
    let agent = bench.gate.agent();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    let ids = || -> Vec<u32> {
        let text = bench.gate.file("ids");
        text.split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect()
    };
    eventually("it waits, with its child", PATIENCE, || ids().len() == 2).await;

    call.abort();

    eventually("both are gone", SOON, || {
        let alive = processes(&bench.mark);
        !ids().iter().any(|it| alive.contains(it))
    })
    .await;
    bench.ready(1).await;
}

#[tokio::test]
async fn a_spare_that_dies_is_given_to_no_event() {
    let bench = Bench::start(PLAIN, 1).await;
    for _ in 0..5 {
        bench.ready(1).await;
        let id = processes(&bench.mark)[0].cast_signed();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
        let is_dead = || !processes(&bench.mark).contains(&id.cast_unsigned());
        eventually("it is dead", PATIENCE, is_dead).await;

        assert_ne!(bench.refuser().await, id.cast_unsigned());
    }
}

#[tokio::test]
async fn a_hook_that_does_not_wait_is_started_ever_more_seldom() {
    let upstream = Upstream::mock().await;
    let hook = json!({ "command": "echo $$ >> starts; echo broken >&2; exit 1", "prewarm": 2 });
    let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
    let starts = || gateway.file("starts").lines().count();
    eventually("it is started again", PATIENCE, || starts() >= 6).await;
    let before = starts();
    let begun = Instant::now();

    // Its prewarmed processes are of no use, and do no harm.
    for _ in 0..3 {
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "Hook guard failed: exit code 1");
    }

    // After 100, 200 and 400 ms at most one per keeper and 400 ms, and the three.
    let most = 3 + 2 * (1 + usize::try_from(begun.elapsed().as_millis()).unwrap() / 400);
    assert!(starts() - before <= most, "{} {most}", starts() - before);
    let started = starts();
    let log = gateway.stop().await;
    let said: Vec<&str> = log
        .lines()
        .filter(|it| it.contains("prewarmed process failed"))
        .collect();
    // One that takes its time to die is taken for one that waits, and the next
    // failure is news again.
    assert!((1..=started / 3).contains(&said.len()), "{log}");
    assert!(said[0].contains(r#"hook.name="guard" error="exit code 1""#));
}

#[tokio::test]
async fn spares_take_no_more_places_than_there_are() {
    let hook = json!({ "command": PLAIN, "prewarm": 9 });
    let bench = Bench::with(hook, "limits: { hook_processes: 3 }").await;
    bench.ready(3).await;

    let watch = async {
        let mut most = 0;
        for _ in 0..100 {
            most = most.max(processes(&bench.mark).len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        most
    };
    let calls = join_all((0..40).map(|_| bench.refuser()));
    let (seen, most) = tokio::join!(calls, watch);

    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 40);
    assert!(most <= 3, "{most}");
    bench.ready(3).await;
}

#[tokio::test]
async fn a_spare_gives_way_to_the_event_of_another_hook() {
    // The second does not end when asked.
    for spare in [PLAIN, "trap '' TERM; read -r _; exit 2"] {
        let upstream = Upstream::mock().await;
        let mut guard = hook::running("guard", spare);
        guard["prewarm"] = json!(2);
        guard["env"] = json!({ "HOOKGATE_MARK": Uuid::new_v4().to_string() });
        let mark = format!(
            "HOOKGATE_MARK={}",
            guard["env"]["HOOKGATE_MARK"].as_str().unwrap()
        );
        let other = hook::refusing("other", "no");
        let hooks = hook::config(&[("BeforeTool", guard), ("BeforeModel", other)]);
        let limits = "denials: error\nlimits: { hook_processes: 2 }";
        let gate = TestGateway::start(&upstream, &format!("{limits}\n{hooks}")).await;
        let spares = || processes(&mark).len();
        eventually("spares have all places", PATIENCE, || spares() == 2).await;

        let agent = gate.agent();
        let body = prompt("hello");
        let started = Instant::now();
        let calls = join_all((0..4).map(|_| agent.generate("m", &body))).await;

        for answer in calls {
            assert_denied(&answer, "no");
        }
        assert!(started.elapsed() < PATIENCE);
        eventually("the spares come back", PATIENCE, || spares() == 2).await;
    }
}

/// A hook whose spares do not end when asked, with a child.
const STUBBORN: &str = "trap '' TERM; sleep 600 & touch ready-$$; cat > /dev/null; exit 2";

/// How long spares may take to end.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn spares_end_with_the_gateway() {
    let bench = Bench::start(STUBBORN, 3).await;
    bench.ready(3).await;
    let mark = bench.mark.clone();
    assert!(processes(&mark).len() >= 6);

    let started = Instant::now();
    bench.gate.stop().await;

    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(processes(&mark), [0; 0]);
}

#[tokio::test]
async fn spares_end_with_their_config_and_unchanged_ones_stay() {
    let upstream = Upstream::mock().await;
    let mark = |name: &str| format!("HOOKGATE_MARK={name}-{}", upstream.addr);
    let spares = |name: &str, command: &str| {
        let mut hook = hook::running(name, command);
        let mark = mark(name);
        hook["prewarm"] = json!(2);
        hook["env"] = json!({ "HOOKGATE_MARK": mark.split_once('=').unwrap().1 });
        ("BeforeModel", hook)
    };
    let running = |name: &str| -> BTreeSet<u32> { processes(&mark(name)).into_iter().collect() };
    let old = [spares("stays", PLAIN), spares("goes", STUBBORN)];
    let gateway = Process::start(&upstream, &hook::config(&old), &[]);
    eventually("spares wait", PATIENCE, || {
        running("stays").len() == 2 && running("goes").len() >= 4
    })
    .await;
    let stays = running("stays");

    let new = [spares("comes", PLAIN), spares("stays", PLAIN)];
    let text = whole(&upstream, &hook::config(&new));
    fs::write(gateway.folder.path().join("hookgate.yaml"), text).unwrap();
    let reloaded = gateway.operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    eventually("the old spares are gone", SOON, || {
        running("goes").is_empty()
    })
    .await;
    eventually("the new ones wait", PATIENCE, || {
        running("comes").len() == 2
    })
    .await;
    assert_eq!(running("stays"), stays);

    let refused = fs::write(gateway.folder.path().join("hookgate.yaml"), "hoks: {}");
    refused.unwrap();
    assert_eq!(gateway.operator.post("/reload", "").await.status, 400);
    assert_eq!(running("stays"), stays);
    gateway.stop().await;
    assert!(running("stays").is_empty() && running("comes").is_empty());
}

#[test]
fn a_check_starts_no_spare() {
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
    let check = |spares: u32| {
        let text = format!(
            "\
upstreams: {{ gemini: {{ url: \"http://a\" }} }}
limits: {{ hook_processes: 4 }}
hooks:
  BeforeModel:
    - hooks:
        - {{ type: worker, name: w, command: a, on_failure: closed }}
        - {{ name: a, command: a, prewarm: 2, on_failure: closed }}
        - {{ name: b, command: b, prewarm: {spares}, on_failure: closed }}
"
        );
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
        let (code, _, warnings) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 0);
        let mut of_processes = warnings.lines().map(str::to_owned).collect::<Vec<_>>();
        of_processes.retain(|warning| warning.contains("hook_processes"));
        of_processes
    };

    assert_eq!(check(1), [""; 0]);
    assert_eq!(
        check(2),
        [
            "warning: hookgate.yaml:8:11: hook `b`: `limits.hook_processes` is 4, so not all processes of workers and of `prewarm` can wait at once"
        ]
    );
}
