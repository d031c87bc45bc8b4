//! `hookgate audit`: does a decision log hold, and what is in it?

mod table;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum, builder::PossibleValuesParser};
use jiff::Timestamp;
use serde_json::Value;

use self::table::{header, person, row};
use super::{Failure, print};
use crate::audit_log::{self, LogLine, ReadError, Verification};

/// What events and calls come to, and what hooks that observe would have done.
const VERDICTS: [&str; 13] = [
    "proceed",
    "ask",
    "respond",
    "deny",
    "stop",
    "pass",
    "edit",
    "error",
    "would_proceed",
    "would_ask",
    "would_respond",
    "would_deny",
    "would_stop",
];

pub(super) const EXAMPLES: &str = "Examples:
  hookgate audit verify /var/lib/hookgate/decisions.jsonl
  hookgate audit show /var/lib/hookgate/decisions.jsonl --verdict deny --since 2026-11-22T00:00:00Z
  hookgate audit export /var/lib/hookgate/decisions.jsonl --format csv > decisions.csv";

/// What `audit` is told.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check the whole chain, full files included; the first broken line is named.
    #[command(after_help = "Examples:
  hookgate audit verify decisions.jsonl
  hookgate audit verify decisions.jsonl --contains 5d41402a…")]
    Verify {
        /// The log, as the config names it.
        path: PathBuf,
        /// The hash of a line that must be there: one that was noted elsewhere, so
        /// that a log cut off before it does not pass.
        #[arg(long, value_name = "HASH")]
        contains: Option<String>,
    },
    /// Print lines for people.
    #[command(after_help = "Example: hookgate audit show decisions.jsonl --session my-session")]
    Show {
        /// The log, as the config names it.
        path: PathBuf,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Print lines as one JSON array, or as CSV.
    #[command(
        after_help = "Example: hookgate audit export decisions.jsonl --format csv --caller team-a"
    )]
    Export {
        /// The log, as the config names it.
        path: PathBuf,
        /// As what.
        #[arg(long, value_enum, default_value_t = ExportFormat::Json)]
        format: ExportFormat,
        #[command(flatten)]
        wanted: Wanted,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// One array with all that the lines hold.
    Json,
    /// One row for each line, with what most of them hold.
    Csv,
}

/// Which lines are wanted: those for which all of this holds.
#[derive(Debug, Args)]
struct Wanted {
    /// Of this caller: its name, or the begin of the hash of its credential.
    #[arg(long)]
    caller: Option<String>,
    /// Of this session.
    #[arg(long)]
    session: Option<String>,
    /// Of the request with this id.
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Events with this verdict, and calls that came to this: `deny`, `would_deny`, …
    #[arg(long, value_parser = PossibleValuesParser::new(VERDICTS))]
    verdict: Option<String>,
    /// From this time on, such as 2026-11-22T08:30:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
}

impl Audit {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Verify { path, contains } => {
                let verified = audit_log::verify(&path)?;
                if let Some(hash) = contains {
                    contain(&path, &hash)?;
                }
                print(&summary(&verified))
            }
            What::Show { path, wanted } => each(&path, &wanted, person),
            What::Export {
                path,
                format: ExportFormat::Csv,
                wanted,
            } => {
                print(&header())?;
                each(&path, &wanted, row)
            }
            What::Export {
                path,
                format: ExportFormat::Json,
                wanted,
            } => export_json(&path, &wanted),
        }
    }
}

impl Wanted {
    fn includes(&self, line: &Value) -> bool {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
        let is = |pointer: &str, wanted: &Option<String>| {
            wanted.is_none() || text(pointer) == wanted.as_deref()
        };
        let of_caller = |wanted: &String| {
            let key = text("/caller/key").unwrap_or_default();
            text("/caller/name") == Some(wanted) || (wanted.len() >= 8 && key.starts_with(wanted))
        };
        let came_to = |wanted: &String| {
            let hooks = line.get("hooks").and_then(Value::as_array);
            let mut would = hooks.into_iter().flatten().filter_map(|it| it.get("would"));
            text("/verdict") == Some(wanted)
                || text("/action") == Some(wanted)
                || would.any(|it| it == wanted)
        };
        let is_late = |since: &Timestamp| {
            let time = text("/time").and_then(|it| it.parse::<Timestamp>().ok());
            time.is_none_or(|it| it >= *since)
        };
        is("/session", &self.session)
            && is("/request", &self.request)
            && self.caller.as_ref().is_none_or(of_caller)
            && self.verdict.as_ref().is_none_or(came_to)
            && self.since.as_ref().is_none_or(is_late)
    }
}

/// The lines of a log as JSON. One that is just being written is left out.
fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Value, ReadError>>, ReadError> {
    let whole = |it: &Result<LogLine, ReadError>| it.as_ref().map_or(true, |line| line.is_complete);
    Ok(audit_log::lines(path)?.filter(whole).map(|it| it?.json()))
}

/// Prints each line that is wanted.
fn each(path: &Path, wanted: &Wanted, print_as: fn(&Value) -> String) -> Result<(), Failure> {
    for line in lines(path)? {
        let line = line?;
        if wanted.includes(&line) {
            print(&print_as(&line))?;
        }
    }
    Ok(())
}

/// Refuses a log in which no line has this hash.
fn contain(path: &Path, hash: &str) -> Result<(), Failure> {
    for line in lines(path)? {
        if line?.get("hash").and_then(Value::as_str) == Some(hash) {
            return Ok(());
        }
    }
    let path = path.display();
    Err(Failure::Failed(format!(
        "{path}: no line has the hash `{hash}`: what was there is cut off"
    )))
}

fn export_json(path: &Path, wanted: &Wanted) -> Result<(), Failure> {
    let mut lead = "[";
    for line in lines(path)? {
        let line = line?;
        if wanted.includes(&line) {
            print(&format!("{lead}{line}"))?;
            lead = ",";
        }
    }
    print(if lead == "[" { "[]" } else { "]" })
}

fn summary(verified: &Verification) -> String {
    let Verification {
        lines,
        first_seq: first,
        last_hash: last,
        ..
    } = verified;
    let mut said = format!("the chain holds: {lines} lines, the last one has the hash {last}");
    if *first > 1 {
        let before = first - 1;
        said = format!("{said}; {before} lines before line {first} are not there any more");
    }
    if verified.has_incomplete_line {
        said.push_str("; a line is just being written");
    }
    said
}

impl From<ReadError> for Failure {
    fn from(broken: ReadError) -> Self {
        Self::Failed(broken.to_string())
    }
}
