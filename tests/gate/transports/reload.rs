//! What becomes of the processes of hooks when the config changes.

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
