//! Revisions of the config that are kept: history, promotion, rollback.

mod kills;
mod promotions;
mod rollouts;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Agent, PATIENCE, Served, Upstream, prompt, run};

/// A gateway whose folder has a config, and keeps its revisions.
struct Kept {
    folder: TempDir,
    upstream: Upstream,
    served: Served,
    agent: Agent,
    operator: Agent,
}

impl Kept {
    /// Starts with these denied words, each of which is a revision.
    async fn start(word: &str) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        write(folder.path(), &upstream, word);
        let mut served = Served::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            upstream,
            served,
        }
    }

    /// Changes the config file, and waits until it is in use.
    async fn edit(&self, word: &str) -> String {
        let before = self.version().await;
        write(self.folder.path(), &self.upstream, word);
        let deadline = Instant::now() + PATIENCE;
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
        let config = self.operator.get("/config").await.json();
        config["version"].as_str().unwrap().to_owned()
    }

    /// Whether a prompt with this word is denied.
    async fn denies(&self, word: &str) -> bool {
        let answer = self.agent.generate("m", &prompt(word)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        !answer.text().contains("You said")
    }

    /// Runs a command of `hookgate config`; gives its exit code and outputs.
    fn config(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut whole = vec!["config"];
        whole.extend(arguments);
        whole.extend(["--url", &self.operator.base]);
        run(&whole, self.folder.path())
    }

    /// Ends the process, in this way, and starts it again.
    fn restart(&mut self) {
        self.served = Served::folder(self.folder.path());
        self.agent = Agent::at(self.served.addr());
        self.operator = Agent::at(self.served.operators());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn active(&self) -> Value {
        let text = fs::read(self.path("revisions/active.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// Writes a config that denies prompts with a word by a policy in a hook file.
fn write(folder: &Path, upstream: &Upstream, word: &str) {
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
