//! Decisions about one exchange, by their place in it. Pure.

use std::collections::BTreeMap;

use super::comparison::{Change, DifferenceKind};
use crate::{
    event::EventName,
    recording::{RecordedEvent, RecordedExchange, RecordedRun},
};

/// Events before the model API is called, in the order in which they are decided.
pub(super) const REQUEST: [EventName; 5] = [
    EventName::SessionStart,
    EventName::BeforeAgent,
    EventName::AfterTool,
    EventName::BeforeModel,
    EventName::BeforeToolSelection,
];

/// Events of the model's response, in the order in which they are decided.
pub(super) const RESPONSE: [EventName; 3] = [
    EventName::AfterModel,
    EventName::BeforeTool,
    EventName::AfterAgent,
];

/// The strictest decision of one event about one subject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SubjectDecision<'a> {
    /// `proceed`, `ask`, `respond`, `deny` or `stop`; empty if nothing was decided.
    pub(super) verdict: &'a str,
    /// The rule that decided; empty for `proceed`.
    pub(super) rule: &'a str,
    /// Number of denials: an answer may call a tool several times.
    pub(super) denials: usize,
    /// Number of all decisions, denials included.
    pub(super) count: usize,
}

impl SubjectDecision<'_> {
    /// Returns how another decision about the subject differs from this one, if it does.
    pub(super) fn difference(self, new: Self) -> Option<DifferenceKind> {
        if new.denials > self.denials {
            return Some(DifferenceKind::NewlyDenied);
        }
        if new.denials < self.denials {
            return Some(DifferenceKind::NewlyAllowed);
        }
        let is_open = |verdict: &str| !is_denial(verdict) && verdict != "respond";
        let both_open = is_open(self.verdict) && is_open(new.verdict);
        let differs = (self.verdict, self.rule) != (new.verdict, new.rule);
        (differs && !both_open).then_some(DifferenceKind::Edited)
    }

    /// Returns the change of this kind to another decision about the subject of an event.
    pub(super) fn change_to(
        self,
        new: Self,
        kind: DifferenceKind,
        event: EventName,
        subject: &str,
    ) -> Change {
        let rule = match kind {
            DifferenceKind::NewlyAllowed => self.rule,
            DifferenceKind::NewlyDenied => new.rule,
            DifferenceKind::Edited => name_or(new.rule, self.rule),
        };
        let is_tool = matches!(event, EventName::BeforeTool | EventName::AfterTool);
        let tool = if is_tool { subject } else { "" };
        Change {
            kind,
            event: event.as_str().to_owned(),
            rule: rule.to_owned(),
            tool: tool.to_owned(),
            before: verdict_or_proceed(self.verdict),
            after: verdict_or_proceed(new.verdict),
        }
    }
}

/// Returns the decisions of an event in one round, by subject.
pub(super) fn at(
    exchange: &RecordedExchange,
    round: u32,
    name: EventName,
) -> BTreeMap<&str, SubjectDecision<'_>> {
    let mut decisions = BTreeMap::new();
    let events = exchange.events.iter();
    for event in events.filter(|event| round_of(event) == round) {
        if event.name == name.as_str() {
            let subject = event.subject.as_deref().unwrap_or_default();
            // The setting `ask` allows the call, if none was denied.
            let verdict = match event.verdict.as_str() {
                "ask" if !exchange.outcome.tool_denied => "proceed",
                verdict => verdict,
            };
            let rule = deciding_rule(event, verdict);
            add(&mut decisions, subject, verdict, rule);
        }
        if name != EventName::BeforeTool {
            continue;
        }
        // Policies on responses remove calls without an event of their own.
        for run in event.hooks.iter().filter(|run| run.would.is_none()) {
            for refusal in &run.refused {
                add(&mut decisions, &refusal.tool, "deny", &run.name);
            }
        }
    }
    decisions
}

