//! Hook processes across reloads of the config.

use std::cell::Cell;

use serde_json::{Value, json};

use super::{Process, complete_config, worker::worker};
use crate::harness::{Answer, TEST_TIMEOUT, Upstream, eventually, prompt};

/// A gateway whose config is reloaded.
struct Fixture {
    upstream: Upstream,
    gateway: Process,
}

/// A worker that denies with its process id and its number of calls.
fn counting_worker() -> String {
    let count = r#"calls=$((calls + 1)); answer '{"decision":"deny","reason":"'"$$ $calls"'"}'"#;
    worker(count, "")
}

fn hook(name: &str) -> Value {
    json!({ "type": "worker", "name": name, "command": counting_worker() })
}

/// A config with sequential hooks on `BeforeModel`, and more settings.
fn config(hooks: &[Value], more: &str) -> String {
    format!(
        "denials: error\n{more}\nhooks: {}\n",
        json!({ "BeforeModel": [{ "sequential": true, "hooks": hooks }] })
    )
}

impl Fixture {
    async fn start(hooks: &[Value]) -> Self {
        let upstream = Upstream::mock().await;
        let gateway = Process::start(&upstream, &config(hooks, ""), &[]);
        Self { upstream, gateway }
    }

    async fn reload(&self, config: &str) -> Answer {
        let file = self.gateway.folder.path().join("hookgate.yaml");
        std::fs::write(file, complete_config(&self.upstream, config)).unwrap();
        self.gateway.operator.post("/reload", "").await
    }

    async fn reload_ok(&self, hooks: &[Value], more: &str) {
        let reloaded = self.reload(&config(hooks, more)).await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    }

    /// Makes a call. Returns the process id and the number of calls of each worker, in
    /// order.
    async fn call(&self) -> Vec<(u32, u32)> {
        let answer = self.gateway.agent.generate("m", &prompt("hello")).await;
        let reason = answer.json()["error"]["message"].clone();
        let lines = reason.as_str().unwrap_or_default().lines();
        let numbers = lines.map(|line| line.split_once(' ').unwrap());
        numbers
            .map(|(id, calls)| (id.parse().unwrap(), calls.parse().unwrap()))
            .collect()
    }
}

async fn until_ended(id: u32) {
    let process = format!("/proc/{id}");
    let ended = || !std::path::Path::new(&process).exists();
    eventually("the old worker has ended", TEST_TIMEOUT, ended).await;
}

