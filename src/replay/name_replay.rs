//! Name replay: calls of a decision log, evaluated by the rules that need only names of callers,
//! models and tools. A log has no content, so other rules are not evaluated.

use std::{collections::HashMap, path::Path};

use http::header::USER_AGENT;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    comparison::{Change, Comparison, DifferenceKind, UnknownReason},
    decisions::is_denial,
    gateway::{ReplayGateway, ReplayedHooks},
    name_rules::names_only,
    report::{ReplayCost, ReplayReport},
    schedule::{ReplayError, is_since},
    totals::ReplayTotals,
};
use crate::{
    config::Config,
    dialect,
    error::ErrorReason,
    event::{Action, BeforeTool, Caller, Context, EventName, EventOrigin, HookRun},
    hook::{ConditionSubject, Engine, EventScope},
    model::LlmRequest,
    observe::recorder::{ExchangeSummary, Recorder},
    policy::PolicyRequest,
    recording::{RecordedExchange, RecordedSession},
    timestamp::whole_milliseconds,
};

/// Most calls that wait for their outcome. Beyond it all are taken as ended.
const MAX_OPEN_CALLS: usize = 65_536;

/// Error of a call that a policy refused.
const POLICY_DENIED: &str = ErrorReason::PolicyDenied.as_str();

/// Evaluates the lines of a decision log, in which those of different calls alternate.
struct LineEvaluator<'a> {
    engine: &'a Engine,
    /// Calls without an outcome so far, by request id.
    open: HashMap<String, LoggedCall>,
    totals: ReplayTotals,
}

/// A call as far as its lines were read.
#[derive(Default)]
struct LoggedCall {
    call: RecordedExchange,
    model: Option<LoggedModel>,
    /// Differences of its tool calls.
    tools: Comparison,
}

/// The model of a call.
struct LoggedModel {
    name: String,
    /// True if the call was denied before a request to the model.
    was_denied: bool,
    runs: Vec<HookRun>,
}

/// Replays the names in a decision log, rotated files included, under a config. Lines before
/// `since` are skipped.
///
/// # Errors
///
/// Returns an error if the log cannot be read, or the config cannot be built.
pub async fn replay_names(
    log: &Path,
    config: Config,
    since: Option<Timestamp>,
) -> Result<ReplayReport, ReplayError> {
    let started = std::time::Instant::now();
    let lines = chained_log::lines(log)?;
    let (config, rules) = names_only(config);
    let version = config.version.clone();
    let gateway = ReplayGateway::new(config, ReplayedHooks::Policies).await?;
    let snapshot = gateway.app.snapshot();
    let mut evaluator = LineEvaluator {
        engine: &snapshot.engine,
        open: HashMap::new(),
        totals: ReplayTotals::default(),
    };
    for line in lines {
        let line = line?;
        let damaged = &mut evaluator.totals.report.damaged;
        match line.json() {
            Ok(json) if json.get("kind").is_none_or(|kind| !kind.is_string()) => {
                let (file, number) = (line.file.display(), line.number);
                damaged.add(&format!(
                    "`{file}`, line {number}: no line of a decision log"
                ));
            }
            Ok(json) => {
                let time = json.get("time").and_then(Value::as_str);
                if is_since(time.unwrap_or_default(), since) {
                    evaluator.add(&json).await;
                } else {
                    damaged.skipped += 1;
                }
            }
            Err(error) => damaged.add(&error),
        }
    }
    evaluator.end_all();
    let totals = evaluator.totals;
    drop(snapshot);
    gateway.end().await;
    let elapsed_ms = whole_milliseconds(started.elapsed());
    Ok(ReplayReport {
        before: "decision log".to_owned(),
        after: version,
        judged_rules: rules,
        effort: ReplayCost {
            elapsed_ms,
            calls_per_second: totals.report.counts.calls * 1000 / elapsed_ms.max(1),
            peak_kib: None,
        },
        ..totals.into_report()
    })
}

impl LineEvaluator<'_> {
    /// Evaluates a line, if it is about a model or a tool, or ends a call.
    async fn add(&mut self, line: &Value) {
        let id = text(line, "/request");
        match (text(line, "/kind"), text(line, "/event")) {
            ("request", _) => {
                let name = text(line, "/requested_model").to_owned();
                let runs = if !name.is_empty() && sends_content(line) {
                    model_runs(self.engine, &context(line), &name)
                } else {
                    Vec::new()
                };
                let was_denied = line.pointer("/round").and_then(Value::as_u64) == Some(0);
                // Later requests are the same call, once more.
                self.call(line).model.get_or_insert(LoggedModel {
                    name,
                    was_denied,
                    runs,
                });
            }
            // One that was not decided has nothing to compare.
            ("event", "BeforeTool") if line.get("verdict").is_some() => {
                let tool = text(line, "/subject");
                let runs = tool_runs(self.engine, &context(line), tool).await;
                let was_denied = is_denial(text(line, "/verdict"));
                let evaluated = comparison(EventName::BeforeTool, tool, was_denied, &runs);
                let tools = &mut self.call(line).tools;
                tools.changes.extend(evaluated.changes);
                tools.unknown = tools.unknown.or(evaluated.unknown);
                if text(line, "/origin") == EventOrigin::Reported.as_str() {
                    self.end(id);
                }
            }
            ("outcome", _) => {
                let model = self.open.get_mut(id).and_then(|call| call.model.as_mut());
                if let Some(model) = model {
                    model.add_outcome(line);
                }
                self.end(id);
            }
            _ => (),
        }
    }

    /// Returns the call of a line.
    fn call(&mut self, line: &Value) -> &mut LoggedCall {
        let field = |pointer: &str| text(line, pointer).to_owned();
        let id = field("/request");
        if self.open.len() >= MAX_OPEN_CALLS && !self.open.contains_key(&id) {
            self.end_all();
        }
        let call = || RecordedExchange {
            id: field("/request"),
            time: field("/time"),
            caller: field("/caller/name"),
            headers: vec![(USER_AGENT.to_string(), field("/caller/agent"))],
            session: Some(RecordedSession {
                id: field("/session"),
                ..RecordedSession::default()
            }),
            ..RecordedExchange::default()
        };
        self.open.entry(id).or_insert_with(|| LoggedCall {
            call: call(),
            ..LoggedCall::default()
        })
    }

    /// Counts a call, if there are lines of it.
    fn end(&mut self, id: &str) {
        if let Some(logged) = self.open.remove(id) {
            self.totals.add(&logged.call, &logged.comparison());
        }
    }

    fn end_all(&mut self) {
        for (_, logged) in self.open.drain() {
            self.totals.add(&logged.call, &logged.comparison());
        }
    }
}

