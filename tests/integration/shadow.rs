//! Shadows: evaluation of another config on live calls, without an effect on them.

mod budgets;
mod hooks;
mod lifetime;
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
    harness::{Agent, ServerProcess, TEST_TIMEOUT, Upstream, decision_log},
    replay::{
        conversations::{Call, upstream},
        recorded::UPSTREAMS,
    },
};

/// A budget that no test exhausts.
const AMPLE_BUDGET: &str = "budget: { memory: 256MiB, queue: 10000, cpu: 100% }";

/// A gateway with a decision log, a recording, and the shadow's config `next.yaml`.
struct ShadowGateway {
    folder: TempDir,
    upstream: Upstream,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl ShadowGateway {
    /// Starts with the config `live` and the shadow's config `next`. `shadow` has the shadow's
    /// settings, or is empty for none.
    async fn start(live: &str, next: &str, shadow: &str) -> Self {
        let gateway = Self::launch(live, next, shadow).await;
        if !shadow.is_empty() {
            gateway
                .wait_until("a shadow", |status| status["state"] != "none")
                .await;
        }
        gateway
    }

    /// Starts the gateway like [`Self::start`], and does not wait for its shadow.
    async fn launch(live: &str, next: &str, shadow: &str) -> Self {
        let upstream = upstream().await;
        let folder = TempDir::new().unwrap();
        write_config(folder.path(), &upstream, "next.yaml", next);
        write_config(
            folder.path(),
            &upstream,
            "hookgate.yaml",
            &config_with_shadow(live, shadow),
        );
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            upstream,
            served,
        }
    }

    /// Writes a config file.
    fn write_config(&self, name: &str, config: &str) {
        write_config(self.folder.path(), &self.upstream, name, config);
    }

    async fn status(&self) -> Value {
        self.operator.get("/shadow").await.json()
    }

    /// Waits until the status of the shadow meets a condition, and returns the status.
    async fn wait_until(&self, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        // A shadow's thread has the lowest priority, so it can be slow.
        let deadline = Instant::now() + 20 * TEST_TIMEOUT;
        loop {
            let status = self.status().await;
            if is_met(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "no {what}: {status:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the shadow has evaluated this number of calls.
    async fn wait_until_evaluated(&self, calls: usize) -> Value {
        let calls = calls as u64;
        self.wait_until("evaluated calls", |status| evaluated_calls(status) == calls)
            .await
    }

    /// Ends the shadow and returns its status.
    async fn end_shadow(&self) -> Value {
        let ended = self.operator.ask("DELETE", "/shadow", "").await;
        assert_eq!(ended.status, 200, "{}", ended.text());
        ended.json()
    }

    /// Stops the gateway. Returns its folder, the lines of its decision log, whose hash chain is
    /// verified, and its log.
    fn stop(self) -> (TempDir, Vec<Value>, String) {
        self.served.terminate();
        let (status, logged) = self.served.ended(Duration::from_secs(20));
        assert!(status.success(), "{logged}");
        let lines = decision_log(&self.folder.path().join("audit.jsonl"));
        (self.folder, lines, logged)
    }
}

/// Returns a config with a decision log, a recording and this shadow.
fn config_with_shadow(live: &str, shadow: &str) -> String {
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

fn write_config(folder: &Path, upstream: &Upstream, name: &str, config: &str) {
    let config = format!("{UPSTREAMS}{config}");
    let config = config.replace("{upstream}", &format!("http://{}", upstream.addr));
    fs::write(folder.join(name), config).unwrap();
}

/// Returns the number of calls that a shadow has evaluated.
fn evaluated_calls(status: &Value) -> u64 {
    status["report"]["counts"]["calls"].as_u64().unwrap_or(0)
}

/// Makes calls, one after the other.
async fn make_calls(agent: &Agent, calls: &[Call]) {
    for call in calls {
        call.make(agent).await;
    }
}
