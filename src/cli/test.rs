//! `hookgate test`: runs test cases against a config, with output in TAP.

use std::path::PathBuf;

use clap::Args;
use regex::Regex;
use serde_json::{Value, json};

use super::{
    dry_run::{self, DryRunReport, RecordedRequest, dry_run},
    failure::Failure,
    json_diff::{ExtraKeys, differences, display_value},
    output::{print, print_error},
    runtime::block_on,
    test_case::{Case, CaseFile, Expected, ExpectedVerdict},
};
use crate::{
    config::{Config, ConfigError},
    hook::{self, HookExecution},
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
        block_on(async {
            let count: usize = files.iter().map(|file| file.cases.len()).sum();
            print(&format!("1..{count}"))?;
            let cases = files.iter().flat_map(|file| {
                let cases = file.cases.iter();
                cases.map(|case| (&file.config, case))
            });
            let mut failed = 0_usize;
            for (index, (config, case)) in cases.enumerate() {
                let mismatches = try_case(config, case).await?;
                print(&report(index + 1, case, &mismatches))?;
                failed += usize::from(!mismatches.is_empty());
            }
            match failed {
                0 => Ok(()),
                _ => Err(Failure::Failed(format!("{failed} of {count} cases failed"))),
            }
        })
    }
}

/// Loads all files, or returns the problems of all of them.
fn load(paths: &[PathBuf]) -> Result<Vec<CaseFile>, Failure> {
    let (overrides, registry) = (dry_run::overrides(), hook::registry());
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
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(Failure::BadConfig(ConfigError { problems }))
    }
}

/// Returns the differences from the expected outcome.
async fn try_case(config: &Config, case: &Case) -> Result<Vec<String>, Failure> {
    let report = Box::pin(dry_run(config, &case.action, HookExecution::Executed)).await?;
    Ok(compare(&case.expected, &report))
}

/// Returns `ok 1 - name`, or `not ok 1 - name` and the differences as YAML.
fn report(number: usize, case: &Case, mismatches: &[String]) -> String {
    let name = case.name.replace(['\n', '#'], " ");
    if mismatches.is_empty() {
        return format!("ok {number} - {name}");
    }
    let mut lines = vec![
        format!("not ok {number} - {name}"),
        "  ---".to_owned(),
        format!("  at: {}", json!(case.span.to_string())),
        "  differs:".to_owned(),
    ];
    lines.extend(
        mismatches
            .iter()
            .map(|mismatch| format!("    - {}", json!(mismatch))),
    );
    lines.push("  ...".to_owned());
    lines.join("\n")
}

fn compare(expected: &Expected, found: &DryRunReport) -> Vec<String> {
    let mut mismatches = Mismatches::default();
    let verdict = expected.verdict.map(ExpectedVerdict::as_str);
    match verdict {
        Some(verdict) if verdict == found.verdict => (),
        // An error fails every case that does not expect it.
        None if found.verdict != "error" || expected.status.is_some() => (),
        verdict => {
            let wanted = verdict.unwrap_or("no error");
            let why = found.reason.as_deref().unwrap_or_default();
            let why = if why.is_empty() {
                ""
            } else {
                &format!(": {why}")
            };
            mismatches.add(format!(
                "verdict: expected {wanted}, found {}{why}",
                found.verdict
            ));
        }
    }
    if let Some(reason) = &expected.reason {
        mismatches.reason(reason, found.reason.as_deref());
    }
    if let Some(hooks) = &expected.hooks {
        mismatches.part("hooks", &json!(hooks), Some(&json!(ran(found))));
    }
    if let Some(status) = expected.status {
        mismatches.part("status", &json!(status), Some(&json!(found.status)));
    }
    if let Some(output) = &expected.output {
        mismatches.part("output", &json!(output), Some(&found.answer));
    }
    let request = found.upstream.last();
    match &expected.upstream {
        Some(Value::Null) => {
            if let Some(request) = request {
                mismatches.add(format!(
                    "upstream: expected no call, found {}",
                    request.path
                ));
            }
        }
        Some(document) => {
            mismatches.part("upstream", document, request.map(|request| &request.body));
        }
        None => (),
    }
    if let Some(model) = &expected.model {
        let found = request.and_then(model_of).map(Value::from);
        mismatches.part("model", &json!(model), found.as_ref());
    }
    if let Some(answer) = &expected.answer {
        mismatches.part("answer", answer, Some(&found.answer));
    }
    if let Some(text) = &expected.text {
        mismatches.part("text", &json!(text), Some(&json!(found.text)));
    }
    mismatches.0
}

/// Differences from the expected outcome.
#[derive(Debug, Default)]
struct Mismatches(Vec<String>);

impl Mismatches {
    fn add(&mut self, what: String) {
        self.0.push(what);
    }

    /// Compares a part of the outcome; keys that are not expected are ignored.
    fn part(&mut self, what: &str, expected: &Value, found: Option<&Value>) {
        let Some(found) = found else {
            let expected = display_value(Some(expected));
            return self.add(format!("{what}: expected {expected}, found no call"));
        };
        for mut difference in differences(expected, found, ExtraKeys::Ignored) {
            let path = difference.path;
            let dot = if path.is_empty() || path.starts_with('[') {
                ""
            } else {
                "."
            };
            difference.path = format!("{what}{dot}{path}");
            self.add(difference.to_string());
        }
    }

    /// Checks that the reason contains the expected text, or matches it.
    fn reason(&mut self, expected: &str, found: Option<&str>) {
        let reason = found.unwrap_or_default();
        let matches = |regex: Regex| regex.is_match(reason);
        if !reason.contains(expected) && !Regex::new(expected).is_ok_and(matches) {
            let found = display_value(found.map(Value::from).as_ref());
            self.add(format!(
                "reason: expected {}, found {found}",
                json!(expected)
            ));
        }
    }
}

/// Returns the hooks that ran, each once.
fn ran(found: &DryRunReport) -> Vec<&str> {
    let hooks = found.events.iter().flat_map(|event| &event.hooks);
    let mut names: Vec<&str> = Vec::new();
    for hook in hooks {
        if !names.contains(&hook.name.as_str()) {
            names.push(&hook.name);
        }
    }
    names
}

/// Returns the model of a request.
fn model_of(request: &RecordedRequest) -> Option<&str> {
    let Some((_, rest)) = request.path.rsplit_once("/models/") else {
        // Code Assist has the model in the body.
        let names = ["/model", "/request/model"].map(|pointer| request.body.pointer(pointer));
        let name = names.into_iter().flatten().find_map(Value::as_str)?;
        return Some(name.strip_prefix("models/").unwrap_or(name));
    };
    Some(rest.split_once(':').map_or(rest, |(model, _)| model))
}
