//! `hookgate audit`: verifies an audit log, and prints its records.

mod ecs;
mod ocsf;
mod record_filter;
mod table;
mod verify;

use std::path::{Path, PathBuf};

use chained_log::{LogLine, ReadError};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use self::{
    ecs::ecs_document,
    ocsf::OcsfExport,
    record_filter::RecordFilter,
    table::{csv_header, csv_row, text_line},
    verify::{verify_files, verify_stdin},
};
use super::{
    failure::Failure,
    output::{print, print_record},
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate audit verify /var/lib/hookgate/decisions.jsonl
  hookgate audit show /var/lib/hookgate/decisions.jsonl --verdict deny --since 2026-11-22T00:00:00Z
  hookgate audit export /var/lib/hookgate/decisions.jsonl --format csv > decisions.csv
  hookgate audit export /var/lib/hookgate/decisions.jsonl --format ocsf --since 2026-11-22T00:00:00Z";

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
  hookgate audit verify decisions.jsonl --contains \"$(cat last-hash)\"
  jq -c '.[]' copy.json | hookgate audit verify --stdin")]
    Verify {
        /// Path of the audit log
        #[arg(required_unless_present = "stdin")]
        path: Option<PathBuf>,
        /// Hash of a line that must exist, noted elsewhere to detect a truncated log
        #[arg(long, value_name = "HASH", value_parser = verify::parse_hash)]
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
    /// Print records as a JSON array, as CSV, or for a SIEM
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
    /// OCSF 1.3, one event per line: API Activity and Detection Finding
    Ocsf,
    /// ECS 8.17, one document per line
    Ecs,
}

impl AuditArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            AuditCommand::Verify {
                path: Some(path),
                contains,
                ..
            } => verify_files(&path, contains.as_deref()),
            AuditCommand::Verify { path: None, .. } => verify_stdin(),
            AuditCommand::Show { path, filter } => print_records(&path, &filter, text_line),
            AuditCommand::Export {
                path,
                format,
                filter,
            } => match format {
                ExportFormat::Json => export_json(&path, &filter),
                ExportFormat::Csv => {
                    print(&csv_header())?;
                    print_records(&path, &filter, csv_row)
                }
                ExportFormat::Ocsf => export_ocsf(&path, &filter),
                ExportFormat::Ecs => {
                    print_records(&path, &filter, |line| ecs_document(line).to_string())
                }
            },
        }
    }
}

/// Returns the records of a log that may match the filter as JSON, without one that is
/// being written.
fn lines(
    path: &Path,
    filter: &RecordFilter,
) -> Result<impl Iterator<Item = Result<Value, ReadError>>, ReadError> {
    let wanted = |line: &Result<LogLine, ReadError>| {
        let Ok(line) = line else {
            return true;
        };
        line.is_complete && filter.includes_time_of(&line.bytes)
    };
    let lines = chained_log::lines_from(path, |line| filter.is_before(line))?;
    Ok(lines.filter(wanted).map(|line| line?.json()))
}

/// Prints each record that matches the filter.
fn print_records(
    path: &Path,
    filter: &RecordFilter,
    print_as: fn(&Value) -> String,
) -> Result<(), Failure> {
    print_each(path, filter, |line| {
        filter.includes(line).then(|| print_as(line))
    })
}

/// Prints the OCSF event of each record that matches the filter and has one.
fn export_ocsf(path: &Path, filter: &RecordFilter) -> Result<(), Failure> {
    let mut export = OcsfExport::new();
    print_each(path, filter, |line| {
        let event = export.convert(line)?;
        filter.includes(line).then(|| event.to_string())
    })
}

fn export_json(path: &Path, filter: &RecordFilter) -> Result<(), Failure> {
    let mut lead = "[";
    print_each(path, filter, |line| {
        filter.includes(line).then(|| {
            let lead = std::mem::replace(&mut lead, ",");
            format!("{lead}{line}")
        })
    })?;
    Ok(print(if lead == "[" { "[]" } else { "]" })?)
}

/// Prints the text of each record that has one, until the reader of the output has gone.
fn print_each(
    path: &Path,
    filter: &RecordFilter,
    mut text: impl FnMut(&Value) -> Option<String>,
) -> Result<(), Failure> {
    for line in lines(path, filter)? {
        let text = text(&line?);
        if let Some(text) = text
            && print_record(&text)?.is_break()
        {
            break;
        }
    }
    Ok(())
}

impl From<ReadError> for Failure {
    fn from(broken: ReadError) -> Self {
        Self::Failed(broken.to_string())
    }
}
