//! Comparison of two exchanges: one before a change of the config, and one after it. Pure.
//!
//! A comparison ends at the first decision that changes what follows: a call that is denied now
//! has no recorded continuation, and a model that receives another request would have given
//! another answer.

use std::{
    collections::BTreeSet,
    ops::ControlFlow::{self, Break, Continue},
};

use serde::{Deserialize, Serialize};

use super::{
    answer_channels::same_answer,
    decisions::{
        self, REQUEST, RESPONSE, SubjectDecision, editing_rule, has_output, is_denial, name_or,
        round_of,
    },
};
use crate::{
    event::EventName,
    recording::{RecordedExchange, RecordedRound, RecordedRun},
};

/// Kind of a difference; of several, the last in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Content or a verdict differs, but both or none are denied.
    Edited,
    /// Denied before, and not any more.
    NewlyAllowed,
    /// Denied now, and not before.
    NewlyDenied,
}

/// One difference between two exchanges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Event that is decided otherwise, `request` or `answer`.
    pub event: String,
    /// Rule that decides, or decided; empty if it is not known.
    pub rule: String,
    /// Tool of the event; empty for other subjects.
    pub tool: String,
    /// Verdict before the change.
    pub before: String,
    /// Verdict after the change.
    pub after: String,
}

/// Reason why an exchange cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownReason {
    /// The body of the request is not recorded.
    RequestNotRecorded,
    /// Earlier calls of the session are not recorded.
    SessionIncomplete,
    /// Recorded texts are masked, so the rules see other texts than they saw live.
    Masked,
    /// A hook that took part has no recorded output for this input.
    HookNotRecorded,
    /// The config calls the model once more than recorded.
    AnswerNotRecorded,
    /// The exchange cannot be replayed.
    NotReplayed,
    /// A rule that a decision log is not enough for may have denied it.
    RuleNotJudged,
}

/// An exchange, and the hooks of it that could not be asked.
#[derive(Debug, Clone, Copy)]
pub struct ComparedExchange<'a> {
    /// The exchange, as recorded or as replayed.
    pub exchange: &'a RecordedExchange,
    /// Names of hooks that had no recorded output.
    pub unanswered: &'a BTreeSet<String>,
}

/// Restrictions on the comparison of two exchanges.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComparisonLimits {
    /// Reason why a difference does not count.
    pub caveat: Option<UnknownReason>,
    /// True if an earlier call of the session went otherwise, so that content is stale.
    pub has_diverged: bool,
    /// True if a hook without an output makes its event unknown.
    pub needs_all_hooks: bool,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Differences in the order of the pipeline.
    pub changes: Vec<Change>,
    /// Reason why the rest is not known; `None` if all was compared.
    pub unknown: Option<UnknownReason>,
    /// True if the rest was not compared, because recorded answers do not fit any more.
    pub is_stale: bool,
}

impl Comparison {
    /// Returns the strictest difference.
    pub fn kind(&self) -> Option<DifferenceKind> {
        self.changes.iter().map(|change| change.kind).max()
    }

    /// A comparison that was not possible.
    pub fn unknown(reason: UnknownReason) -> Self {
        Self {
            unknown: Some(reason),
            ..Self::default()
        }
    }
}

/// Compares an exchange before a change of the config with the same one after it.
pub fn compare(
    before: ComparedExchange<'_>,
    after: ComparedExchange<'_>,
    limits: ComparisonLimits,
) -> Comparison {
    let mut comparer = Comparer {
        before,
        after,
        limits,
        result: Comparison::default(),
    };
    let _complete = comparer.run();
    let result = comparer.result;
    match limits.caveat {
        Some(caveat) if !result.changes.is_empty() || result.is_stale => {
            Comparison::unknown(caveat)
        }
        _ => result,
    }
}

/// Returns the runs of policies and hooks on an event of a round.
fn runs(
    exchange: &RecordedExchange,
    round: u32,
    name: EventName,
) -> impl Iterator<Item = &RecordedRun> {
    let events = exchange.events.iter();
    let same = events.filter(move |event| round_of(event) == round && event.name == name.as_str());
    same.flat_map(|event| &event.hooks)
}

