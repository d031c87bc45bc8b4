//! What hook processes may cost at most: time, memory, places. Prewarmed ones
//! no more than others.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Process, assert_denied, config, worker::worker};
use crate::harness::{Answer, PATIENCE, Upstream, eventually, hook, processes, prompt};

/// A gateway with hooks on a call to a mock.
struct Bench {
    gateway: Process,
    _upstream: Upstream,
}

/// Without spares, and with some.
const EACH: [Option<u32>; 2] = [None, Some(2)];

fn command(command: &str, prewarm: Option<u32>) -> Value {
    let mut hook = json!({ "command": command });
    if let Some(count) = prewarm {
        hook["prewarm"] = json!(count);
    }
    hook
}

impl Bench {
    async fn start(hook: &Value) -> Self {
        Self::with(&config("BeforeModel", hook)).await
    }

    async fn with(config: &str) -> Self {
        let upstream = Upstream::mock().await;
        Self {
            gateway: Process::start(&upstream, config, &[]),
            _upstream: upstream,
        }
    }

    async fn call(&self) -> Answer {
        self.gateway.agent.generate("m", &prompt("hello")).await
    }

    /// The numbers in a file that hooks wrote.
    fn numbers(&self, file: &str) -> Vec<u32> {
        let text = self.gateway.file(file);
        let numbers = text.split_whitespace();
        numbers.map(|it| it.parse().unwrap()).collect()
    }

    /// A line of what the kernel says of the gateway, in KiB.
    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.gateway.served.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        let size = line.and_then(|it| it.trim_matches([':', '\t', ' ']).strip_suffix(" kB"));
        size.unwrap().parse().unwrap()
    }

    /// The processes that the gateway has started and that it has not seen end.
    fn children(&self) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.gateway.served.id())).unwrap();
        let lists = tasks.map(|it| fs::read_to_string(it.unwrap().path().join("children")));
        let lists = lists.map(Result::unwrap_or_default);
        lists.map(|it| it.split_whitespace().count()).sum()
    }

    /// Calls so many times at once; with the answers comes how many processes
    /// there were at most.
    async fn watched(&self, calls: usize) -> (Vec<Answer>, usize) {
        let calls = join_all((0..calls).map(|_| self.call()));
        tokio::pin!(calls);
        let mut most = 0;
        loop {
            match timeout(Duration::from_millis(2), &mut calls).await {
                Ok(answers) => return (answers, most),
                Err(_elapsed) => most = most.max(self.children()),
            }
        }
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.gateway.served.id());
        fs::read_dir(folder).unwrap().count()
    }

    /// Waits until its spares are there, and no other process of a hook.
    async fn ready(&self, prewarm: Option<u32>) {
        let spares = usize::try_from(prewarm.unwrap_or(0)).unwrap();
        let are_there = || self.children() == spares;
        eventually("only spares are there", PATIENCE, are_there).await;
    }

    /// The same, for spares of one process each.
    async fn quiet(&self, prewarm: Option<u32>) {
        let spares = usize::try_from(prewarm.unwrap_or(0)).unwrap();
        let mark = &self.gateway.served.mark;
        eventually("only spares are left", PATIENCE, || {
            (self.children(), processes(mark).len()) == (spares, spares + 1)
        })
        .await;
    }
}

/// Whether a process is gone, or waits as a zombie for a parent that is not the
/// gateway.
fn is_gone(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    stat.map_or(true, |it| it.contains(") Z"))
}

