//! Limits of hook processes, prewarmed or not: time, memory, output and concurrency.

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
use crate::harness::{Answer, TEST_TIMEOUT, Upstream, eventually, hook, processes, prompt};

/// A gateway with `BeforeModel` hooks and a mock upstream.
struct Fixture {
    gateway: Process,
    _upstream: Upstream,
}

/// Settings of `prewarm`: none, and two processes.
const PREWARM_COUNTS: [Option<u32>; 2] = [None, Some(2)];

fn command(command: &str, prewarm: Option<u32>) -> Value {
    let mut hook = json!({ "command": command });
    if let Some(count) = prewarm {
        hook["prewarm"] = json!(count);
    }
    hook
}

impl Fixture {
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
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    /// A field of the gateway's `/proc/<pid>/status`, in KiB.
    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.gateway.served.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let size = line.and_then(|value| value.trim_matches([':', '\t', ' ']).strip_suffix(" kB"));
        size.unwrap().parse().unwrap()
    }

    /// The number of the gateway's child processes.
    fn children(&self) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.gateway.served.id())).unwrap();
        let lists = tasks.map(|entry| fs::read_to_string(entry.unwrap().path().join("children")));
        let lists = lists.map(Result::unwrap_or_default);
        lists.map(|list| list.split_whitespace().count()).sum()
    }

    /// Makes this many calls at once. Returns the answers and the largest number of
    /// child processes meanwhile.
    async fn call_concurrently(&self, calls: usize) -> (Vec<Answer>, usize) {
        let calls = join_all((0..calls).map(|_| self.call()));
        tokio::pin!(calls);
        let mut max_children = 0;
        loop {
            match timeout(Duration::from_millis(2), &mut calls).await {
                Ok(answers) => return (answers, max_children),
                Err(_elapsed) => max_children = max_children.max(self.children()),
            }
        }
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.gateway.served.id());
        fs::read_dir(folder).unwrap().count()
    }

    /// Waits until the prewarmed processes are the only children.
    async fn until_ready(&self, prewarm: Option<u32>) {
        let prewarmed = usize::try_from(prewarm.unwrap_or(0)).unwrap();
        let only_prewarmed = || self.children() == prewarmed;
        eventually("only prewarmed processes run", TEST_TIMEOUT, only_prewarmed).await;
    }

    /// Likewise, for prewarmed processes without children of their own.
    async fn until_idle(&self, prewarm: Option<u32>) {
        let prewarmed = usize::try_from(prewarm.unwrap_or(0)).unwrap();
        let mark = &self.gateway.served.mark;
        eventually("only prewarmed processes are left", TEST_TIMEOUT, || {
            (self.children(), processes(mark).len()) == (prewarmed, prewarmed + 1)
        })
        .await;
    }
}

/// Returns whether a process has ended. It may be a zombie whose parent is not the gateway.
fn has_ended(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z"))
}

