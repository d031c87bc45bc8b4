//! `hookgate config`: lists, compares, promotes and rolls back revisions of the config of a
//! running gateway.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{AdminArgs, text};
use crate::{
    cli::{failure::Failure, output::print},
    regular_file::{PIPE_TIMEOUT, read_or_pipe},
    sha256::sha256_hex,
};

/// Maximum size of a report, in bytes.
const MAX_REPORT_BYTES: u64 = 256 * 1024 * 1024;

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  hookgate config history
  hookgate config promote 3f1c --report replay.json
  hookgate config rollback";

/// Command-line arguments of `config`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// List the kept revisions: that in use first, the others by their time, damaged ones last
    #[command(
        after_help = "Example: hookgate config history --url http://127.0.0.1:8788 --token-file admin.token"
    )]
    History {
        #[command(flatten)]
        admin: AdminArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print the difference of two revisions
    #[command(after_help = "Example: hookgate config diff 5f1d c0a9")]
    Diff {
        #[command(flatten)]
        admin: AdminArgs,
        /// Version of the older revision, or the digits it begins with
        from: String,
        /// Version of the newer revision, or the digits it begins with
        to: String,
    },
    /// Take a revision into use, until the config file changes
    #[command(after_help = "Example: hookgate config promote 5f1d --report replay.json")]
    Promote {
        #[command(flatten)]
        admin: AdminArgs,
        /// Version of the revision, or the digits it begins with
        revision: String,
        /// Path of the report on which the promotion is based; the decision log has its SHA-256
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Take the revision into use that was in use before
    #[command(after_help = "Example: hookgate config rollback")]
    Rollback {
        #[command(flatten)]
        admin: AdminArgs,
    },
}

impl ConfigArgs {
    pub(in crate::cli) fn run(self) -> Result<(), Failure> {
        match self.command {
            ConfigCommand::History { admin, json } => {
                let history = admin.get("/config/history")?;
                if json {
                    return Ok(print(&format!("{history:#}"))?);
                }
                print_history(&history)
            }
            ConfigCommand::Diff { admin, from, to } => {
                let (from, to) = (resolve(&admin, &from)?, resolve(&admin, &to)?);
                let diff = admin.get(&format!("/config/diff?from={from}&to={to}"))?;
                Ok(print(text(&diff, "diff").trim_end())?)
            }
            ConfigCommand::Promote {
                admin,
                revision,
                report,
            } => {
                let mut request = json!({ "revision": resolve(&admin, &revision)? });
                if let (Some(file), Some(fields)) = (report, request.as_object_mut()) {
                    let report = read_or_pipe(&file, MAX_REPORT_BYTES, PIPE_TIMEOUT);
                    let report = report.map_err(|error| Failure::at(&file, error))?;
                    fields.insert("report".to_owned(), json!(sha256_hex(&report)));
                }
                print_change(&admin.post("/config/promote", &request)?)
            }
            ConfigCommand::Rollback { admin } => {
                print_change(&admin.post("/config/rollback", &json!({}))?)
            }
        }
    }
}

/// Returns the one version that begins with `prefix`.
fn resolve(admin: &AdminArgs, prefix: &str) -> Result<String, Failure> {
    let history = admin.get("/config/history")?;
    let versions = history.as_array().into_iter().flatten();
    let versions = versions.map(|revision| text(revision, "version"));
    let found: Vec<&str> = versions
        .filter(|version| !prefix.is_empty() && version.starts_with(prefix))
        .collect();
    match found.as_slice() {
        [version] => Ok((*version).to_owned()),
        [] => Err(Failure::Failed(format!(
            "no revision of the config has the version `{prefix}`"
        ))),
        _ => Err(Failure::Failed(format!(
            "several versions begin with `{prefix}`: {}",
            found.join(", ")
        ))),
    }
}

fn print_history(history: &Value) -> Result<(), Failure> {
    for revision in history.as_array().into_iter().flatten() {
        let is_file = revision.get("is_file").and_then(Value::as_bool);
        let file = is_file.unwrap_or_default().then_some("config file");
        let damage = text(revision, "damage");
        let damage = (!damage.is_empty()).then(|| format!("damaged: {damage}"));
        let marks = [Some(text(revision, "state")), file, damage.as_deref()].into_iter();
        let marks: Vec<&str> = marks.flatten().filter(|mark| !mark.is_empty()).collect();
        let line = format!(
            "{}  {:<24}  {:<24}  {}",
            text(revision, "version"),
            text(revision, "applied"),
            text(revision, "cause"),
            marks.join(", ")
        );
        print(line.trim_end())?;
    }
    Ok(())
}

fn print_change(change: &Value) -> Result<(), Failure> {
    let (from, to) = (text(change, "from"), text(change, "to"));
    if from == to {
        return Ok(print(&format!("in use: {to} (its rollout has ended)"))?);
    }
    Ok(print(&format!("in use: {to} (before: {from})"))?)
}