#[tokio::test]
async fn a_hook_that_ignores_its_end_is_gone_soon_with_all_it_started() {
    let stubborn = "trap '' TERM; cat > /dev/null; (sleep 600 & echo $$ $! >> ids; wait) & \
         echo $! >> ids; sleep 600";
    for prewarm in EACH {
        let mut hook = command(stubborn, prewarm);
        hook["timeout"] = json!(300);
        let bench = Bench::start(&hook).await;
        bench.ready(prewarm).await;

        let started = Instant::now();
        let answer = bench.call().await;
        let answered = started.elapsed();
        let ids = bench.numbers("ids");
        let end = Duration::from_millis(2500).saturating_sub(started.elapsed());
        eventually("all are gone", end, || ids.iter().all(|it| is_gone(*it))).await;

        assert_denied(&answer, "Hook guard failed: timed out");
        assert!(answered < Duration::from_millis(500), "{answered:?}");
        assert_eq!(ids.len(), 3);
        bench.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_delays_no_call_for_long() {
    let leaves = "cat > /dev/null; echo no >&2; sleep 600 & echo $! > child; \
         date +%s%3N > ended; exit 2";
    for prewarm in EACH {
        let bench = Bench::start(&command(leaves, prewarm)).await;
        bench.ready(prewarm).await;

        let answer = bench.call().await;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);

        assert_denied(&answer, "no");
        let ended: u64 = bench.gateway.file("ended").trim().parse().unwrap();
        let delay = now.unwrap().saturating_sub(Duration::from_millis(ended));
        assert!(delay < Duration::from_millis(500), "{delay:?}");
        let child = bench.numbers("child")[0];
        eventually("the child is gone", PATIENCE, || is_gone(child)).await;
        bench.gateway.stop().await;
    }
}

/// What a call costs whose hook writes a gibibyte, in KiB of memory.
async fn cost_of_a_gibibyte(stream: &str, prewarm: Option<u32>) -> u64 {
    let much = "cat > /dev/null; [ -e warm ] && head -c 1073741824 /dev/zero";
    let bench = Bench::start(&command(&format!("{much}{stream}"), prewarm)).await;
    for _ in 0..5 {
        bench.call().await;
    }
    fs::write(bench.gateway.folder.path().join("warm"), "").unwrap();
    bench.ready(prewarm).await;
    let before = bench.memory("VmRSS");
    let id = bench.gateway.served.id();
    // From now on the peak is that of what follows.
    fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();

    let answer = bench.call().await;

    assert_denied(&answer, "Hook guard failed: output limit exceeded");
    let cost = bench.memory("VmHWM").saturating_sub(before);
    bench.gateway.stop().await;
    cost
}

#[tokio::test]
async fn a_gibibyte_of_output_costs_a_mebibyte() {
    for prewarm in EACH {
        for stream in [" >&1", " >&2"] {
            let cost = cost_of_a_gibibyte(stream, prewarm).await;
            // It, what it outgrew on the way, and what else a call takes.
            assert!(cost < 2 * 1024 + 512, "{cost} KiB");
        }
    }
}

#[tokio::test]
async fn a_thousand_runs_leave_nothing() {
    for prewarm in EACH {
        let hooks: Vec<_> = (0..10)
            .map(|it| {
                let mut hook = command("read -r _; exit 0", prewarm.map(|_| 1));
                hook["name"] = json!(format!("hook-{it}"));
                ("BeforeModel", hook)
            })
            .collect();
        let spares = prewarm.map(|_| 10);
        let bench = Bench::with(&hook::config(&hooks)).await;
        assert_eq!(bench.call().await.status, 200);
        bench.quiet(spares).await;
        let descriptors = bench.descriptors();

        for _ in 0..100 {
            assert_eq!(bench.call().await.status, 200);
        }

        bench.quiet(spares).await;
        eventually("no descriptor is left", PATIENCE, || {
            bench.descriptors() <= descriptors
        })
        .await;
        let runs = bench.gateway.operator.get("/metrics").await;
        let runs = runs.text().lines();
        let runs = runs.filter(|it| it.starts_with("hookgate_hook_runs_total"));
        assert_eq!(runs.filter(|it| it.ends_with(" 101")).count(), 10);
        bench.gateway.stop().await;
    }
}

#[tokio::test]
async fn two_hundred_calls_at_once_keep_to_the_limit() {
    const MOST: usize = 16;
    // Only one process each, which takes a while.
    let busy = "read -r _; for i in {1..2000}; do :; done; echo $$ >&2; exit 2";
    for prewarm in EACH {
        let limit = format!("limits: {{ hook_processes: {MOST} }}\n");
        let config = limit + &config("BeforeModel", &command(busy, prewarm));
        let bench = Bench::with(&config).await;
        bench.quiet(prewarm).await;
        let (answers, most) = bench.watched(200).await;

        let refused = |it: &Answer| it.json()["error"]["message"].clone();
        let ids: BTreeSet<u64> = answers
            .iter()
            .map(|it| refused(it).as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(ids.len(), 200);
        assert!((MOST / 2..=MOST).contains(&most), "{most}");
        bench.quiet(prewarm).await;
        bench.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_worker_killed_in_mid_call_fails_that_call_only() {
    let wait = ": > called-$$; until [ -e go ]; do sleep 0.01; done";
    let say = r#"answer '{"decision":"deny","reason":"'"$$"'"}'"#;
    let command = worker(&format!("{wait}; {say}"), "");
    let hook = json!({ "type": "worker", "command": command, "instances": 2 });
    let bench = Bench::start(&hook).await;
    let folder = bench.gateway.folder.path();
    let calls = join_all((0..8).map(|_| bench.call()));
    let kill = async {
        let called = |id: u32| folder.join(format!("called-{id}")).exists();
        eventually("both are called", PATIENCE, || {
            let starts = bench.numbers("starts");
            starts.len() == 2 && starts.into_iter().all(called)
        })
        .await;
        let id = bench.numbers("starts")[0];
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::KILL).unwrap();
        eventually("it is gone", PATIENCE, || is_gone(id)).await;
        fs::write(folder.join("go"), "").unwrap();
        id
    };

    let (answers, killed) = tokio::join!(calls, kill);

    let lost = "Hook guard failed: process exited unexpectedly";
    let told = |it: &Answer| it.json()["error"]["message"].as_str().unwrap().to_owned();
    let (failed, answered): (Vec<_>, Vec<_>) = answers.iter().map(told).partition(|it| it == lost);
    assert_eq!((failed.len(), answered.len()), (1, 7), "{answered:?}");
    assert!(!answered.contains(&killed.to_string()));
    bench.gateway.stop().await;
}