/// Returns the number of the call of the model API that an event is about. Events have the number
/// of the next call.
pub(super) fn round_of(event: &RecordedEvent) -> u32 {
    let is_of_response = is_one_of(event, &RESPONSE);
    event.round.saturating_sub(u32::from(is_of_response))
}

/// Returns whether an event has one of these names.
pub(super) fn is_one_of(event: &RecordedEvent, names: &[EventName]) -> bool {
    names.iter().any(|name| event.name == name.as_str())
}

/// Returns whether a verdict refuses.
pub(super) fn is_denial(verdict: &str) -> bool {
    matches!(verdict, "ask" | "deny" | "stop")
}

/// Returns a name; `unnamed` if it is empty.
pub(super) fn name_or<'a>(name: &'a str, unnamed: &'a str) -> &'a str {
    if name.is_empty() { unnamed } else { name }
}

/// Returns a verdict; `proceed` if nothing was decided.
pub(super) fn verdict_or_proceed(verdict: &str) -> String {
    name_or(verdict, "proceed").to_owned()
}

/// Returns the rule that first denied something; `None` if nothing was denied.
pub(super) fn denying_rule(exchange: &RecordedExchange) -> Option<&str> {
    let mut events = exchange.events.iter();
    let denied = events.find(|event| is_denial(&event.verdict))?;
    Some(deciding_rule(denied, &denied.verdict))
}

/// Returns the rule that made the verdict; empty for `proceed`.
fn deciding_rule<'a>(event: &'a RecordedEvent, verdict: &str) -> &'a str {
    if verdict == "proceed" {
        return "";
    }
    let mut enforcing = event.hooks.iter().filter(|run| run.would.is_none());
    let decided = enforcing.find(|run| run.action == verdict);
    decided.map_or("", |run| run.name.as_str())
}

fn add<'a>(
    decisions: &mut BTreeMap<&'a str, SubjectDecision<'a>>,
    subject: &'a str,
    verdict: &'a str,
    rule: &'a str,
) {
    let decision = decisions.entry(subject).or_default();
    decision.denials += usize::from(is_denial(verdict));
    decision.count += 1;
    if strictness(verdict) > strictness(decision.verdict) {
        (decision.verdict, decision.rule) = (verdict, rule);
    }
}

/// Returns the place of a verdict in the order of strictness.
pub(super) fn strictness(verdict: &str) -> usize {
    let order = ["", "proceed", "ask", "respond", "deny", "stop"];
    let place = order.iter().position(|known| *known == verdict);
    place.unwrap_or_default()
}

/// Returns the first rule whose effect on some events differs between two exchanges, or whose
/// definition does; empty if there is none.
pub(super) fn editing_rule<'a>(
    before: &'a RecordedExchange,
    after: &'a RecordedExchange,
    is_cause: impl Fn(&RecordedEvent) -> bool,
) -> &'a str {
    let (old, new) = (effects(before, &is_cause), effects(after, &is_cause));
    let differs = |one: &[&'a RecordedRun], other: &[&'a RecordedRun]| {
        let changed = one.iter().find(|run| {
            let same = |known: &&&RecordedRun| {
                (&known.name, &known.definition, &known.output, known.edited)
                    == (&run.name, &run.definition, &run.output, run.edited)
            };
            !other.iter().any(|known| same(&known))
        });
        changed.map(|run| run.name.as_str())
    };
    let rule = differs(&new, &old).or_else(|| differs(&old, &new));
    rule.unwrap_or_default()
}

/// Returns the runs on some events that edited or decided something.
fn effects(
    exchange: &RecordedExchange,
    is_cause: impl Fn(&RecordedEvent) -> bool,
) -> Vec<&RecordedRun> {
    let events = exchange.events.iter().filter(|event| is_cause(event));
    let runs = events.flat_map(|event| &event.hooks);
    runs.filter(|run| run.would.is_none() && (run.edited || has_output(run)))
        .collect()
}

/// Returns whether a run had an output.
pub(super) fn has_output(run: &RecordedRun) -> bool {
    match &run.output {
        serde_json::Value::Null => false,
        serde_json::Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}
