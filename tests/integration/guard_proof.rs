//! Guard proof: cases that a policy or hook must deny, allow or mask, run in the gateway.

mod effects;
mod forms;
mod load;
mod repeated;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Agent, PATIENCE, Served, Upstream, serving};

/// A guard that denies `rm -rf` and allows the rest. Each run is counted by a line.
const GUARD: &str = "input=$(cat); echo \"$input\" >> runs; \
    case $input in *'rm -rf'*) echo 'not allowed' >&2; exit 2;; esac";

/// The cases of the guard.
const CASES: &str = "must_deny: [{ tool_call: { name: run_shell_command, args: { command: rm -rf / } } }], \
    must_allow: [{ tool_call: { name: run_shell_command, args: { command: ls } } }]";

/// A running gateway whose config and hooks are in a folder.
struct Proving {
    folder: TempDir,
    served: Served,
    agent: Agent,
    operator: Agent,
    upstream: Upstream,
}

impl Proving {
    /// Starts with this config and these files. `bin` is the first folder of `PATH`.
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
        let mut command = serving(folder.path());
        command.env("PATH", path);
        let mut served = Served::start(command);
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            served,
            upstream,
        }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    fn write_config(&self, config: &str) {
        write_config(self.folder.path(), &self.upstream, config);
    }

    /// The inputs with which the guard ran.
    fn runs(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits until the metrics hold a line.
    async fn measured(&self, line: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.operator.get("/metrics").await;
            if metrics.text().lines().any(|found| found == line) {
                return;
            }
            assert!(Instant::now() < deadline, "{line}\n{}", metrics.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a guard is proven, or is not.
    async fn proven(&self, hook: &str, is_proven: bool) {
        let value = u8::from(is_proven);
        self.measured(&format!("hookgate_guard_proven{{hook=\"{hook}\"}} {value}"))
            .await;
    }

    /// The output for a reported call of a shell command.
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

/// A config with one hook on an event, and with these further lines.
fn hook(event: &str, fields: &str) -> String {
    format!(
        "proof: {{ every: 200ms }}\nhooks:\n  {event}:\n    - hooks:\n        - {{ name: shell, {fields}, {CASES} }}\n"
    )
}
