//! Kept revisions of the config: history, promotion, rollback and rollouts.

mod crash_recovery;
mod promotions;
mod rollouts;

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Agent, ServerProcess, TEST_TIMEOUT, Upstream, prompt, run};

/// A gateway that keeps the revisions of its config in a temporary folder.
struct RevisionGateway {
    folder: TempDir,
    upstream: Upstream,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl RevisionGateway {
    /// Starts with a config that denies prompts with `word`.
    async fn start(word: &str) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        write_config(folder.path(), &upstream, word);
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            upstream,
            served,
        }
    }

    /// Changes the config to deny `word`, and waits until it is in use. Returns its version.
    async fn edit(&self, word: &str) -> String {
        let before = self.version().await;
        write_config(self.folder.path(), &self.upstream, word);
        self.version_after(&before).await
    }

    /// Waits until another version than `before` is in use. Returns it.
    async fn version_after(&self, before: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let version = self.version().await;
            if version != before {
                return version;
            }
            assert!(Instant::now() < deadline, "the config is not reloaded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn version(&self) -> String {
        let view = self.operator.get("/config").await.json();
        view["version"].as_str().unwrap().to_owned()
    }

    /// Returns whether a prompt with this word is denied.
    async fn denies(&self, word: &str) -> bool {
        let answer = self.agent.generate("m", &prompt(word)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        !answer.text().contains("You said")
    }

    /// Runs `hookgate config`. Returns exit code, standard output and standard error.
    fn run_config_command(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = vec!["config"];
        command.extend(arguments);
        command.extend(["--url", &self.operator.base]);
        run(&command, self.folder.path())
    }

    /// Ends the process and starts it again.
    fn restart(&mut self) {
        self.served = ServerProcess::folder(self.folder.path());
        self.agent = Agent::at(self.served.addr());
        self.operator = Agent::at(self.served.operators());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the content of `active.json`, which has the version of the revision in use.
    fn active_revision(&self) -> Value {
        let text = fs::read(self.path("revisions/active.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// Writes a config with a hook file whose hook denies prompts with a word.
fn write_config(folder: &Path, upstream: &Upstream, word: &str) {
    let settings = format!(
        r#"{{ "hooks": {{ "BeforeModel": [{{ "hooks": [{{
            "type": "command", "name": "words",
            "command": "grep -q {word} && {{ echo not {word} >&2; exit 2; }}; exit 0"
        }}] }}] }} }}"#
    );
    fs::write(folder.join("settings.json"), settings).unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         hook_files: [{{ path: settings.json }}]\n\
         audit: {{ path: audit.jsonl }}\n\
         revisions: {{ path: revisions }}\n",
        upstream.addr
    );
    fs::write(folder.join("hookgate.yaml"), config).unwrap();
}

#[tokio::test]
async fn a_second_gateway_on_the_same_folder_is_refused() {
    let gateway = RevisionGateway::start("apple").await;
    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let config = config.replace("audit: { path: audit.jsonl }\n", "");
    fs::write(gateway.path("second.yaml"), config).unwrap();

    let addresses = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let command = [&["serve", "--config", "second.yaml"], &addresses[..]].concat();
    let (code, _, error) = run(&command, gateway.folder.path());

    assert_ne!(code, 0);
    assert!(error.contains("is in use by another process"), "{error}");
}

#[tokio::test]
async fn a_start_that_fails_leaves_the_revision_that_was_in_use() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    gateway.served.kill();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    write_config(gateway.folder.path(), &gateway.upstream, "banana");

    let addr = taken.local_addr().unwrap().to_string();
    let command = ["serve", "--config", "hookgate.yaml", "--listen", &addr];
    let (code, _, error) = run(&command, gateway.folder.path());

    assert_ne!(code, 0);
    assert!(error.contains("cannot listen on"), "{error}");
    assert_eq!(gateway.active_revision()["revision"], apple.as_str());
    write_config(gateway.folder.path(), &gateway.upstream, "apple");
    gateway.restart();
    let (_, history, _) = gateway.run_config_command(&["history"]);
    assert!(history.contains(&apple), "{history}");
    assert_eq!(history.lines().count(), 1, "{history}");
}
