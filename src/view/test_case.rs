//! Cases for `hookgate test`, made of calls whose content is kept.

use std::path::{Path, PathBuf, absolute};

use serde_json::{Map, Value, json};

use super::{
    bounded_text::bounded_text,
    recorded_call::{MissingAnswers, RecordedCall},
};
use crate::{
    config::{Config, SpannedYaml, YamlValue},
    event::{Action, EventName, HookStatus},
    invisible_char::is_hidden,
    observe::{
        recorder::ExchangeAction,
        trace::{CallRecord, DenialGroup, RulePosition, StoredContent, TracedEvent, TracedRun},
    },
    proof::policy_denies,
    session::MatchKind,
    state::{App, Snapshot},
    test_case::ExpectedVerdict,
};

/// The config of a bundle, seen from its folder of tests.
const CONFIG_OF_BUNDLE: &str = "../hookgate.yaml";

/// Source of the policies and hooks of a config, under which a test runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSource {
    /// A config file, by its absolute path.
    File(PathBuf),
    /// Bundles, which have folders of tests.
    Bundles,
    /// Settings files of the command line.
    CommandLine,
}

impl RuleSource {
    /// Returns the source of a config's policies and hooks.
    fn of(config: &Config) -> Self {
        if !config.layers.is_empty() {
            return Self::Bundles;
        }
        let file = config.files.first().filter(|_| !config.texts.is_empty());
        let file = file.and_then(|file| absolute(file).ok());
        file.map_or(Self::CommandLine, Self::File)
    }
}

/// A file of one case, made of a call's content.
#[derive(Debug)]
pub struct ContentCase {
    /// The file as YAML; `None` if it is too large for a page.
    pub yaml: Option<String>,
    /// Source of the policies and hooks under which it runs.
    pub source: RuleSource,
    /// Reasons why it may end otherwise than the call.
    pub differences: Vec<CaseDifference>,
}

/// Reason why a case may end otherwise than its call.
#[derive(Debug, Clone, Copy)]
pub enum CaseDifference {
    /// Labels are in the place of secrets, by which a rule may have decided.
    MaskedContent,
    /// An earlier call of the session has the decision.
    RepeatedDecision,
    /// The session had earlier calls or reported events, or the call continues a response that the
    /// model API has stored.
    EarlierCalls,
    /// The config in the file that the case names may have other policies and hooks.
    OtherConfig,
    /// The file does not have all answers of the model API.
    MissingAnswers(MissingAnswers),
    /// The model API answered with an error, which is not kept.
    NoAnswer,
    /// A hook failed, or its last proof had failed.
    HookFailed,
    /// A condition compares the key of a caller without a name, which no case has.
    CallerKey,
    /// `request_limits` denied the call, by what the session had used or by the size of the request.
    RequestLimits,
    /// The file has a value that `hookgate test` cannot read, such as the number `1e400`.
    UnreadableValue,
}

/// Returns a case with the request and the answers of a call, and its verdict. `None` if the
/// content holds no request, or an error ended the call without a verdict.
pub fn from_content(app: &App, call: &CallRecord, content: &StoredContent) -> Option<ContentCase> {
    let decided = verdict(call)?;
    let recorded = RecordedCall::new(call, content)?;
    let verdict = if recorded.repeats_error && decided < Action::Respond {
        ExpectedVerdict::Error.as_str()
    } else {
        decided.as_str()
    };
    let name = format!("call {} ends with {verdict}", call.id);
    let mut case = Map::from_iter([("name".to_owned(), json!(name))]);
    let mut differences = differences(call, content, &recorded);
    case.extend(recorded.into_fields("request"));
    case.insert("expect".to_owned(), json!({ "verdict": verdict }));
    let rule = call.decided_by();
    let rule = rule.and_then(|rule| Some((rule.name, rule.at?)));
    let snapshot = app.snapshot();
    let arm = with_rule(&snapshot, rule);
    let has_other_config = has_other_config(app, &snapshot, rule);
    differences.extend(has_other_config.then_some(CaseDifference::OtherConfig));
    let source = RuleSource::of(&arm.config);
    let file = CaseText::new(&source, case);
    differences.extend((!file.is_readable).then_some(CaseDifference::UnreadableValue));
    Some(ContentCase {
        yaml: file.yaml,
        source,
        differences,
    })
}

/// Returns the snapshot of the config that has a rule: that of a rollout if only it has the rule.
fn with_rule<'a>(snapshot: &'a Snapshot, rule: Option<(&str, &RulePosition)>) -> &'a Snapshot {
    arms_with_rule(snapshot, rule).next().unwrap_or(snapshot)
}