struct Comparer<'a> {
    before: ComparedExchange<'a>,
    after: ComparedExchange<'a>,
    limits: ComparisonLimits,
    result: Comparison,
}

impl Comparer<'_> {
    /// Compares the exchanges in the order of their stages. Breaks if what follows a stage cannot
    /// be compared.
    fn run(&mut self) -> ControlFlow<()> {
        let (before, after) = (self.before.exchange, self.after.exchange);
        if !is_rejected(before) && !is_rejected(after) {
            let rounds = before.rounds.len().max(after.rounds.len());
            for round in 0..=u32::try_from(rounds).unwrap_or(u32::MAX) {
                self.events(round, &REQUEST)?;
                self.request(round)?;
                self.events(round, &RESPONSE)?;
            }
        }
        self.end();
        Continue(())
    }

    /// Compares the decisions of some events.
    fn events(&mut self, round: u32, names: &[EventName]) -> ControlFlow<()> {
        for name in names {
            if self.is_unknown(round, *name) {
                self.result.unknown = Some(UnknownReason::HookNotRecorded);
                return Break(());
            }
            self.event(round, *name)?;
        }
        Continue(())
    }

    fn event(&mut self, round: u32, name: EventName) -> ControlFlow<()> {
        let old = decisions::at(self.before.exchange, round, name);
        let new = decisions::at(self.after.exchange, round, name);
        let none = SubjectDecision::default();
        let subjects: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let mut rest = Continue(());
        for subject in subjects {
            let old = old.get(subject).unwrap_or(&none);
            let new = new.get(subject).unwrap_or(&none);
            let Some(kind) = difference(old, new) else {
                continue;
            };
            let is_undecided = name == EventName::AfterModel || old.count < new.count;
            if kind != DifferenceKind::NewlyAllowed && is_undecided && self.is_left(round, name) {
                self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
                return Break(());
            }
            let is_tool = matches!(name, EventName::BeforeTool | EventName::AfterTool);
            let tool = if is_tool { subject } else { "" };
            self.result.changes.push(Change {
                kind,
                event: name.as_str().to_owned(),
                rule: decider(kind, old, new).to_owned(),
                tool: tool.to_owned(),
                before: verdict_or_proceed(old.verdict),
                after: verdict_or_proceed(new.verdict),
            });
            if old.verdict != new.verdict || old.denials != new.denials {
                rest = Break(());
            }
        }
        rest
    }

    /// Returns whether the agent disconnected before all events of this name were decided.
    fn is_left(&self, round: u32, name: EventName) -> bool {
        let before = self.before.exchange;
        let is_of_response = usize::from(RESPONSE.contains(&name));
        let decided = before.rounds.len().saturating_sub(is_of_response);
        is_left(before) && round as usize >= decided
    }

    /// Returns whether an event depends on a hook that could not be asked.
    fn is_unknown(&self, round: u32, name: EventName) -> bool {
        let (before, after) = (self.before, self.after);
        let is_unanswered = |compared: ComparedExchange<'_>, run: &RecordedRun| {
            compared.unanswered.contains(&run.name)
        };
        let acted = |run: &RecordedRun| has_output(run) || run.status != "ok";
        let mut old = runs(before.exchange, round, name);
        let mut new = runs(after.exchange, round, name);
        let needs_all = self.limits.needs_all_hooks;
        old.any(|run| {
            acted(run) && is_unanswered(after, run) || needs_all && is_unanswered(before, run)
        }) || new.any(|run| {
            acted(run) && is_unanswered(before, run) || needs_all && is_unanswered(after, run)
        })
    }

    /// Compares what is sent upstream in a round.
    fn request(&mut self, round: u32) -> ControlFlow<()> {
        let (before, after) = (self.before.exchange, self.after.exchange);
        let at = round as usize;
        match (before.rounds.get(at), after.rounds.get(at)) {
            (_, None) => Continue(()),
            (None, Some(_)) => {
                if self.result.changes.is_empty() && before.outcome.error == after.outcome.error {
                    self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
                    return Break(());
                }
                Continue(())
            }
            (Some(old), Some(new)) if same_request(before, old, after, new) => Continue(()),
            (Some(_), Some(_)) => {
                self.add_edit("request", round, &REQUEST);
                self.result.is_stale = true;
                Break(())
            }
        }
    }

    /// Records that content differs.
    fn add_edit(&mut self, part: &str, round: u32, names: &[EventName]) {
        if self.limits.has_diverged {
            self.result.is_stale = true;
            return;
        }
        let (before, after) = (self.before.exchange, self.after.exchange);
        self.result.changes.push(Change {
            kind: DifferenceKind::Edited,
            event: part.to_owned(),
            rule: editing_rule(before, after, round, names).to_owned(),
            tool: String::new(),
            before: String::new(),
            after: String::new(),
        });
    }

    /// Compares how the exchanges ended, and what the agent received.
    fn end(&mut self) {
        let (before, after) = (self.before.exchange, self.after.exchange);
        if !self.result.changes.is_empty() || is_left(before) {
            return;
        }
        let ended = |exchange: &RecordedExchange| {
            let outcome = &exchange.outcome;
            (outcome.error.clone(), outcome.end.clone())
        };
        let is_same_end = ended(before) == ended(after);
        if before.rounds.last().is_some_and(is_cut) && !is_same_end {
            // The answer was refused or broke off, and is read further now.
            self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
            return;
        }
        let (old, new) = (&before.outcome.error, &after.outcome.error);
        if old != new {
            let kind = match (old, new) {
                (None, _) => DifferenceKind::NewlyDenied,
                (_, None) => DifferenceKind::NewlyAllowed,
                (Some(_), Some(_)) => DifferenceKind::Edited,
            };
            let rule = new.as_ref().or(old.as_ref()).cloned().unwrap_or_default();
            self.result.changes.push(Change {
                kind,
                event: "request".to_owned(),
                rule,
                tool: String::new(),
                before: old.clone().unwrap_or_else(|| verdict_or_proceed("")),
                after: new.clone().unwrap_or_else(|| verdict_or_proceed("")),
            });
            return;
        }
        if before.outcome.end != "truncated" && !same_answer(before, after) {
            let last = before.rounds.len().saturating_sub(1);
            let last = u32::try_from(last).unwrap_or(u32::MAX);
            self.add_edit("answer", last, &RESPONSE);
        }
    }
}

