//! `hookgate test`: what a config must do, case by case.

use std::path::PathBuf;

use clap::Args;
use regex::Regex;
use serde_json::{Value, json};

use super::{
    Failure, block_on, complain,
    dry_run::{self, Asked, Rehearsal, rehearse},
    json_diff::{Further, differences, shown},
    print,
    test_case::{Case, CaseFile, Expected, ExpectedVerdict},
};
use crate::{
    config::{Config, ConfigError},
    hook::{self, HookExecution},
};

pub(super) const EXAMPLES: &str = "Example: hookgate test config/examples/tests/*.yaml";

/// What `test` is told.
#[derive(Debug, Args)]
pub(super) struct Test {
    /// Files of cases.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Test {
    pub(super) fn run(self) -> Result<(), Failure> {
        let files = load(&self.files)?;
        block_on(async {
            let count: usize = files.iter().map(|it| it.cases.len()).sum();
            print(&format!("1..{count}"))?;
            let cases = files.iter().flat_map(|file| {
                let cases = file.cases.iter();
                cases.map(|case| (&file.config, case))
            });
            let mut failed = 0_usize;
            for (index, (config, case)) in cases.enumerate() {
                let wrong = try_case(config, case).await?;
                print(&report(index + 1, case, &wrong))?;
                failed += usize::from(!wrong.is_empty());
            }
            match failed {
                0 => Ok(()),
                _ => Err(Failure::Failed(format!("{failed} of {count} cases fail"))),
            }
        })
    }
}

/// Every file, or what is wrong with all of them.
fn load(paths: &[PathBuf]) -> Result<Vec<CaseFile>, Failure> {
    let (overrides, registry) = (dry_run::overrides(), hook::registry());
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match CaseFile::load(path, &overrides, &registry) {
            Ok(file) => files.push(file),
            Err(error) => problems.extend(error.problems),
        }
    }
    for warning in files.iter().flat_map(|it| &it.config.warnings) {
        complain(&format!("warning: {warning}"));
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(Failure::BadConfig(ConfigError { problems }))
    }
}

/// What differs from what is expected.
async fn try_case(config: &Config, case: &Case) -> Result<Vec<String>, Failure> {
    let rehearsal = Box::pin(rehearse(config, &case.action, HookExecution::Executed)).await?;
    Ok(compare(&case.expected, &rehearsal))
}

/// `ok 1 - name`, or `not ok 1 - name` and what differs, as YAML.
fn report(number: usize, case: &Case, wrong: &[String]) -> String {
    let name = case.name.replace(['\n', '#'], " ");
    if wrong.is_empty() {
        return format!("ok {number} - {name}");
    }
    let mut lines = vec![
        format!("not ok {number} - {name}"),
        "  ---".to_owned(),
        format!("  at: {}", json!(case.span.to_string())),
        "  differs:".to_owned(),
    ];
    lines.extend(wrong.iter().map(|it| format!("    - {}", json!(it))));
    lines.push("  ...".to_owned());
    lines.join("\n")
}

fn compare(expected: &Expected, found: &Rehearsal) -> Vec<String> {
    let mut wrong = Wrong::default();
    let verdict = expected.verdict.map(ExpectedVerdict::as_str);
    match verdict {
        Some(verdict) if verdict == found.verdict => (),
        // A mistake in a case must not look like a yes.
        None if found.verdict != "error" || expected.status.is_some() => (),
        verdict => {
            let wanted = verdict.unwrap_or("no error");
            let why = found.reason.as_deref().unwrap_or_default();
            let why = if why.is_empty() {
                ""
            } else {
                &format!(": {why}")
            };
            wrong.say(format!(
                "verdict: expected {wanted}, found {}{why}",
                found.verdict
            ));
        }
    }
    if let Some(reason) = &expected.reason {
        wrong.reason(reason, found.reason.as_deref());
    }
    if let Some(hooks) = &expected.hooks {
        wrong.part("hooks", &json!(hooks), Some(&json!(ran(found))));
    }
    if let Some(status) = expected.status {
        wrong.part("status", &json!(status), Some(&json!(found.status)));
    }
    if let Some(output) = &expected.output {
        wrong.part("output", &json!(output), Some(&found.answer));
    }
    let asked = found.upstream.last();
    match &expected.upstream {
        Some(Value::Null) => {
            if let Some(asked) = asked {
                wrong.say(format!("upstream: expected no call, found {}", asked.path));
            }
        }
        Some(document) => wrong.part("upstream", document, asked.map(|it| &it.body)),
        None => (),
    }
    if let Some(model) = &expected.model {
        let found = asked.and_then(model_of).map(Value::from);
        wrong.part("model", &json!(model), found.as_ref());
    }
    if let Some(answer) = &expected.answer {
        wrong.part("answer", answer, Some(&found.answer));
    }
    if let Some(text) = &expected.text {
        wrong.part("text", &json!(text), Some(&json!(found.text)));
    }
    wrong.0
}

/// What differs, in words.
#[derive(Debug, Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn say(&mut self, what: String) {
        self.0.push(what);
    }

    /// Everything that is expected must be found.
    fn part(&mut self, what: &str, expected: &Value, found: Option<&Value>) {
        let Some(found) = found else {
            let expected = shown(Some(expected));
            return self.say(format!("{what}: expected {expected}, found no call"));
        };
        for mut difference in differences(expected, found, Further::Allowed) {
            let path = difference.path;
            let dot = if path.is_empty() || path.starts_with('[') {
                ""
            } else {
                "."
            };
            difference.path = format!("{what}{dot}{path}");
            self.say(difference.to_string());
        }
    }

    /// A reason holds the expected text, or matches it.
    fn reason(&mut self, expected: &str, found: Option<&str>) {
        let reason = found.unwrap_or_default();
        let matches = |it: Regex| it.is_match(reason);
        if !reason.contains(expected) && !Regex::new(expected).is_ok_and(matches) {
            let found = shown(found.map(Value::from).as_ref());
            self.say(format!(
                "reason: expected {}, found {found}",
                json!(expected)
            ));
        }
    }
}

/// The hooks that ran, each once.
fn ran(found: &Rehearsal) -> Vec<&str> {
    let hooks = found.events.iter().flat_map(|it| &it.hooks);
    let mut names: Vec<&str> = Vec::new();
    for hook in hooks {
        if !names.contains(&hook.name.as_str()) {
            names.push(&hook.name);
        }
    }
    names
}

/// The model that a path names.
fn model_of(asked: &Asked) -> Option<&str> {
    let Some((_, rest)) = asked.path.rsplit_once("/models/") else {
        // Code Assist has it in the body.
        let names = ["/model", "/request/model"].map(|it| asked.body.pointer(it));
        let name = names.into_iter().flatten().find_map(Value::as_str)?;
        return Some(name.strip_prefix("models/").unwrap_or(name));
    };
    Some(rest.split_once(':').map_or(rest, |it| it.0))
}