impl LoggedCall {
    fn comparison(&self) -> Comparison {
        let mut result = self.tools.clone();
        if let Some(model) = &self.model {
            let (name, was_denied) = (&model.name, model.was_denied);
            let evaluated = comparison(EventName::BeforeModel, name, was_denied, &model.runs);
            result.changes.splice(0..0, evaluated.changes);
            result.unknown = result.unknown.or(evaluated.unknown);
        }
        result
    }
}

impl LoggedModel {
    /// Corrects whether the call was denied, once its outcome is known.
    fn add_outcome(&mut self, line: &Value) {
        let action = text(line, "/action");
        let is_error = action == "error" && text(line, "/error") != POLICY_DENIED;
        let status = line.pointer("/status").and_then(Value::as_u64);
        if is_error && self.was_denied && matches!(status, Some(400..500)) {
            // The request was refused, mostly before rules ran, and still is.
            self.runs.clear();
        }
        self.was_denied &= !is_error && matches!(action, "error" | "deny" | "stop");
    }
}

/// Returns whether a request is of a method with the event `BeforeModel`.
fn sends_content(line: &Value) -> bool {
    let (api, method) = (text(line, "/dialect"), text(line, "/method"));
    let known = dialect::methods().find(|spec| spec.api.as_str() == api && spec.label() == method);
    known.is_none_or(|spec| spec.operation.sends_content())
}

/// Returns the text at a place of a line; empty without one.
fn text<'a>(line: &'a Value, pointer: &str) -> &'a str {
    let text = line.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns the context of a line: its caller.
fn context(line: &Value) -> Context {
    Context {
        caller: Caller {
            name: text(line, "/caller/name").to_owned(),
            ..Caller::default()
        },
        ..Context::default()
    }
}

/// Compares what the log has of an event with what the evaluated rules decide.
fn comparison(event: EventName, subject: &str, was_denied: bool, runs: &[HookRun]) -> Comparison {
    let denied = runs.iter().find(|run| run.action >= Action::Deny);
    let is_tool = event == EventName::BeforeTool;
    match (was_denied, denied) {
        (false, None) | (true, Some(_)) => Comparison::default(),
        // What denied it may be a rule that is not evaluated.
        (true, None) => Comparison::unknown(UnknownReason::RuleNotJudged),
        (false, Some(run)) => Comparison {
            changes: vec![Change {
                kind: DifferenceKind::NewlyDenied,
                event: event.as_str().to_owned(),
                rule: run.name.clone(),
                tool: if is_tool { subject } else { "" }.to_owned(),
                before: "proceed".to_owned(),
                after: run.action.as_str().to_owned(),
            }],
            ..Comparison::default()
        },
    }
}

fn model_runs(engine: &Engine, context: &Context, model: &str) -> Vec<HookRun> {
    let recorder = Recorder::without_sinks(ExchangeSummary::from_context(context));
    let scope = EventScope::new(context, &recorder);
    let request = LlmRequest {
        model: model.to_owned(),
        ..LlmRequest::default()
    };
    let Ok((call, document)) = dialect::build_request(&request) else {
        return Vec::new();
    };
    let subject = ConditionSubject::Call {
        call: &call,
        document: &document,
    };
    let mut plan = engine.plan(EventName::BeforeModel, scope, subject);
    let mut request = PolicyRequest::new(call, document);
    let runs = engine.inspect_request(&mut plan, scope, &mut request);
    runs.unwrap_or_default()
}

async fn tool_runs(engine: &Engine, context: &Context, tool: &str) -> Vec<HookRun> {
    let recorder = Recorder::without_sinks(ExchangeSummary::from_context(context));
    let scope = EventScope::new(context, &recorder);
    let event = BeforeTool {
        tool_name: tool.to_owned(),
        tool_input: Map::new(),
        toolset_name: None,
        mcp_context: None,
        original_request_name: None,
    };
    engine.fire(scope, event, EventOrigin::Reported).await.runs
}
