//! `hookgate test`: runs test cases against a config, with output in TAP.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{
    failure::Failure,
    output::{print, print_error},
    runtime::{block_on, until_signal},
};
use crate::{
    config::ConfigError,
    hook,
    invisible_char::escape_invisible,
    server,
    test_case::{CaseFile, TestCase},
    trial::{self, TrialError, run_case},
};

pub(super) const EXAMPLES: &str = "Example: hookgate test config/examples/tests/*.yaml";

/// Command-line arguments of `test`.
#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Paths of files with test cases
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl TestArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let files = load(&self.files)?;
        block_on(until_signal(async {
            let count: usize = files.iter().map(|file| file.cases.len()).sum();
            print(&format!("1..{count}"))?;
            let cases = files.iter().flat_map(|file| {
                let cases = file.cases.iter();
                cases.map(|case| (&file.config, case))
            });
            let mut failed = 0_usize;
            for (index, (config, case)) in cases.enumerate() {
                let run = run_case(config, case, server::handle_agent_request);
                let mismatches = match run.await {
                    Err(TrialError::Build(error)) => return Err(error.into()),
                    // The next cases may run.
                    Err(error) => vec![error.to_string()],
                    Ok(mismatches) => mismatches,
                };
                print(&report(index + 1, case, &mismatches))?;
                failed += usize::from(!mismatches.is_empty());
            }
            match failed {
                0 => Ok(()),
                _ => Err(Failure::Failed(format!("{failed} of {count} cases failed"))),
            }
        }))
    }
}

/// Loads all files, or returns the problems of all of them.
fn load(paths: &[PathBuf]) -> Result<Vec<CaseFile>, Failure> {
    let (overrides, registry) = (trial::overrides(), hook::registry());
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match CaseFile::load(path, &overrides, &registry) {
            Ok(file) => files.push(file),
            Err(error) => problems.extend(error.problems),
        }
    }
    for warning in files.iter().flat_map(|file| &file.config.warnings) {
        print_error(&format!("warning: {warning}"));
    }
    ConfigError::check(problems)?;
    Ok(files)
}

/// Returns `ok 1 - name`, or `not ok 1 - name` and the differences as YAML.
fn report(number: usize, case: &TestCase, mismatches: &[String]) -> String {
    let name = case.name.replace(['\n', '#'], " ");
    let name = escape_invisible(&name);
    if mismatches.is_empty() {
        return format!("ok {number} - {name}");
    }
    let mut lines = vec![
        format!("not ok {number} - {name}"),
        "  ---".to_owned(),
        format!("  at: {}", json!(case.span.to_string())),
        "  differs:".to_owned(),
    ];
    let mismatches = mismatches.iter();
    lines.extend(mismatches.map(|mismatch| format!("    - {}", json!(mismatch))));
    lines.push("  ...".to_owned());
    lines.join("\n")
}
