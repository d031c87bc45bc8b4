//! Guard proof: cases that a policy or hook must deny, allow or mask, run in the gateway.

mod busy;
mod effects;
mod forms;
mod gateway_events;
mod load;
mod repeated;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Agent, ServerProcess, TEST_TIMEOUT, Upstream, serve_command};

/// A guard that denies `rm -rf` and allows the rest. Each run appends its input to `runs`.
const GUARD: &str = "input=$(cat); echo \"$input\" >> runs; \
    case $input in *'rm -rf'*) echo 'not allowed' >&2; exit 2;; esac";

/// The cases of the guard.
const CASES: &str = "must_deny: [{ tool_call: { name: run_shell_command, args: { command: rm -rf / } } }], \
    must_allow: [{ tool_call: { name: run_shell_command, args: { command: ls } } }]";

/// A running gateway whose config and hooks are files in a temporary folder.
struct ProofGateway {
    folder: TempDir,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
    upstream: Upstream,
}

impl ProofGateway {
    /// Starts a gateway with this config and these files. `bin` is the first folder of `PATH`.
    async fn start(config: &str, files: &[(&str, &str)]) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/bash", folder.path().join("bin/guardsh")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        write_config(folder.path(), &upstream, config);
        let path = format!(
            "{}:{}",
            folder.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = serve_command(folder.path());
        command.env("PATH", path);
        let mut served = ServerProcess::start(command);
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            served,
            upstream,
        }
    }

    fn write_file(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    fn write_config(&self, config: &str) {
        write_config(self.folder.path(), &self.upstream, config);
    }

    /// Returns the inputs of the guard's runs.
    fn runs(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits until the metrics contain a line.
    async fn wait_for_metric(&self, line: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let metrics = self.operator.get("/metrics").await;
            if metrics.text().lines().any(|found| found == line) {
                return;
            }
            assert!(Instant::now() < deadline, "{line}\n{}", metrics.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the metrics report that a guard is proven, or that it is not.
    async fn wait_for_proof(&self, hook: &str, is_proven: bool) {
        let value = u8::from(is_proven);
        self.wait_for_metric(&format!("hookgate_guard_proven{{hook=\"{hook}\"}} {value}"))
            .await;
    }

    /// Reports a call of a shell command as an event, and returns the output.
    async fn report_call(&self) -> Value {
        let event = json!({
            "hook_event_name": "BeforeTool",
            "tool_name": "run_shell_command",
            "tool_input": { "command": "ls" },
        });
        self.agent.report(&event, "").await.json()
    }
}

fn write_config(folder: &Path, upstream: &Upstream, config: &str) {
    let text = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{config}",
        upstream.addr
    );
    fs::write(folder.join("hookgate.yaml"), text).unwrap();
}

/// A config with one hook on an event, with these further fields.
fn hook_config(event: &str, fields: &str) -> String {
    format!(
        "proof: {{ every: 200ms }}\nhooks:\n  {event}:\n    - hooks:\n        - {{ name: shell, {fields}, {CASES} }}\n"
    )
}
