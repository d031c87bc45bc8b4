//! `hookgate explain`: shows which hooks run, and their results.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::{
    failure::Failure,
    output::print,
    replay,
    runtime::{block_on, until_signal},
};
use crate::{
    config::BUILTIN,
    event::{EventName, SkipReason},
    hook::{EventTrace, HookExecution, HookTrace},
    invisible_char::escape_invisible,
    observe::trace::{RulePosition, TracedEvent, TracedRun},
    server,
    test_case::{AgentAction, DEFAULT_MODEL, SimulatedCall},
    trial::{ExtraKeys, TrialReport, differences, display_value, run_trial},
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate explain --config hookgate.yaml event.json
  echo '{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}]}' | hookgate explain --config hookgate.yaml -";

/// Command-line arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// Path of the config file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only list the hooks that would run, without starting them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Model of a request that names none
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL)]
    model: String,
    /// Path of a hook's input, a Gemini request, or `{"path", "headers", "body", "answer"}`;
    /// `-` for stdin
    #[arg(value_name = "EVENT.json")]
    input: PathBuf,
}

impl ExplainArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = replay::load(&self.config)?;
        let action = read_action(&self.input, &self.model)?;
        let execution = if self.dry_run {
            HookExecution::Skipped
        } else {
            HookExecution::Executed
        };
        block_on(until_signal(async {
            let run = run_trial(
                &config,
                &action,
                execution,
                server::handle_agent_request,
                TaskTracker::new(),
            );
            let report = Box::pin(run).await?;
            if self.json {
                print(&format!("{:#}", json!(report)))?;
            } else {
                let printer = ExplainPrinter {
                    action: &action,
                    report: &report,
                    execution,
                };
                let lines = printer.lines();
                let lines: Vec<_> = lines.iter().map(|line| escape_invisible(line)).collect();
                print(&lines.join("\n"))?;
            }
            if report.verdict == Some("error") {
                let reason = report.reason.unwrap_or_default();
                return Err(Failure::Failed(format!("it has no verdict: {reason}")));
            }
            Ok(())
        }))
    }
}

fn read_action(file: &Path, model: &str) -> Result<AgentAction, Failure> {
    let text = if file == Path::new("-") {
        io::read_to_string(io::stdin().lock())
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::at(file, error))?;
    AgentAction::from_json(&text, model).map_err(|error| Failure::at(file, error))
}

/// Prints the report of a trial.
struct ExplainPrinter<'a> {
    action: &'a AgentAction,
    report: &'a TrialReport,
    execution: HookExecution,
}