/// Returns the snapshots of the configs in use that have a rule; all without one.
fn arms_with_rule<'a>(
    snapshot: &'a Snapshot,
    rule: Option<(&str, &RulePosition)>,
) -> impl Iterator<Item = &'a Snapshot> {
    let has_rule = move |arm: &&Snapshot| has_rule(arm, rule);
    snapshot.arms().filter(has_rule)
}

fn has_rule(arm: &Snapshot, rule: Option<(&str, &RulePosition)>) -> bool {
    rule.is_none_or(|(name, at)| arm.trace.has_rule(name, at))
}

/// Returns whether the file of a config may have other policies and hooks than a call had: both
/// configs of a rollout have the rule that decided, or none has it any more, or the config is a
/// stored revision.
fn has_other_config(app: &App, snapshot: &Snapshot, rule: Option<(&str, &RulePosition)>) -> bool {
    let is_ambiguous = arms_with_rule(snapshot, rule).count() > 1;
    let arm = with_rule(snapshot, rule);
    let is_promoted = app.active_revision().is_some_and(|active| {
        active.file != active.revision && active.revision == arm.config.version
    });
    let rollout = snapshot.config.rollout.as_ref();
    let is_rolled_out = rollout.is_some_and(|rollout| rollout.to == arm.config.version);
    is_ambiguous || is_promoted || is_rolled_out || !has_rule(arm, rule)
}

fn differences(
    call: &CallRecord,
    content: &StoredContent,
    recorded: &RecordedCall,
) -> Vec<CaseDifference> {
    let mut bodies = [&content.request, &content.answer].into_iter().flatten();
    let is_masked = bodies.any(|body| !body.masked.is_empty());
    let is_limited = call.events().iter().any(is_limited);
    let repeats = call.repeats_decision();
    let has_earlier_calls = has_earlier_calls(call, recorded);
    // Behind keep-alives, an error breaks off a response with status 200.
    let is_failed = call.error.is_some() || !call.is_successful();
    let has_error = call.rounds > 0 && is_failed && content.answer.is_none();
    let found = [
        is_masked.then_some(CaseDifference::MaskedContent),
        repeats.then_some(CaseDifference::RepeatedDecision),
        has_earlier_calls.then_some(CaseDifference::EarlierCalls),
        recorded.missing_answers.map(CaseDifference::MissingAnswers),
        has_error.then_some(CaseDifference::NoAnswer),
        has_failed_hook(call).then_some(CaseDifference::HookFailed),
        compares_caller_key(call).then_some(CaseDifference::CallerKey),
        is_limited.then_some(CaseDifference::RequestLimits),
    ];
    found.into_iter().flatten().collect()
}

/// Returns whether a call depends on the session's earlier calls or reported events, unless it
/// repeats a decision of theirs, or on a stored response.
fn has_earlier_calls(call: &CallRecord, recorded: &RecordedCall) -> bool {
    let detail = call.detail.as_ref();
    let found = detail.and_then(|detail| detail.session_match);
    let without_state = [MatchKind::New, MatchKind::Transient].map(MatchKind::as_str);
    let is_continued = found.is_some_and(|found| !without_state.contains(&found.result));
    let response = recorded.request.get("previous_response_id");
    is_continued && !call.repeats_decision() || response.is_some_and(|id| !id.is_null())
}

/// Returns whether a hook in mode `enforce` failed.
fn has_failed_hook(call: &CallRecord) -> bool {
    let rules = call.events().iter().flat_map(|event| &event.rules);
    let mut runs = rules.filter_map(TracedRun::asked);
    runs.any(|run| run.would.is_none() && run.status == HookStatus::Failed)
}

/// Returns whether a condition compares the key of a caller that has no name.
fn compares_caller_key(call: &CallRecord) -> bool {
    let rules = call.events().iter().flat_map(|event| &event.rules);
    let mut conditions = rules.filter_map(|run| run.rule.as_ref()?.identity.when.as_deref());
    let has_only_key = call.caller.is_empty() && !call.caller_key.is_empty();
    has_only_key && conditions.any(|condition| condition.contains("caller.key"))
}

/// Returns whether `request_limits` denied a request.
fn is_limited(event: &TracedEvent) -> bool {
    let mut rules = event.rules.iter();
    rules.any(|run| {
        let rule = run.rule.as_ref().map(|rule| &rule.identity);
        let policy = rule.and_then(|rule| rule.policy.as_deref());
        let denies = run
            .asked()
            .is_some_and(|run| run.would.is_none() && run.action == Action::Deny);
        denies && policy == Some("request_limits")
    })
}

