//! Cases for `hookgate test`, made of calls whose content is kept.

use std::path::{PathBuf, absolute};

use serde_json::{Map, Value, json};

use super::recorded_call::RecordedCall;
use crate::{
    config::{Config, to_yaml},
    event::{Action, EventName},
    invisible_char::is_hidden,
    observe::{
        recorder::ExchangeAction,
        trace::{CallRecord, DenialGroup, StoredContent, TracedEvent, TracedRun},
    },
    proof::policy_denies,
    state::App,
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
    pub fn of(config: &Config) -> Self {
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
    /// The file as YAML.
    pub yaml: String,
    /// True if labels are in the place of secrets, by which a rule may have decided.
    pub is_masked: bool,
    /// True if an earlier call of the session has the decision.
    pub repeats_decision: bool,
    /// Number of answers of the model API, of which the file has the first ones.
    pub answers: usize,
    /// True if `request_limits` denied it, perhaps by what the session had used.
    pub is_limited: bool,
}

/// Returns a case with the request and the answers of a call, and its verdict. `None` if the
/// content holds no request.
pub fn from_content(app: &App, call: &CallRecord, content: &StoredContent) -> Option<ContentCase> {
    let verdict = verdict(call).as_str();
    let name = format!("call {} ends with {verdict}", call.id);
    let mut case = Map::from_iter([("name".to_owned(), json!(name))]);
    let recorded = RecordedCall::new(call, content)?;
    let answers = recorded.answers.len();
    case.extend(recorded.into_fields("request"));
    case.insert("expect".to_owned(), json!({ "verdict": verdict }));
    let bodies = [&content.request, &content.answer];
    Some(ContentCase {
        yaml: file(app, case),
        is_masked: bodies
            .into_iter()
            .flatten()
            .any(|body| !body.masked.is_empty()),
        repeats_decision: call.repeats_decision(),
        answers,
        is_limited: call.events().iter().any(is_limited),
    })
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
/// a policy removed a call of a tool, or if the denial of an earlier call was repeated.
fn verdict(call: &CallRecord) -> Action {
    let verdicts = call.events().iter().filter_map(|event| event.verdict);
    let rules = call.events().iter().flat_map(|event| &event.rules);
    let runs = rules.filter_map(TracedRun::asked);
    let removals = runs.filter(|run| run.would.is_none() && run.refused_calls > 0);
    let is_repeated = call.action == ExchangeAction::Deny && call.repeats_decision();
    let verdicts = verdicts.chain(removals.map(|_| Action::Deny));
    let verdicts = verdicts.chain(is_repeated.then_some(Action::Deny));
    verdicts.max().unwrap_or(Action::Proceed)
}

/// A file of one case, made of the name of a denied tool alone.
#[derive(Debug)]
pub struct NamedCase {
    /// The file as YAML.
    pub yaml: String,
    /// True if it passes as it is; `None` if a hook decides, which is not run for this.
    pub passes: Option<bool>,
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
    let (engine, config) = (&snapshot.engine, &snapshot.config);
    let denied = policy_denies(engine, config, &group.rule, group.event, fields);
    Some(NamedCase {
        passes: denied.await,
        yaml: file(app, case),
    })
}

fn file(app: &App, case: Map<String, Value>) -> String {
    let config = match RuleSource::of(&app.snapshot().config) {
        RuleSource::File(path) => Some(path.display().to_string()),
        RuleSource::Bundles => Some(CONFIG_OF_BUNDLE.to_owned()),
        RuleSource::CommandLine => None,
    };
    let mut file = Map::new();
    file.extend(config.map(|config| ("config".to_owned(), json!(config))));
    let cases = Value::Array(vec![Value::Object(case)]);
    file.insert("cases".to_owned(), cases);
    let file = Value::Object(file);
    let yaml = to_yaml(&file);
    if yaml.contains(is_hidden) {
        // A page shows such characters as the escapes that JSON has, and JSON is YAML.
        return format!("{file:#}");
    }
    yaml
}
