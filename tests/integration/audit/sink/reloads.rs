//! Reloads that change the path of the decision log while the endpoint of its sink is away.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{Sink, metric, wait_until_caught_up};
use crate::harness::{Agent, ServerProcess, TEST_TIMEOUT, Upstream, decision_log, prompt};

/// Longer than a log is sent after it was closed at the end of a gateway.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Gateway whose sink fails.
struct Gateway {
    upstream: Upstream,
    sink: Sink,
    folder: TempDir,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl Gateway {
    /// Starts with a decision log of this name, and makes a call.
    async fn start(log: &str) -> Self {
        let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
        sink.respond_with(503);
        let folder = TempDir::new().unwrap();
        write_config(folder.path(), &upstream, &sink, log);
        let mut served = ServerProcess::folder(folder.path());
        let agent = Agent::at(served.addr());
        let gateway = Self {
            operator: Agent::at(served.operators()),
            agent,
            upstream,
            sink,
            folder,
            served,
        };
        gateway.call().await;
        let failures = "hookgate_audit_sink_failures_total{reason=\"status\"}";
        let deadline = Instant::now() + TEST_TIMEOUT;
        while metric(&gateway.operator, failures).await.is_none() {
            assert!(Instant::now() < deadline, "the sink does not fail");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        gateway
    }

    async fn call(&self) {
        let answer = self.agent.generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Continues with another decision log, and makes a call.
    async fn reload(&self, log: &str) {
        write_config(self.folder.path(), &self.upstream, &self.sink, log);
        let reloaded = self.operator.post("/reload", "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        self.call().await;
    }

    /// Shuts down. Returns the log of the process.
    async fn stop(self) -> (Sink, TempDir, String) {
        let served = self.served;
        served.terminate();
        let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
        let (status, log) = ended.await.unwrap();
        assert!(status.success(), "{log}");
        (self.sink, self.folder, log)
    }
}

fn write_config(folder: &Path, upstream: &Upstream, sink: &Sink, log: &str) {
    let (upstream, sink) = (upstream.addr, sink.setting(""));
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{upstream}\" }} }}\n\
         policies: [{{ policy: model_allow, models: [\"*\"] }}]\n\
         audit: {{ path: {log}, {sink} }}\n"
    );
    fs::write(folder.join("hookgate.yaml"), config).unwrap();
}

/// Returns how often each line of a log was sent.
fn copies(sink: &Sink, log: &Path) -> Vec<usize> {
    let copy = sink.lines();
    let copies = decision_log(log).into_iter().map(|line| {
        let end = format!("\"hash\":{}}}", line["hash"]);
        copy.iter().filter(|line| line.ends_with(&end)).count()
    });
    copies.collect()
}

#[tokio::test]
async fn lines_of_a_log_that_a_reload_replaces_are_sent_after_the_outage() {
    let gateway = Gateway::start("one.jsonl").await;
    gateway.reload("two.jsonl").await;
    tokio::time::sleep(SHUTDOWN_TIMEOUT).await;

    gateway.sink.respond_with(200);
    wait_until_caught_up(&gateway.operator).await;
    let (sink, folder, _) = gateway.stop().await;

    for log in ["one.jsonl", "two.jsonl"] {
        let copies = copies(&sink, &folder.path().join(log));
        assert!(!copies.contains(&0), "{log}: {copies:?}");
    }
}

#[tokio::test]
async fn a_log_to_which_a_reload_returns_is_sent_once() {
    let gateway = Gateway::start("one.jsonl").await;
    gateway.reload("two.jsonl").await;
    gateway.reload("one.jsonl").await;

    gateway.sink.respond_with(200);
    wait_until_caught_up(&gateway.operator).await;
    let (sink, folder, _) = gateway.stop().await;

    let copies = copies(&sink, &folder.path().join("one.jsonl"));
    assert!(copies.iter().all(|copies| *copies == 1), "{copies:?}");
}

#[tokio::test]
async fn a_log_whose_lines_are_not_sent_before_the_shutdown_is_named() {
    let gateway = Gateway::start("one.jsonl").await;
    gateway.reload("two.jsonl").await;

    let (sink, _, log) = gateway.stop().await;

    assert!(sink.lines().is_empty());
    for path in ["one.jsonl", "two.jsonl"] {
        let mut lines = log.lines();
        let is_named = lines.any(|line| {
            line.contains("the last lines of the log were not sent") && line.contains(path)
        });
        assert!(is_named, "{path}: {log}");
    }
}