/// Returns the verdict that a trial of the call has: the strictest of its events, and `deny` if
/// a policy removed a call of a tool, or if the denial of an earlier call was repeated. If events
/// were dropped, it is at least that of the call. `None` if an error is the answer to a call that
/// policies and hooks had let proceed so far.
fn verdict(call: &CallRecord) -> Option<Action> {
    let verdicts = call.events().iter().filter_map(|event| event.verdict);
    let rules = call.events().iter().flat_map(|event| &event.rules);
    let runs = rules.filter_map(TracedRun::asked);
    let removals = runs.filter(|run| run.would.is_none() && run.refused_calls > 0);
    let is_repeated = call.action == ExchangeAction::Deny && call.repeats_decision();
    let verdicts = verdicts.chain(removals.map(|_| Action::Deny));
    let verdicts = verdicts.chain(is_repeated.then_some(Action::Deny));
    let on_call = verdict_on_call(call.action).filter(|_| !call.has_all_details());
    let verdicts = verdicts.chain(on_call);
    let strictest = verdicts.max().unwrap_or(Action::Proceed);
    let is_error = call.action == ExchangeAction::Error;
    (strictest > Action::Proceed || !is_error).then_some(strictest)
}

/// Returns the verdict by which a call was answered without the model; `None` if it was not.
const fn verdict_on_call(action: ExchangeAction) -> Option<Action> {
    match action {
        ExchangeAction::Respond => Some(Action::Respond),
        ExchangeAction::Deny => Some(Action::Deny),
        ExchangeAction::Stop => Some(Action::Stop),
        ExchangeAction::Pass | ExchangeAction::Edit | ExchangeAction::Error => None,
    }
}

/// A file of one case, made of the name of a denied tool alone.
#[derive(Debug)]
pub struct NamedCase {
    /// The file as YAML; `None` if it is too large for a page.
    pub yaml: Option<String>,
    /// Source of the policies and hooks under which it runs.
    pub source: RuleSource,
    /// True if it passes as it is; `None` if a hook decides, which is not run for this.
    pub passes: Option<bool>,
    /// True if the config in the file that the case names may have other policies and hooks.
    pub has_other_config: bool,
}

/// Returns a case made of the name of a denied tool alone. `None` if it was no call of a tool
/// that was denied.
pub async fn from_names(app: &App, group: &DenialGroup) -> Option<NamedCase> {
    let tool = group.tool.as_ref()?;
    if group.event != EventName::BeforeTool {
        return None;
    }
    let verdict = group.action.as_str();
    let fields = json!({ "hook_event_name": group.event, "tool_name": tool, "tool_input": {} });
    let case = json!({
        "name": format!("{} decides {verdict} on {tool}", group.rule),
        "event": &fields,
        "expect": { "verdict": verdict },
    });
    let (Value::Object(case), Value::Object(fields)) = (case, fields) else {
        return None;
    };
    let snapshot = app.snapshot();
    let rule = group.at.as_ref().map(|at| (&*group.rule, at));
    let arm = with_rule(&snapshot, rule);
    let denied = policy_denies(&arm.engine, &arm.config, &group.rule, group.event, fields);
    let source = RuleSource::of(&arm.config);
    Some(NamedCase {
        passes: denied.await,
        has_other_config: has_other_config(app, &snapshot, rule),
        yaml: CaseText::new(&source, case).yaml,
        source,
    })
}

/// A file of one case, as text.
struct CaseText {
    yaml: Option<String>,
    /// True if `hookgate test` can read it, or it is too large for a page.
    is_readable: bool,
}

impl CaseText {
    fn new(source: &RuleSource, case: Map<String, Value>) -> Self {
        let config = match source {
            RuleSource::File(path) => Some(path.display().to_string()),
            RuleSource::Bundles => Some(CONFIG_OF_BUNDLE.to_owned()),
            RuleSource::CommandLine => None,
        };
        let mut file = Map::new();
        file.extend(config.map(|config| ("config".to_owned(), json!(config))));
        let cases = Value::Array(vec![Value::Object(case)]);
        file.insert("cases".to_owned(), cases);
        let file = Value::Object(file);
        let parse = |text: &str| SpannedYaml::parse(text, Path::new(""));
        let mut yaml = bounded_text(&YamlValue(&file));
        let read = yaml.as_deref().map(parse);
        let has_hidden = yaml.as_deref().is_some_and(|yaml| yaml.contains(is_hidden));
        let mut is_readable = read.as_ref().is_none_or(Result::is_ok);
        if has_hidden || matches!(&read, Some(Ok(read)) if read.value() != file) {
            // JSON, which is YAML, has escapes for such characters, and each number as it was sent.
            yaml = bounded_text(&file);
            is_readable = yaml.as_deref().is_none_or(|json| parse(json).is_ok());
        }
        Self { yaml, is_readable }
    }
}
