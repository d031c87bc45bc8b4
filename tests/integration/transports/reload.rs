//! What becomes of the processes of hooks when the config changes.

use std::cell::Cell;

use serde_json::{Value, json};

use super::{Process, whole, worker::worker};
use crate::harness::{Answer, PATIENCE, Upstream, eventually, prompt};

/// A gateway whose config changes.
struct Bench {
    upstream: Upstream,
    gateway: Process,
}

/// A worker that refuses with its process's number and how many calls it has
/// had.
fn counting() -> String {
    let count = r#"calls=$((calls + 1)); answer '{"decision":"deny","reason":"'"$$ $calls"'"}'"#;
    worker(count, "")
}

fn hook(name: &str) -> Value {
    json!({ "type": "worker", "name": name, "command": counting() })
}

/// Hooks of one event, one after the other, and what else a config says.
fn config(hooks: &[Value], more: &str) -> String {
    format!(
        "denials: error\n{more}\nhooks: {}\n",
        json!({ "BeforeModel": [{ "sequential": true, "hooks": hooks }] })
    )
}

impl Bench {
    async fn start(hooks: &[Value]) -> Self {
        let upstream = Upstream::mock().await;
        let gateway = Process::start(&upstream, &config(hooks, ""), &[]);
        Self { upstream, gateway }
    }

    async fn reload(&self, config: &str) -> Answer {
        let file = self.gateway.folder.path().join("hookgate.yaml");
        std::fs::write(file, whole(&self.upstream, config)).unwrap();
        self.gateway.operator.post("/reload", "").await
    }

    async fn reload_well(&self, hooks: &[Value], more: &str) {
        let reloaded = self.reload(&config(hooks, more)).await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    }

    /// Of each worker, in order: its process, and how many calls it has had.
    async fn call(&self) -> Vec<(u32, u32)> {
        let answer = self.gateway.agent.generate("m", &prompt("hello")).await;
        let reason = answer.json()["error"]["message"].clone();
        let lines = reason.as_str().unwrap_or_default().lines();
        let numbers = lines.map(|it| it.split_once(' ').unwrap());
        numbers
            .map(|(id, calls)| (id.parse().unwrap(), calls.parse().unwrap()))
            .collect()
    }
}

async fn gone(id: u32) {
    let process = format!("/proc/{id}");
    let ended = || !std::path::Path::new(&process).exists();
    eventually("the old worker is gone", PATIENCE, ended).await;
}