#[tokio::test]
async fn a_hook_that_ignores_sigterm_is_killed_with_its_descendants() {
    let ignores_sigterm = "trap '' TERM; cat > /dev/null; (sleep 600 & echo $$ $! >> ids; wait) & \
         echo $! >> ids; sleep 600";
    for prewarm in PREWARM_COUNTS {
        let mut hook = command(ignores_sigterm, prewarm);
        hook["timeout"] = json!(300);
        let fixture = Fixture::start(&hook).await;
        fixture.until_ready(prewarm).await;

        let started = Instant::now();
        let answer = fixture.call().await;
        let answered = started.elapsed();
        let ids = fixture.numbers("ids");
        let time_left = Duration::from_millis(2500).saturating_sub(started.elapsed());
        eventually("all processes have ended", time_left, || {
            ids.iter().all(|id| has_ended(*id))
        })
        .await;

        assert_denied(&answer, "Hook guard failed: timed out");
        // The call does not wait until the processes are killed, after two seconds.
        assert!(answered < Duration::from_secs(1), "{answered:?}");
        assert_eq!(ids.len(), 3);
        fixture.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_open_does_not_block_the_call() {
    let leaves_child = "cat > /dev/null; echo no >&2; sleep 600 & echo $! > child; \
         date +%s%3N > ended; exit 2";
    for prewarm in PREWARM_COUNTS {
        let fixture = Fixture::start(&command(leaves_child, prewarm)).await;
        fixture.until_ready(prewarm).await;

        let answer = fixture.call().await;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);

        assert_denied(&answer, "no");
        let ended: u64 = fixture.gateway.file("ended").trim().parse().unwrap();
        let delay = now.unwrap().saturating_sub(Duration::from_millis(ended));
        assert!(delay < Duration::from_millis(500), "{delay:?}");
        let child = fixture.numbers("child")[0];
        eventually("the child has ended", TEST_TIMEOUT, || has_ended(child)).await;
        fixture.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_child_that_may_still_write_the_output_fails_the_hook() {
    let late = r#"exec > >(sleep 600; cat); echo '{"decision":"deny","reason":"late"}';"#;
    let complete = r#"echo '{"decision":"deny","reason":"no"}'; sleep 600 &"#;
    let incomplete = "Hook guard failed: a child process holds stdout open";
    for prewarm in PREWARM_COUNTS {
        for (output, reason) in [
            (late, Some(incomplete)),
            ("echo text; sleep 600 &", Some(incomplete)),
            (complete, Some("no")),
            ("sleep 600 > /dev/null &", None),
        ] {
            let hook = command(&format!("cat > /dev/null; {output} exit 0"), prewarm);
            let fixture = Fixture::start(&hook).await;
            fixture.until_ready(prewarm).await;

            let answer = fixture.call().await;

            if let Some(reason) = reason {
                assert_denied(&answer, reason);
            } else {
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
            fixture.gateway.stop().await;
        }
    }
}

/// The memory in KiB by which a call grows the gateway when its hook writes a gibibyte.
async fn memory_for_a_gibibyte(stream: &str, prewarm: Option<u32>) -> u64 {
    let print_gibibyte = "cat > /dev/null; [ -e warm ] && head -c 1073741824 /dev/zero";
    let fixture = Fixture::start(&command(&format!("{print_gibibyte}{stream}"), prewarm)).await;
    for _ in 0..5 {
        fixture.call().await;
    }
    fs::write(fixture.gateway.folder.path().join("warm"), "").unwrap();
    fixture.until_ready(prewarm).await;
    let before = fixture.memory("VmRSS");
    let id = fixture.gateway.served.id();
    // Resets the peak, `VmHWM`.
    fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();

    let answer = fixture.call().await;

    assert_denied(&answer, "Hook guard failed: output limit exceeded");
    let growth = fixture.memory("VmHWM").saturating_sub(before);
    fixture.gateway.stop().await;
    growth
}

#[tokio::test]
async fn a_gibibyte_of_hook_output_takes_less_than_three_mebibytes() {
    for prewarm in PREWARM_COUNTS {
        for stream in [" >&1", " >&2"] {
            let growth = memory_for_a_gibibyte(stream, prewarm).await;
            // The output limit of 1 MiB, the smaller buffers before it, and the call itself.
            assert!(growth < 2 * 1024 + 512, "{growth} KiB");
        }
    }
}

#[tokio::test]
async fn a_thousand_hook_runs_leak_no_process_and_no_descriptor() {
    for prewarm in PREWARM_COUNTS {
        let hooks: Vec<_> = (0..10)
            .map(|index| {
                let mut hook = command("read -r _; exit 0", prewarm.map(|_| 1));
                hook["name"] = json!(format!("hook-{index}"));
                ("BeforeModel", hook)
            })
            .collect();
        let prewarmed = prewarm.map(|_| 10);
        let fixture = Fixture::with(&hook::config(&hooks)).await;
        assert_eq!(fixture.call().await.status, 200);
        fixture.until_idle(prewarmed).await;
        let descriptors = fixture.descriptors();

        for _ in 0..100 {
            assert_eq!(fixture.call().await.status, 200);
        }

        fixture.until_idle(prewarmed).await;
        eventually("descriptors are closed", TEST_TIMEOUT, || {
            fixture.descriptors() <= descriptors
        })
        .await;
        let runs = fixture.gateway.operator.get("/metrics").await;
        let runs = runs.text().lines();
        let runs = runs.filter(|line| line.starts_with("hookgate_hook_runs_total"));
        assert_eq!(runs.filter(|line| line.ends_with(" 101")).count(), 10);
        fixture.gateway.stop().await;
    }
}

#[tokio::test]
async fn two_hundred_concurrent_calls_respect_the_hook_process_limit() {
    const MAX_HOOK_PROCESSES: usize = 16;
    // A single process that is busy for a while.
    let busy = "read -r _; for i in {1..2000}; do :; done; echo $$ >&2; exit 2";
    for prewarm in PREWARM_COUNTS {
        let limit = format!("limits: {{ hook_processes: {MAX_HOOK_PROCESSES} }}\n");
        let config = limit + &config("BeforeModel", &command(busy, prewarm));
        let fixture = Fixture::with(&config).await;
        fixture.until_idle(prewarm).await;
        let (answers, max_children) = fixture.call_concurrently(200).await;

        let reason = |answer: &Answer| answer.json()["error"]["message"].clone();
        let ids: BTreeSet<u64> = answers
            .iter()
            .map(|answer| reason(answer).as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(ids.len(), 200);
        assert!(
            (MAX_HOOK_PROCESSES / 2..=MAX_HOOK_PROCESSES).contains(&max_children),
            "{max_children}"
        );
        fixture.until_idle(prewarm).await;
        fixture.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_worker_killed_during_a_call_fails_that_call_only() {
    let wait = ": > called-$$; until [ -e go ]; do sleep 0.01; done";
    let deny = r#"answer '{"decision":"deny","reason":"'"$$"'"}'"#;
    let command = worker(&format!("{wait}; {deny}"), "");
    let hook = json!({ "type": "worker", "command": command, "instances": 2 });
    let fixture = Fixture::start(&hook).await;
    let folder = fixture.gateway.folder.path();
    let calls = join_all((0..8).map(|_| fixture.call()));
    let kill = async {
        let called = |id: u32| folder.join(format!("called-{id}")).exists();
        eventually("both workers are called", TEST_TIMEOUT, || {
            let starts = fixture.numbers("starts");
            starts.len() == 2 && starts.into_iter().all(called)
        })
        .await;
        let id = fixture.numbers("starts")[0];
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::KILL).unwrap();
        eventually("the worker has ended", TEST_TIMEOUT, || has_ended(id)).await;
        fs::write(folder.join("go"), "").unwrap();
        id
    };

    let (answers, killed) = tokio::join!(calls, kill);

    let failure = "Hook guard failed: process exited unexpectedly";
    let reason = |answer: &Answer| {
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (failed, answered): (Vec<_>, Vec<_>) = answers
        .iter()
        .map(reason)
        .partition(|message| message == failure);
    assert_eq!((failed.len(), answered.len()), (1, 7), "{answered:?}");
    assert!(!answered.contains(&killed.to_string()));
    fixture.gateway.stop().await;
}
