//! The shadow: another config judges live calls, and nothing else changes.

mod budgets;
mod ends;
mod hooks;
mod operators;
mod reports;
mod without_effect;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    harness::{Agent, PATIENCE, Served, Upstream, decision_log},
    replay::{
        conversations::{Call, upstream},
        recorded::HEAD,
    },
};

/// Budgets that no test reaches by itself.
const AMPLE: &str = "budget: { memory: 256MiB, queue: 10000, cpu: 100% }";

/// A gateway with a decision log, a recording, and `next.yaml` beside its config.
struct Shadowed {
    folder: TempDir,
    upstream: Upstream,
    served: Served,
    agent: Agent,
    operator: Agent,
}

impl Shadowed {
    /// Starts with this config and the other one; `shadow` is the section, or empty.
    async fn start(live: &str, next: &str, shadow: &str) -> Self {
        let upstream = upstream().await;
        let folder = TempDir::new().unwrap();
        write(folder.path(), &upstream, "next.yaml", next);
        write(
            folder.path(),
            &upstream,
            "hookgate.yaml",
            &with(live, shadow),
        );
        let mut served = Served::folder(folder.path());
        let gateway = Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            upstream,
            served,
        };
        if !shadow.is_empty() {
            gateway
                .until("a shadow", |status| status["state"] != "none")
                .await;
        }
        gateway
    }

    /// Writes the config, or the other one.
    fn write(&self, name: &str, config: &str) {
        write(self.folder.path(), &self.upstream, name, config);
    }

    async fn status(&self) -> Value {
        self.operator.get("/shadow").await.json()
    }

    /// Waits for a state of the shadow.
    async fn until(&self, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        // The thread of a shadow has the lowest priority.
        let deadline = Instant::now() + 20 * PATIENCE;
        loop {
            let status = self.status().await;
            if is_met(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "no {what}: {status:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until so many calls are judged.
    async fn until_judged(&self, calls: usize) -> Value {
        let calls = calls as u64;
        self.until("judged calls", |status| judged(status) == calls)
            .await
    }

    /// Ends the shadow.
    async fn end(&self) -> Value {
        let ended = self.operator.ask("DELETE", "/shadow", "").await;
        assert_eq!(ended.status, 200, "{}", ended.text());
        ended.json()
    }

    /// Ends the gateway. Gives its folder, its decision log, whose chain must hold, and what it
    /// logged.
    fn stop(self) -> (TempDir, Vec<Value>, String) {
        self.served.terminate();
        let (status, logged) = self.served.ended(Duration::from_secs(20));
        assert!(status.success(), "{logged}");
        let lines = decision_log(&self.folder.path().join("audit.jsonl"));
        (self.folder, lines, logged)
    }
}

/// A config with a recording and this shadow.
fn with(live: &str, shadow: &str) -> String {
    let shadow = if shadow.is_empty() {
        String::new()
    } else {
        format!("shadow: {{ config: next.yaml, {shadow} }}\n")
    };
    format!(
        "audit: {{ path: audit.jsonl, mode: best_effort }}\n\
         record: {{ path: recordings, what: {{ sample: 1 }}, redact: none }}\n{live}{shadow}"
    )
}

fn write(folder: &Path, upstream: &Upstream, name: &str, config: &str) {
    let config = format!("{HEAD}{config}");
    let config = config.replace("{upstream}", &format!("http://{}", upstream.addr));
    fs::write(folder.join(name), config).unwrap();
}

/// The number of calls that a shadow has judged.
fn judged(status: &Value) -> u64 {
    status["report"]["counts"]["calls"].as_u64().unwrap_or(0)
}

/// Makes calls, one after the other.
async fn make(agent: &Agent, calls: &[Call]) {
    for call in calls {
        call.make(agent).await;
    }
}