/// Returns how a decision differs, if it does.
fn difference(old: &SubjectDecision<'_>, new: &SubjectDecision<'_>) -> Option<DifferenceKind> {
    if new.denials > old.denials {
        return Some(DifferenceKind::NewlyDenied);
    }
    if new.denials < old.denials {
        return Some(DifferenceKind::NewlyAllowed);
    }
    let is_open = |verdict: &str| !is_denial(verdict) && verdict != "respond";
    let both_open = is_open(old.verdict) && is_open(new.verdict);
    let differs = (old.verdict, old.rule) != (new.verdict, new.rule);
    (differs && !both_open).then_some(DifferenceKind::Edited)
}

fn decider<'a>(
    kind: DifferenceKind,
    old: &SubjectDecision<'a>,
    new: &SubjectDecision<'a>,
) -> &'a str {
    match kind {
        DifferenceKind::NewlyAllowed => old.rule,
        DifferenceKind::NewlyDenied => new.rule,
        DifferenceKind::Edited => name_or(new.rule, old.rule),
    }
}

fn verdict_or_proceed(verdict: &str) -> String {
    name_or(verdict, "proceed").to_owned()
}

/// Returns whether the same went upstream. Bytes that are not recorded do not differ.
fn same_request(
    before: &RecordedExchange,
    old: &RecordedRound,
    after: &RecordedExchange,
    new: &RecordedRound,
) -> bool {
    let (bytes, others) = (before.sent_bytes(old), after.sent_bytes(new));
    old.target == new.target && (bytes.is_none() || others.is_none() || bytes == others)
}

/// Returns whether an exchange ended with an error before any rule was asked.
fn is_rejected(exchange: &RecordedExchange) -> bool {
    exchange.outcome.error.is_some() && exchange.events.is_empty() && exchange.rounds.is_empty()
}

/// Returns whether the agent disconnected before the end.
fn is_left(exchange: &RecordedExchange) -> bool {
    let end = exchange.outcome.end.as_str();
    matches!(end, "client_disconnected" | "aborted")
}