#[tokio::test]
async fn a_reload_keeps_unchanged_workers_and_ends_others() {
    let unchanged = || hook("stays");
    let fixture = Fixture::start(&[unchanged(), hook("changes"), hook("goes")]).await;
    let before = fixture.call().await;

    let mut changed = hook("changes");
    changed["env"] = json!({ "LEVEL": "2" });
    // Settings that do not concern the process may change.
    let mut unchanged = unchanged();
    unchanged["timeout"] = json!(7000);
    let more = "limits: { hook_processes: 9, in_flight: 9 }";
    fixture
        .reload_ok(&[hook("new"), unchanged, changed], more)
        .await;

    until_ended(before[1].0).await;
    until_ended(before[2].0).await;
    let after = fixture.call().await;
    assert_eq!(after[1], (before[0].0, 2));
    assert_eq!((after[0].1, after[2].1), (1, 1));
    assert_ne!(after[2].0, before[1].0);
    let metrics = fixture.gateway.operator.get("/metrics").await;
    assert!(metrics.text().contains("hookgate_hook_processes 3\n"));
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn a_reload_that_is_refused_changes_nothing() {
    let fixture = Fixture::start(&[hook("a"), hook("b")]).await;
    let before = fixture.call().await;
    let too_many = json!({ "type": "worker", "name": "c", "command": "cat", "instances": 62 });

    for bad in [
        "hoks: {}".to_owned(),
        config(&[hook("b"), hook("a"), too_many], ""),
        config(&[json!({ "command": " " })], ""),
    ] {
        assert_eq!(fixture.reload(&bad).await.status, 400, "{bad}");
    }

    let after = fixture.call().await;
    assert_eq!(after, [(before[0].0, 2), (before[1].0, 2)]);
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn a_call_in_flight_completes_on_the_worker_of_the_old_config() {
    let slow = "touch called; until [ -e go ]; do sleep 0.01; done";
    let slow = worker(
        &format!(r#"{slow}; answer '{{"decision":"deny","reason":"'"$$ 1"'"}}'"#),
        "",
    );
    let hook = json!({ "type": "worker", "name": "slow", "command": slow });
    let fixture = Fixture::start(&[hook]).await;
    let folder = fixture.gateway.folder.path();
    let reload = async {
        let called = || folder.join("called").exists();
        eventually("the worker is called", TEST_TIMEOUT, called).await;
        fixture.reload_ok(&[self::hook("other")], "").await;
        let new = fixture.call().await;
        std::fs::write(folder.join("go"), "").unwrap();
        new
    };

    let (old, new) = tokio::join!(fixture.call(), reload);

    assert_eq!((old.len(), new.len()), (1, 1));
    let starts = fixture.gateway.file("starts");
    assert_eq!(starts, format!("{}\n{}\n", old[0].0, new[0].0));
    until_ended(old[0].0).await;
    assert_eq!(fixture.call().await, [(new[0].0, 2)]);
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn many_reloads_under_load_lose_no_call_and_leak_no_descriptor() {
    const ROUNDS: usize = 25;
    let hooks = |round: usize| {
        let mut changed = hook("changes");
        changed["env"] = json!({ "ROUND": round.to_string() });
        let prewarmed = json!({
            "name": "spare", "prewarm": 1 + round % 3 * 20,
            "command": r#"read -r _; echo "$$ 1" >&2; exit 2"#,
        });
        [hook("stays"), changed, prewarmed]
    };
    let limits = |round: usize| format!("limits: {{ hook_processes: {} }}", 4 + round % 4);
    let fixture = Fixture::start(&hooks(0)).await;
    let worker = fixture.call().await[0].0;
    let descriptors = format!("/proc/{}/fd", fixture.gateway.served.id());
    let descriptors = || std::fs::read_dir(&descriptors).unwrap().count();
    let settled = async || {
        let metrics = fixture.gateway.operator.get("/metrics").await;
        metrics.text().contains("hookgate_hook_processes 3\n")
    };
    // The prewarmed process that was used is about to be replaced.
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !settled().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the prewarmed process was not replaced"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let before = descriptors();
    let (is_done, calls) = (Cell::new(false), Cell::new(1));
    let load = || async {
        while !is_done.get() {
            let answered = fixture.call().await;
            assert_eq!((answered.len(), answered[0].0), (3, worker));
            calls.set(calls.get() + 1);
        }
    };
    let reloads = async {
        for round in 1..=ROUNDS {
            fixture.reload_ok(&hooks(round), &limits(round)).await;
        }
        is_done.set(true);
    };

    tokio::join!(reloads, load(), load(), load());

    assert_eq!(fixture.call().await[0].1, calls.get() + 1);
    fixture.reload_ok(&hooks(0), &limits(0)).await;
    fixture.call().await;
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !settled().await || descriptors() > before + 4 {
        let is_in_time = tokio::time::Instant::now() < deadline;
        assert!(is_in_time, "{} descriptors after {before}", descriptors());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn a_reload_that_adds_the_context_reaches_a_running_worker() {
    let reply = r#"case "$line" in *'"hookgate"'*) seen=1 ;; *) seen=0 ;; esac; "#;
    let reply = format!(
        "{reply}{}",
        r#"answer '{"decision":"deny","reason":"'"$$ $seen"'"}'"#
    );
    let hook = json!({ "type": "worker", "name": "a", "command": worker(&reply, "") });
    let mut with_context = hook.clone();
    with_context["context"] = json!(true);
    let fixture = Fixture::start(std::slice::from_ref(&hook)).await;

    let before = fixture.call().await;
    fixture.reload_ok(&[with_context], "").await;
    let after = fixture.call().await;

    assert_eq!((before[0].1, after[0].1), (0, 1));
    assert_eq!(before[0].0, after[0].0, "the same process");
    fixture.gateway.stop().await;
}
