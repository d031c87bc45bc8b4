//! `hookgate audit`: verifies an audit log, and prints its records.

mod table;

use std::{
    io,
    path::{Path, PathBuf},
};

use chained_log::{CopyVerification, LogLine, ReadError, Verification};
use clap::{Args, Subcommand, ValueEnum, builder::PossibleValuesParser};
use jiff::Timestamp;
use serde_json::Value;

use self::table::{csv_header, csv_row, text_line};
use super::{failure::Failure, output::print};

/// Verdicts of events and calls, and those that observing hooks would have had.
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

/// Command-line arguments of `audit`.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Verify the hash chain, including rotated files, and report the first invalid line
    #[command(after_help = "Examples:
  hookgate audit verify decisions.jsonl
  hookgate audit verify decisions.jsonl --contains 5d41402a…
  jq -c '.[]' copy.json | hookgate audit verify --stdin")]
    Verify {
        /// Path of the audit log
        #[arg(required_unless_present = "stdin")]
        path: Option<PathBuf>,
        /// Hash of a line that must exist, noted elsewhere to detect a truncated log
        #[arg(long, value_name = "HASH")]
        contains: Option<String>,
        /// Verify a copy: lines from standard input, in any order, from whichever line
        #[arg(long, conflicts_with_all = ["path", "contains"])]
        stdin: bool,
    },
    /// Print records as text
    #[command(after_help = "Example: hookgate audit show decisions.jsonl --session my-session")]
    Show {
        /// Path of the audit log
        path: PathBuf,
        #[command(flatten)]
        filter: RecordFilter,
    },
    /// Print records as a JSON array or as CSV
    #[command(
        after_help = "Example: hookgate audit export decisions.jsonl --format csv --caller team-a"
    )]
    Export {
        /// Path of the audit log
        path: PathBuf,
        /// Output format of the records
        #[arg(long, value_enum, default_value_t = ExportFormat::Json)]
        format: ExportFormat,
        #[command(flatten)]
        filter: RecordFilter,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// One array with all fields of the records
    Json,
    /// One row per record, with the most common fields
    Csv,
}

/// Filters of records. A record must match all of them.
#[derive(Debug, Args)]
struct RecordFilter {
    /// Only records of this caller: its name, or the first digits of its key hash
    #[arg(long)]
    caller: Option<String>,
    /// Only records of this session
    #[arg(long)]
    session: Option<String>,
    /// Only records of the request with this id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only events with this verdict and calls with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(VERDICTS))]
    verdict: Option<String>,
    /// Only records since this time, such as 2026-11-22T08:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
}

impl AuditArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            AuditCommand::Verify {
                path: Some(path),
                contains,
                ..
            } => {
                let verified = chained_log::verify(&path)?;
                if let Some(hash) = contains {
                    check_contains(&path, &hash)?;
                }
                Ok(print(&summary(&verified))?)
            }
            AuditCommand::Verify { path: None, .. } => verify_stdin(),
            AuditCommand::Show { path, filter } => print_records(&path, &filter, text_line),
            AuditCommand::Export {
                path,
                format: ExportFormat::Csv,
                filter,
            } => {
                print(&csv_header())?;
                print_records(&path, &filter, csv_row)
            }
            AuditCommand::Export {
                path,
                format: ExportFormat::Json,
                filter,
            } => export_json(&path, &filter),
        }
    }
}

impl RecordFilter {
    fn includes(&self, line: &Value) -> bool {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
        let is = |pointer: &str, expected: &Option<String>| {
            expected.is_none() || text(pointer) == expected.as_deref()
        };
        let is_of_caller = |expected: &String| {
            let key = text("/caller/key").unwrap_or_default();
            text("/caller/name") == Some(expected)
                || (expected.len() >= 8 && key.starts_with(expected))
        };
        let has_verdict = |expected: &String| {
            let hooks = line.get("hooks").and_then(Value::as_array);
            let mut would = hooks
                .into_iter()
                .flatten()
                .filter_map(|hook| hook.get("would"));
            text("/verdict") == Some(expected)
                || text("/action") == Some(expected)
                || would.any(|verdict| verdict == expected)
        };
        let is_since = |since: &Timestamp| {
            let time = text("/time").and_then(|time| time.parse::<Timestamp>().ok());
            time.is_none_or(|time| time >= *since)
        };
        is("/session", &self.session)
            && is("/request", &self.request)
            && self.caller.as_ref().is_none_or(is_of_caller)
            && self.verdict.as_ref().is_none_or(has_verdict)
            && self.since.as_ref().is_none_or(is_since)
    }
}

/// Returns the records of a log as JSON, without one that is being written.
fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Value, ReadError>>, ReadError> {
    let whole = |it: &Result<LogLine, ReadError>| it.as_ref().map_or(true, |line| line.is_complete);
    Ok(chained_log::lines(path)?.filter(whole).map(|it| it?.json()))
}

/// Prints each record that matches the filter.
fn print_records(
    path: &Path,
    filter: &RecordFilter,
    print_as: fn(&Value) -> String,
) -> Result<(), Failure> {
    for line in lines(path)? {
        let line = line?;
        if filter.includes(&line) {
            print(&print_as(&line))?;
        }
    }
    Ok(())
}

/// Fails if no line has this hash.
fn check_contains(path: &Path, hash: &str) -> Result<(), Failure> {
    for line in lines(path)? {
        if line?.get("hash").and_then(Value::as_str) == Some(hash) {
            return Ok(());
        }
    }
    let path = path.display();
    Err(Failure::Failed(format!(
        "{path}: no line has the hash `{hash}`: the log was truncated"
    )))
}

/// Verifies a copy of a log, and prints what is wrong with it.
fn verify_stdin() -> Result<(), Failure> {
    let verified = chained_log::verify_copy(io::stdin().lock());
    let verified = verified.map_err(|error| Failure::Failed(error.to_string()))?;
    let CopyVerification {
        lines,
        repeated,
        masked,
        first_seq,
        last_seq,
        last_hash,
        problems,
        problem_count,
    } = verified;
    let mut text = format!(
        "{lines} lines from {first_seq} to {last_seq}, the last hash is {last_hash}; {repeated} lines are repeated"
    );
    if masked > 0 {
        text = format!("{text}; of {masked} lines with masked fields only the place is verified");
    }
    if problem_count == 0 && lines > 0 {
        return Ok(print(&format!("the hash chain is valid: {text}"))?);
    }
    let mut message: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let further = problem_count - problems.len() as u64;
    if further > 0 {
        message.push(format!("and {further} further problems"));
    }
    message.push(format!("the copy is not intact: {text}"));
    Err(Failure::Failed(message.join("\n")))
}

fn export_json(path: &Path, filter: &RecordFilter) -> Result<(), Failure> {
    let mut lead = "[";
    for line in lines(path)? {
        let line = line?;
        if filter.includes(&line) {
            print(&format!("{lead}{line}"))?;
            lead = ",";
        }
    }
    Ok(print(if lead == "[" { "[]" } else { "]" })?)
}

fn summary(verified: &Verification) -> String {
    let Verification {
        lines,
        first_seq: first,
        last_hash: last,
        ..
    } = verified;
    let mut text = format!("the hash chain is valid: {lines} lines, the last hash is {last}");
    if *first > 1 {
        let before = first - 1;
        text = format!("{text}; {before} lines before line {first} were removed by rotation");
    }
    if verified.has_incomplete_line {
        text.push_str("; one line is being written");
    }
    text
}

impl From<ReadError> for Failure {
    fn from(broken: ReadError) -> Self {
        Self::Failed(broken.to_string())
    }
}