impl ExplainPrinter<'_> {
    fn lines(&self) -> Vec<String> {
        let report = self.report;
        let mut lines: Vec<String> = Vec::new();
        for (index, record) in report.events.iter().enumerate() {
            let before = report.events.iter().take(index);
            let earlier = before.filter(|other| other.event == record.event).count();
            self.event(record, earlier, &mut lines);
        }
        for event in report.unasked_events() {
            lines.push(format!("{}:", event.event));
            lines.extend(event.skipped_rules().filter_map(not_asked_line));
        }
        if lines.is_empty() && report.verdict != Some("error") {
            lines.push("no hook runs on this".to_owned());
        }
        match (self.execution, self.action) {
            (HookExecution::Skipped, _) => (),
            (HookExecution::Executed, AgentAction::Call(call)) => self.call(call, &mut lines),
            (HookExecution::Executed, AgentAction::Report(_)) => {
                lines.push(format!("answer: {} {}", report.status, report.answer));
            }
        }
        let reason = reason_suffix(report.reason.as_ref());
        let verdict = report.verdict;
        lines.extend(verdict.map(|verdict| format!("verdict: {verdict}{reason}")));
        lines
    }

    /// Appends the lines of one event; `earlier` is the number of earlier ones of its name.
    fn event(&self, record: &EventTrace, earlier: usize, lines: &mut Vec<String>) {
        let traced = self.report.first_event(record.event);
        let traced = traced.filter(|_| earlier == 0).into_iter();
        let skipped = traced.flat_map(TracedEvent::skipped_rules);
        let not_asked: Vec<String> = skipped.filter_map(not_asked_line).collect();
        if record.hooks.is_empty() && not_asked.is_empty() {
            return;
        }
        let count = if earlier == 0 {
            String::new()
        } else {
            format!(" ({})", earlier + 1)
        };
        let hooks = record.hooks.iter().filter(|hook| hook.kind != BUILTIN);
        let order = match (hooks.count(), record.sequential) {
            (0 | 1, _) => "",
            (_, true) => ", hooks one after the other",
            (_, false) => ", hooks in parallel",
        };
        lines.push(format!("{}{count}{order}:", record.event));
        for (index, hook) in record.hooks.iter().enumerate() {
            let position = self.report.positions.get(&hook.rule);
            let line = hook_line(record.event, hook, position);
            lines.push(format!("  {}. {line}", index + 1));
            let ran = hook.ran.iter().flat_map(|run| &run.diagnostics);
            lines.extend(ran.map(|(code, detail)| format!("     {code}: {detail}")));
        }
        lines.extend(not_asked);
        if let Some(verdict) = record.verdict {
            lines.push(format!(
                "  result: {}{}",
                verdict.as_str(),
                reason_suffix(record.reason.as_ref())
            ));
        }
        let diagnostics = record.diagnostics.iter();
        lines.extend(diagnostics.map(|(code, detail)| format!("    {code}: {detail}")));
    }

    fn call(&self, call: &SimulatedCall, lines: &mut Vec<String>) {
        let report = self.report;
        let sent = json!(call.body);
        let path = call.path.split('?').next().unwrap_or_default();
        if report.upstream.is_empty() {
            lines.push("upstream: not called".to_owned());
        }
        for request in &report.upstream {
            lines.push(format!("upstream: {}", request.path));
            let changes = differences(&sent, &request.body, ExtraKeys::Reported);
            if changes.is_empty() && request.path == path {
                lines.push("  unchanged".to_owned());
            }
            lines.extend(changes.iter().map(|change| {
                let from = display_value(change.first.as_ref());
                let to = display_value(change.second.as_ref());
                format!("  {}: {from} → {to}", change.path)
            }));
        }
        let text = match report.text.as_str() {
            "" => display_value(Some(&report.answer)),
            text => text.to_owned(),
        };
        lines.push(format!("agent: {} {text}", report.status));
    }
}

/// Returns the text after a verdict.
fn reason_suffix(reason: Option<&String>) -> String {
    reason.map(|text| format!(": {text}")).unwrap_or_default()
}

/// Returns one line about a hook.
fn hook_line(event: EventName, hook: &HookTrace, position: Option<&RulePosition>) -> String {
    let HookTrace {
        name, kind, ran, ..
    } = hook;
    let place = position.map(|at| format!(", {}:{}", at.file, at.line));
    let place = place.unwrap_or_default();
    let Some(ran) = ran else {
        return format!("{name} ({kind}{place})");
    };
    let (removes, edits) = match ran.would {
        Some(_) => ("would remove", "would edit"),
        None => ("removes", "edits"),
    };
    let output = match ran.output.as_object() {
        Some(fields) if !fields.is_empty() => format!("output {}", ran.output),
        _ if !ran.removed_calls.is_empty() => {
            format!("{removes} calls of `{}`", ran.removed_calls.join("`, `"))
        }
        _ if ran.edited && event == EventName::AfterModel => format!("{edits} the answer"),
        _ if ran.edited => format!("{edits} the request"),
        _ => "no output".to_owned(),
    };
    let would = ran
        .would
        .map(|action| format!(", only observes, would {}", action.as_str()));
    let would = would.unwrap_or_default();
    format!(
        "{name} ({kind}{place}), {}, {} ms{would}, {output}",
        ran.status, ran.ms
    )
}

/// Returns one line about a rule that did not run.
fn not_asked_line((rule, reason): (&TracedRun, SkipReason)) -> Option<String> {
    let name = rule.name();
    let place = rule.position()?;
    Some(format!(
        "  not run: {name} ({}:{}), because {}",
        place.file,
        place.line,
        reason.explanation()
    ))
}
