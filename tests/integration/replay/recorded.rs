//! Recordings made by a running gateway, and their replay.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use hookgate::recording::{self, RecordedExchange};
use serde_json::Value;
use tempfile::TempDir;

use super::conversations::{Call, upstream};
use crate::harness::{Agent, TestGateway, hookgate};

/// The upstreams of every config, which come before its policies.
pub const UPSTREAMS: &str = "upstreams:
  gemini: { url: \"{upstream}\" }
  anthropic: { url: \"{upstream}\" }
  openai: { url: \"{upstream}\" }
";

/// A folder with the recording `recordings/` and the config `base.yaml` under which it was made.
pub struct RecordedCalls {
    pub folder: TempDir,
    /// The calls by request id.
    pub calls: BTreeMap<String, Call>,
}

impl RecordedCalls {
    /// Makes the calls, one after the other, to a gateway with this config.
    pub async fn record(config: &str, calls: impl IntoIterator<Item = Call>) -> Self {
        Self::record_with("", config, calls).await
    }

    /// Records calls with further settings of `record`.
    pub async fn record_with(
        settings: &str,
        config: &str,
        calls: impl IntoIterator<Item = Call>,
    ) -> Self {
        let mut made = BTreeMap::new();
        let send = async |agent: &Agent| {
            for call in calls {
                made.insert(call.make(agent).await, call);
            }
        };
        let recorded = Self::record_requests(settings, config, send).await;
        Self {
            calls: made,
            ..recorded
        }
    }

    /// Records the requests that `send` sends.
    pub async fn record_requests(
        settings: &str,
        config: &str,
        send: impl AsyncFnOnce(&Agent),
    ) -> Self {
        let model = upstream().await;
        let redact = if settings.contains("redact") {
            ""
        } else {
            ", redact: none"
        };
        let record =
            format!("record: {{ path: recordings, what: {{ sample: 1 }}{redact}{settings} }}\n");
        let gateway = TestGateway::start(&model, &format!("{UPSTREAMS}{record}{config}")).await;
        send(&gateway.agent()).await;
        let folder = gateway.stop_and_keep_files().await;
        fs::write(folder.path().join("base.yaml"), complete_config(config)).unwrap();
        Self {
            folder,
            calls: BTreeMap::new(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the paths of the recording's segments.
    pub fn segments(&self) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(self.path().join("recordings")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.to_string_lossy().contains(".hgr"));
        files.sort();
        files
    }

    /// Returns the exchanges of the recording, which must be undamaged.
    pub fn exchanges(&self) -> Vec<RecordedExchange> {
        let read = recording::read(&self.path().join("recordings"), None).unwrap();
        read.map(|read| read.unwrap_or_else(|error| panic!("{error}")))
            .collect()
    }

    /// Writes another config into the folder of the recording.
    pub fn write_config(&self, name: &str, config: &str) {
        fs::write(self.path().join(name), complete_config(config)).unwrap();
    }

    /// Returns the command that replays the recording under a config.
    pub fn command(&self, config: &str, arguments: &[&str]) -> Command {
        let mut command = hookgate(&["replay", "--config", config]);
        command.args(arguments).arg("recordings");
        command.current_dir(self.path());
        command
    }

    /// Runs a replay. Returns exit code, standard output and standard error.
    pub fn replay(&self, config: &str, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(config, arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    /// Runs a replay and returns its report.
    #[track_caller]
    pub fn report(&self, config: &str, arguments: &[&str]) -> Value {
        let (code, out, err) = self.replay(config, &[&["--format", "json"], arguments].concat());
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

fn complete_config(config: &str) -> String {
    format!("{UPSTREAMS}{config}").replace("{upstream}", "http://127.0.0.1:9")
}
