//! Ways to reach a hook other than to start a process for each event.

mod alike;
mod bounds;
mod http;
mod line;
mod malformed_output;
mod prewarm;
mod reload;
mod worker;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Agent, Answer, PATIENCE, Served, TestGateway, Upstream, hookgate};

/// A config with one hook, which refuses if it fails; denials are errors.
fn config(event: &str, hook: &Value) -> String {
    let mut guard = json!({ "name": "guard", "on_failure": "closed" });
    let fields = hook.as_object().unwrap().clone();
    guard.as_object_mut().unwrap().extend(fields);
    format!("denials: error\nhooks: {{ {event}: [{{ hooks: [{guard}] }}] }}\n")
}

/// Checks that the call was refused, with this reason.
#[track_caller]
fn assert_denied(answer: &Answer, reason: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.json()["error"]["message"], reason);
}

/// The number of hook processes that are running.
async fn hook_processes(gate: &TestGateway) -> u64 {
    gate.operator().metric("hookgate_hook_processes").await
}

/// A config with all that a gateway needs.
fn whole(upstream: &Upstream, config: &str) -> String {
    format!(
        "{config}\nlisten: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    )
}

/// The real binary, as a process.
struct Process {
    served: Served,
    agent: Agent,
    operator: Agent,
    folder: TempDir,
}

impl Process {
    /// Starts it with this config and these variables.
    fn start(upstream: &Upstream, config: &str, variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("hookgate.yaml");
        std::fs::write(&file, whole(upstream, config)).unwrap();
        let mut command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
        command.envs(variables.iter().copied());
        let mut served = Served::start(command);
        let agent = Agent::at(served.addr());
        let line = served.line();
        let operators = line.strip_prefix("admin on http://").unwrap();
        Self {
            agent,
            operator: Agent::at(operators.parse().unwrap()),
            served,
            folder,
        }
    }

    /// What hooks wrote to a file; empty if there is none.
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Asks it to end, and gives what it logged.
    async fn stop(self) -> String {
        self.served.terminate();
        let served = self.served;
        let ended = tokio::task::spawn_blocking(move || served.ended(PATIENCE));
        let (status, log) = ended.await.unwrap();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }
}
