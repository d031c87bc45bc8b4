//! A recording that a real gateway has made.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use hookgate::recording::{self, RecordedExchange};
use serde_json::Value;
use tempfile::TempDir;

use super::conversations::{Call, upstream};
use crate::harness::{TestGateway, hookgate};

/// What comes before the policies of every config.
pub const HEAD: &str = "upstreams:
  gemini: { url: \"{upstream}\" }
  anthropic: { url: \"{upstream}\" }
  openai: { url: \"{upstream}\" }
";

/// A folder with `base.yaml`, by which `recordings/` was made.
pub struct Recorded {
    pub folder: TempDir,
    /// The calls by the id of their request.
    pub calls: BTreeMap<String, Call>,
}

impl Recorded {
    /// Makes the calls, one after the other, at a gateway with this config.
    pub async fn of(config: &str, calls: impl IntoIterator<Item = Call>) -> Self {
        Self::with("", config, calls).await
    }

    /// The same, with further settings of `record`.
    pub async fn with(settings: &str, config: &str, calls: impl IntoIterator<Item = Call>) -> Self {
        let model = upstream().await;
        let record = format!(
            "record: {{ path: recordings, what: {{ sample: 1 }}, redact: none{settings} }}\n"
        );
        let gateway = TestGateway::start(&model, &format!("{HEAD}{record}{config}")).await;
        let agent = gateway.agent();
        let mut made = BTreeMap::new();
        for call in calls {
            made.insert(call.make(&agent).await, call);
        }
        let folder = gateway.stop_keeping().await;
        Self::in_folder(folder, config, made)
    }

    fn in_folder(folder: TempDir, config: &str, calls: BTreeMap<String, Call>) -> Self {
        fs::write(folder.path().join("base.yaml"), complete(config)).unwrap();
        Self { folder, calls }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The segments of the recording.
    pub fn segments(&self) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(self.path().join("recordings")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.to_string_lossy().contains(".hgr"));
        files.sort();
        files
    }

    /// Everything in the recording, which must be whole.
    pub fn exchanges(&self) -> Vec<RecordedExchange> {
        let read = recording::read(&self.path().join("recordings"), None).unwrap();
        read.map(|read| read.unwrap_or_else(|damage| panic!("{damage}")))
            .collect()
    }

    /// Writes another config beside the recording.
    pub fn config(&self, name: &str, config: &str) {
        fs::write(self.path().join(name), complete(config)).unwrap();
    }

    /// The command that replays the recording under a config.
    pub fn command(&self, config: &str, arguments: &[&str]) -> Command {
        let mut command = hookgate(&["replay", "--config", config]);
        command.args(arguments).arg("recordings");
        command.current_dir(self.path());
        command
    }

    /// Exit code, standard output and standard error of a replay.
    pub fn replay(&self, config: &str, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(config, arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    /// The report of a replay.
    #[track_caller]
    pub fn report(&self, config: &str, arguments: &[&str]) -> Value {
        let (code, out, err) = self.replay(config, &[&["--format", "json"], arguments].concat());
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

fn complete(config: &str) -> String {
    format!("{HEAD}{config}").replace("{upstream}", "http://127.0.0.1:9")
}
