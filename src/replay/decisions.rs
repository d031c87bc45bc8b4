//! Decisions about one exchange, by their place in it. Pure.

use std::collections::BTreeMap;

use crate::recording::{RecordedEvent, RecordedExchange, RecordedRun};

/// Steps of one call of the model API, in the order in which they are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DecisionStage {
    SessionStart,
    BeforeAgent,
    AfterTool,
    BeforeModel,
    BeforeToolSelection,
    AfterModel,
    BeforeTool,
    AfterAgent,
}

impl DecisionStage {
    /// Stages before the model API is called.
    pub(super) const REQUEST: [Self; 5] = [
        Self::SessionStart,
        Self::BeforeAgent,
        Self::AfterTool,
        Self::BeforeModel,
        Self::BeforeToolSelection,
    ];

    /// Stages of the model's response.
    pub(super) const RESPONSE: [Self; 3] = [Self::AfterModel, Self::BeforeTool, Self::AfterAgent];

    /// Returns the stage of an event; `None` for events that no call has.
    pub(super) fn of(event: &str) -> Option<Self> {
        Some(match event {
            "SessionStart" => Self::SessionStart,
            "BeforeAgent" => Self::BeforeAgent,
            "AfterTool" => Self::AfterTool,
            "BeforeModel" => Self::BeforeModel,
            "BeforeToolSelection" => Self::BeforeToolSelection,
            "AfterModel" => Self::AfterModel,
            "BeforeTool" => Self::BeforeTool,
            "AfterAgent" => Self::AfterAgent,
            _ => return None,
        })
    }

    /// Returns the name of the event.
    pub(super) const fn event(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::BeforeAgent => "BeforeAgent",
            Self::AfterTool => "AfterTool",
            Self::BeforeModel => "BeforeModel",
            Self::BeforeToolSelection => "BeforeToolSelection",
            Self::AfterModel => "AfterModel",
            Self::BeforeTool => "BeforeTool",
            Self::AfterAgent => "AfterAgent",
        }
    }
}

/// The strictest decision about one subject at one stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SubjectDecision<'a> {
    /// `proceed`, `ask`, `respond`, `deny` or `stop`; empty if nothing was decided.
    pub(super) verdict: &'a str,
    /// The rule that decided; empty for `proceed`.
    pub(super) rule: &'a str,
    /// Number of denials: an answer may call a tool several times.
    pub(super) denials: usize,
}

/// Returns the decisions of a stage in one round, by subject.
pub(super) fn at(
    exchange: &RecordedExchange,
    round: u32,
    stage: DecisionStage,
) -> BTreeMap<&str, SubjectDecision<'_>> {
    let mut decisions = BTreeMap::new();
    for event in exchange
        .events
        .iter()
        .filter(|event| round_of(event) == round)
    {
        if DecisionStage::of(&event.name) == Some(stage) {
            let subject = event.subject.as_deref().unwrap_or_default();
            add(
                &mut decisions,
                subject,
                &event.verdict,
                deciding_rule(event),
            );
        }
        if stage != DecisionStage::BeforeTool {
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
    let stage = DecisionStage::of(&event.name);
    let is_of_response = stage.is_some_and(|stage| DecisionStage::RESPONSE.contains(&stage));
    event.round.saturating_sub(u32::from(is_of_response))
}

/// Returns whether a verdict refuses.
pub(super) fn is_denial(verdict: &str) -> bool {
    matches!(verdict, "ask" | "deny" | "stop")
}

/// Returns the rule that made the verdict; empty for `proceed`.
fn deciding_rule(event: &RecordedEvent) -> &str {
    if event.verdict == "proceed" {
        return "";
    }
    let mut enforcing = event.hooks.iter().filter(|run| run.would.is_none());
    let decided = enforcing.find(|run| run.action == event.verdict);
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
    if strictness(verdict) > strictness(decision.verdict) {
        (decision.verdict, decision.rule) = (verdict, rule);
    }
}

fn strictness(verdict: &str) -> usize {
    let order = ["", "proceed", "ask", "respond", "deny", "stop"];
    order
        .iter()
        .position(|known| *known == verdict)
        .unwrap_or_default()
}

/// Returns the rule whose effect on a request or an answer differs between two exchanges; empty
/// if none does.
pub(super) fn editing_rule<'a>(
    (before, after): (&'a RecordedExchange, &'a RecordedExchange),
    round: u32,
    stages: &[DecisionStage],
) -> &'a str {
    let (old, new) = (
        effects(before, round, stages),
        effects(after, round, stages),
    );
    let differs = |one: &[&'a RecordedRun], other: &[&'a RecordedRun]| {
        let changed = one.iter().find(|run| {
            let same = |known: &&&RecordedRun| {
                (&known.name, &known.output, known.edited) == (&run.name, &run.output, run.edited)
            };
            !other.iter().any(|known| same(&known))
        });
        changed.map(|run| run.name.as_str())
    };
    let rule = differs(&new, &old).or_else(|| differs(&old, &new));
    let rule = rule.or_else(|| new.last().map(|run| run.name.as_str()));
    rule.unwrap_or_default()
}

/// Returns the runs that edited something.
fn effects<'a>(
    exchange: &'a RecordedExchange,
    round: u32,
    stages: &[DecisionStage],
) -> Vec<&'a RecordedRun> {
    let events = exchange.events.iter().filter(|event| {
        let stage = DecisionStage::of(&event.name);
        round_of(event) == round && stage.is_some_and(|stage| stages.contains(&stage))
    });
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
