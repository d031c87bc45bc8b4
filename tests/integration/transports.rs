//! Hook transports: commands, prewarmed processes, workers and HTTP servers.

mod bounds;
mod http;
mod line;
mod malformed_output;
mod prewarm;
mod reload;
mod settings;
mod worker;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Agent, Answer, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, hookgate};

/// A config with one hook, `guard`, that fails closed; denials are HTTP errors.
fn config(event: &str, hook: &Value) -> String {
    let mut guard = json!({ "name": "guard", "on_failure": "closed" });
    let fields = hook.as_object().unwrap().clone();
    guard.as_object_mut().unwrap().extend(fields);
    format!("denials: error\nhooks: {{ {event}: [{{ hooks: [{guard}] }}] }}\n")
}

/// Asserts that the call was denied with this reason.
#[track_caller]
fn assert_denied(answer: &Answer, reason: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.json()["error"]["message"], reason);
}

/// The number of hook processes that are running.
async fn hook_processes(gate: &TestGateway) -> u64 {
    gate.operator().metric("hookgate_hook_processes").await
}

/// Adds the listeners and the upstream to a config.
fn complete_config(upstream: &Upstream, config: &str) -> String {
    format!(
        "{config}\nlisten: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    )
}

/// A gateway that runs the real binary in a process of its own.
struct Process {
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
    folder: TempDir,
}

impl Process {
    /// Starts a gateway with this config and these environment variables.
    fn start(upstream: &Upstream, config: &str, variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("hookgate.yaml");
        std::fs::write(&file, complete_config(upstream, config)).unwrap();
        let mut command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
        command.envs(variables.iter().copied());
        let mut served = ServerProcess::start(command);
        let agent = Agent::at(served.addr());
        let line = served.line();
        let admin_url = line.strip_prefix("admin on http://").unwrap();
        Self {
            agent,
            operator: Agent::at(admin_url.parse().unwrap()),
            served,
            folder,
        }
    }

    /// The content of a file that hooks wrote; empty if there is none.
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Terminates the gateway and returns its log.
    async fn stop(self) -> String {
        self.served.terminate();
        let served = self.served;
        let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
        let (status, log) = ended.await.unwrap();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }
}
