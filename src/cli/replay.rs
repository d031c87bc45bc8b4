//! `hookgate replay`: replays recorded calls under another config.

use std::{
    fs::{self, File},
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use jiff::Timestamp;
use tokio::{runtime::Builder, time::interval};

use super::{
    failure::Failure,
    output::{print, print_error},
    runtime::{self, until_signal},
};
use crate::{
    config::{Config, ConfigError, Problem},
    replay::{
        FailCondition, Progress, RecordingSource, ReplayConfigs, ReplayReport, ReplayedHooks,
        ReportFormat, render, replay, replay_names,
    },
    timestamp,
    trial::load_config,
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate replay --config next.yaml recordings/
  hookgate replay --config next.yaml --against hookgate.yaml --since 7d recordings/
  hookgate replay --config next.yaml --format junit --fail-on 'newly_denied > 0.1% || newly_allowed > 0' recordings/
  hookgate replay --config next.yaml --from decisions.jsonl";

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Command-line arguments of `replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Path of the config to try
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Path of the config to compare with. Default: what was recorded
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Only calls since this time: `7d`, `12h`, `30m`, or such as 2026-11-22T08:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Timestamp>,
    /// Hooks that the replay runs
    #[arg(long, value_enum, default_value_t = ReplayedHooks::Policies)]
    hooks: ReplayedHooks,
    /// File with the keys that decrypt the recording
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Exit with 1 if this holds, such as `newly_denied > 0.1% || newly_allowed > 0`
    #[arg(long, value_name = "EXPRESSION")]
    fail_on: Option<FailCondition>,
    /// Decision log, of which names are replayed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "against"])]
    from: Option<PathBuf>,
    /// Folder of a recording, one segment, or a decision log
    #[arg(value_name = "PATH", required_unless_present = "from")]
    path: Option<PathBuf>,
}

impl ReplayArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let (format, condition) = (self.format, self.fail_on.clone());
        let replay = until_signal(Box::pin(self.replay()));
        let report = runtime::run(&mut Builder::new_multi_thread(), replay);
        show_progress("");
        let report = report?;
        for part in &report.damaged.parts {
            print_error(&format!("damaged: {part}"));
        }
        print(&render(&report, format, condition.as_ref()))?;
        check_condition(condition, &report)?;
        report
            .failure()
            .map_or(Ok(()), |reason| Err(Failure::Failed(reason)))
    }

    async fn replay(self) -> Result<ReplayReport, Failure> {
        let after = load_complete(&self.config)?;
        let log = self.from.as_deref();
        let log = log.or(self.path.as_deref().filter(|path| is_decision_log(path)));
        if let Some(log) = log {
            let is_default = self.hooks == ReplayedHooks::Policies;
            if !is_default || self.against.is_some() || self.identity.is_some() {
                let message = "`--against`, `--hooks` and `--identity` need a recording; a \
                               decision log has only names";
                return Err(Failure::Failed(message.to_owned()));
            }
            return Ok(Box::pin(replay_names(log, after, self.since)).await?);
        }
        let configs = ReplayConfigs {
            after,
            before: self.against.as_deref().map(load_complete).transpose()?,
            hooks: self.hooks,
        };
        let recording = RecordingSource {
            path: self.path.unwrap_or_default(),
            identity: self.identity,
            since: self.since,
        };
        let progress = Arc::<Progress>::default();
        let replayed = Box::pin(replay(configs, recording, Arc::clone(&progress)));
        tokio::select! {
            report = replayed => Ok(report?),
            () = report_progress(&progress) => Err(Failure::Failed("no progress".to_owned())),
        }
    }
}

/// Loads a config whose policies are all in its own files, so that a gate never passes without
/// those of bundles.
fn load_complete(file: &Path) -> Result<Config, Failure> {
    let config = load(file)?;
    match &config.source {
        Some(source) => {
            let message = "`source`: a config without its bundles cannot be replayed";
            Err(ConfigError::from(Problem::at(&source.span, message)).into())
        }
        None => Ok(config),
    }
}

/// Loads a config, and prints its warnings.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    let config = load_config(Some(file))?;
    for warning in &config.warnings {
        print_error(&format!("warning: {warning}"));
    }
    Ok(config)
}

/// Returns whether a file is a decision log: JSON lines without compression. A pipe counts as one,
/// since it cannot be read twice.
fn is_decision_log(path: &Path) -> bool {
    let is_pipe = |file: fs::Metadata| !file.is_file() && !file.is_dir();
    if fs::metadata(path).is_ok_and(is_pipe) {
        return true;
    }
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"{"
}

/// Shows the progress on a terminal, for as long as the replay goes on.
async fn report_progress(progress: &Progress) {
    let mut ticks = interval(PROGRESS_INTERVAL);
    loop {
        ticks.tick().await;
        show_progress(&progress.line());
    }
}

/// Returns a failure if the condition of `--fail-on` holds.
pub(super) fn check_condition(
    condition: Option<FailCondition>,
    report: &ReplayReport,
) -> Result<(), Failure> {
    match condition.filter(|condition| condition.holds(report)) {
        Some(condition) => Err(Failure::Failed(format!(
            "`--fail-on` holds: {}",
            condition.text()
        ))),
        None => Ok(()),
    }
}

/// Replaces the last line of a terminal.
pub(super) fn show_progress(line: &str) {
    let mut out = io::stderr().lock();
    if out.is_terminal() {
        // There is no other output for an error.
        let _ignored = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
    }
}

/// Reads a time, or a duration before now.
pub(super) fn parse_since(text: &str) -> Result<Timestamp, String> {
    timestamp::parse_since(text)
        .ok_or_else(|| "expected such as `7d`, `12h`, `30m` or 2026-11-22T08:30:00Z".to_owned())
}