#[tokio::test]
async fn an_unchanged_worker_lives_on_and_others_end() {
    let stays = || hook("stays");
    let bench = Bench::start(&[stays(), hook("changes"), hook("goes")]).await;
    let before = bench.call().await;

    let mut changed = hook("changes");
    changed["env"] = json!({ "LEVEL": "2" });
    // What is not the process's business may change.
    let mut stays = stays();
    stays["timeout"] = json!(7000);
    let more = "limits: { hook_processes: 9, in_flight: 9 }";
    bench
        .reload_well(&[hook("new"), stays, changed], more)
        .await;

    gone(before[1].0).await;
    gone(before[2].0).await;
    let after = bench.call().await;
    assert_eq!(after[1], (before[0].0, 2));
    assert_eq!((after[0].1, after[2].1), (1, 1));
    assert_ne!(after[2].0, before[1].0);
    let metrics = bench.gateway.operator.get("/metrics").await;
    assert!(metrics.text().contains("hookgate_hook_processes 3\n"));
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_reload_that_is_refused_changes_nothing() {
    let bench = Bench::start(&[hook("a"), hook("b")]).await;
    let before = bench.call().await;
    let crowd = json!({ "type": "worker", "name": "c", "command": "cat", "instances": 62 });

    for bad in [
        "hoks: {}".to_owned(),
        config(&[hook("b"), hook("a"), crowd], ""),
        config(&[json!({ "command": " " })], ""),
    ] {
        assert_eq!(bench.reload(&bad).await.status, 400, "{bad}");
    }

    let after = bench.call().await;
    assert_eq!(after, [(before[0].0, 2), (before[1].0, 2)]);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_call_under_way_ends_with_the_worker_it_began_with() {
    let slow = "touch called; until [ -e go ]; do sleep 0.01; done";
    let slow = worker(
        &format!(r#"{slow}; answer '{{"decision":"deny","reason":"'"$$ 1"'"}}'"#),
        "",
    );
    let hook = json!({ "type": "worker", "name": "slow", "command": slow });
    let bench = Bench::start(&[hook]).await;
    let folder = bench.gateway.folder.path();
    let reload = async {
        let called = || folder.join("called").exists();
        eventually("the worker is called", PATIENCE, called).await;
        bench.reload_well(&[self::hook("other")], "").await;
        let new = bench.call().await;
        std::fs::write(folder.join("go"), "").unwrap();
        new
    };

    let (old, new) = tokio::join!(bench.call(), reload);

    assert_eq!((old.len(), new.len()), (1, 1));
    let starts = bench.gateway.file("starts");
    assert_eq!(starts, format!("{}\n{}\n", old[0].0, new[0].0));
    gone(old[0].0).await;
    assert_eq!(bench.call().await, [(new[0].0, 2)]);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn many_reloads_under_load_lose_no_call_and_leave_nothing() {
    const ROUNDS: usize = 25;
    let hooks = |round: usize| {
        let mut changes = hook("changes");
        changes["env"] = json!({ "ROUND": round.to_string() });
        let spare = json!({
            "name": "spare", "prewarm": 1 + round % 3 * 20,
            "command": r#"read -r _; echo "$$ 1" >&2; exit 2"#,
        });
        [hook("stays"), changes, spare]
    };
    let places = |round: usize| format!("limits: {{ hook_processes: {} }}", 4 + round % 4);
    let bench = Bench::start(&hooks(0)).await;
    let worker = bench.call().await[0].0;
    let descriptors = format!("/proc/{}/fd", bench.gateway.served.id());
    let descriptors = || std::fs::read_dir(&descriptors).unwrap().count();
    let settled = async || {
        let metrics = bench.gateway.operator.get("/metrics").await;
        metrics.text().contains("hookgate_hook_processes 3\n")
    };
    // The spare that was hired is about to be replaced.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !settled().await {
        assert!(tokio::time::Instant::now() < deadline, "no spare");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let before = descriptors();
    let (over, calls) = (Cell::new(false), Cell::new(1));
    let load = || async {
        while !over.get() {
            let answered = bench.call().await;
            assert_eq!((answered.len(), answered[0].0), (3, worker));
            calls.set(calls.get() + 1);
        }
    };
    let storm = async {
        for round in 1..=ROUNDS {
            bench.reload_well(&hooks(round), &places(round)).await;
        }
        over.set(true);
    };

    tokio::join!(storm, load(), load(), load());

    assert_eq!(bench.call().await[0].1, calls.get() + 1);
    bench.reload_well(&hooks(0), &places(0)).await;
    bench.call().await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !settled().await || descriptors() > before + 4 {
        let in_time = tokio::time::Instant::now() < deadline;
        assert!(in_time, "{} after {before}", descriptors());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_reload_that_adds_the_context_reaches_a_worker_that_lives_on() {
    let says = r#"case "$line" in *'"hookgate"'*) seen=1 ;; *) seen=0 ;; esac; "#;
    let says = format!(
        "{says}{}",
        r#"answer '{"decision":"deny","reason":"'"$$ $seen"'"}'"#
    );
    let hook = json!({ "type": "worker", "name": "a", "command": worker(&says, "") });
    let mut with_context = hook.clone();
    with_context["context"] = json!(true);
    let bench = Bench::start(std::slice::from_ref(&hook)).await;

    let before = bench.call().await;
    bench.reload_well(&[with_context], "").await;
    let after = bench.call().await;

    assert_eq!((before[0].1, after[0].1), (0, 1));
    assert_eq!(before[0].0, after[0].0, "the same process");
    bench.gateway.stop().await;
}