/// Returns whether the response of the model API was not read to its end.
fn is_cut(round: &RecordedRound) -> bool {
    let response = round.response.as_ref();
    response.is_none_or(|response| !response.complete)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An exchange of one round with these events, which ended so.
    fn exchange(end: &str, events: &[Value]) -> RecordedExchange {
        let response =
            json!({ "ms": 0, "status": 200, "head": [], "chunks": [], "complete": true });
        let line = json!({
            "v": 1, "id": "i", "time": "T", "revision": "", "caller": "", "dialect": "gemini",
            "operation": "", "method": "POST", "target": "/", "headers": [],
            "request": { "text": "{}" },
            "rounds": [{ "ms": 0, "target": "/", "sent": "same", "response": response }],
            "events": events,
            "outcome": { "action": "pass", "end": end, "ms": 0 },
        });
        serde_json::from_value(line).unwrap()
    }

    fn event(name: &str, round: u32, verdict: &str) -> Value {
        let run = json!({
            "name": "rule", "kind": "builtin", "definition": "", "status": "ok", "ms": 0,
            "action": verdict,
        });
        json!({
            "name": name, "ms": 0, "round": round, "origin": "call", "subject": "rm",
            "hooks": [run], "verdict": verdict,
        })
    }

    fn compared(before: &RecordedExchange, after: &RecordedExchange) -> Comparison {
        let unanswered = BTreeSet::new();
        let [before, after] = [before, after].map(|exchange| ComparedExchange {
            exchange,
            unanswered: &unanswered,
        });
        compare(before, after, ComparisonLimits::default())
    }

    #[test]
    fn decisions_after_the_agent_disconnected_are_unknown() {
        for end in ["client_disconnected", "aborted"] {
            let before = exchange(end, &[]);
            for name in ["AfterModel", "BeforeTool"] {
                let after = exchange("complete", &[event(name, 1, "deny")]);
                let comparison = compared(&before, &after);
                assert_eq!(comparison.kind(), None, "{name}");
                let reason = UnknownReason::AnswerNotRecorded;
                assert_eq!(comparison.unknown, Some(reason), "{name}");
            }
        }
        let (before, after) = (
            exchange("complete", &[]),
            exchange("complete", &[event("BeforeTool", 1, "deny")]),
        );
        let kind = compared(&before, &after).kind();
        assert_eq!(kind, Some(DifferenceKind::NewlyDenied));
    }

    #[test]
    fn a_decision_of_a_hook_that_the_other_config_could_not_ask_is_unknown() {
        let mut denied = event("BeforeTool", 1, "deny");
        denied["hooks"][0]["status"] = "block".into();
        let denied = exchange("complete", &[denied]);
        let unasked = exchange("complete", &[event("BeforeTool", 1, "proceed")]);
        let (none, rule) = (BTreeSet::new(), BTreeSet::from(["rule".to_owned()]));
        let compared = |exchange, unanswered| ComparedExchange {
            exchange,
            unanswered,
        };

        for (before, after) in [
            (compared(&unasked, &rule), compared(&denied, &none)),
            (compared(&denied, &none), compared(&unasked, &rule)),
        ] {
            let comparison = compare(before, after, ComparisonLimits::default());
            assert_eq!(comparison.unknown, Some(UnknownReason::HookNotRecorded));
        }
    }

    #[test]
    fn decisions_before_the_agent_disconnected_are_compared() {
        let tool = |verdict| exchange("client_disconnected", &[event("BeforeTool", 1, verdict)]);
        let kind = compared(&tool("proceed"), &tool("deny")).kind();
        assert_eq!(kind, Some(DifferenceKind::NewlyDenied));
        let kind = compared(&tool("deny"), &tool("proceed")).kind();
        assert_eq!(kind, Some(DifferenceKind::NewlyAllowed));

        // The model was called, so the request had been decided.
        let before = exchange("client_disconnected", &[]);
        let after = exchange("complete", &[event("BeforeAgent", 0, "deny")]);
        let kind = compared(&before, &after).kind();
        assert_eq!(kind, Some(DifferenceKind::NewlyDenied));
    }
}
