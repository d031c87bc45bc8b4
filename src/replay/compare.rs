//! Comparison of two exchanges: one before a change of the config, and one after it. Pure.
//!
//! A comparison ends at the first decision that changes what follows: a call that is denied now
//! has no recorded continuation, and a model that receives another request would have given
//! another answer.

use std::{
    collections::BTreeSet,
    ops::ControlFlow::{self, Break, Continue},
};

use super::{
    answer_channels::{same_answer, same_beginning},
    comparison::{
        Change, ComparedExchange, Comparison, ComparisonLimits, DifferenceKind, UnknownReason,
    },
    decisions::{
        self, REQUEST, RESPONSE, denying_rule, editing_rule, has_output, is_denial, is_one_of,
        round_of, verdict_or_proceed,
    },
    redaction::has_hashes,
};
use crate::{
    config::BUILTIN,
    event::EventName,
    recording::{RecordedEvent, RecordedExchange, RecordedRound, RecordedRun},
};

/// Compares an exchange before a change of the config with the same one after it.
pub fn compare(
    before: ComparedExchange<'_>,
    after: ComparedExchange<'_>,
    limits: ComparisonLimits<'_>,
) -> Comparison {
    let mut comparer = Comparer {
        before,
        after,
        limits,
        result: Comparison::default(),
    };
    let _complete = comparer.run();
    let mut result = comparer.result;
    let Some(caveat) = limits.caveat else {
        return result;
    };
    if result.changes.is_empty() && !result.is_stale {
        let is_masked = !before.exchange.masked.is_empty();
        if is_masked && has_other_policies(before.exchange, after.exchange, limits.name_rules) {
            result.unknown.get_or_insert(UnknownReason::Masked);
        }
        return result;
    }
    result.changes.retain(|change| {
        let is_certain = limits.name_rules.contains(&change.rule);
        is_certain && change.kind == DifferenceKind::NewlyDenied
    });
    if result.changes.is_empty() {
        return Comparison::unknown(caveat);
    }
    result
}

/// Returns whether a policy that needs more than names ran after the change, and did not run with
/// the same settings before. Recordings have no runs on chunks without effect, so those on
/// `AfterModel` do not count.
fn has_other_policies(
    before: &RecordedExchange,
    after: &RecordedExchange,
    name_rules: &BTreeSet<String>,
) -> bool {
    let old = before.events.iter().flat_map(|event| &event.hooks);
    let definitions: BTreeSet<&str> = old.map(|run| run.definition.as_str()).collect();
    let events = after.events.iter();
    let events = events.filter(|event| event.name != EventName::AfterModel.as_str());
    let runs = events.flat_map(|event| &event.hooks);
    let mut policies = runs.filter(|run| run.kind == BUILTIN && !name_rules.contains(&run.name));
    policies.any(|run| !definitions.contains(run.definition.as_str()))
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

fn is_unanswered(compared: ComparedExchange<'_>, run: &RecordedRun) -> bool {
    compared.unanswered.contains(&run.name)
}

/// Returns whether a hook has no answered run among those of the other exchange on the event, but
/// another hook could not run there, which may be the same one with another definition.
fn is_replaced<'a>(
    run: &RecordedRun,
    other: ComparedExchange<'_>,
    others: impl Iterator<Item = &'a RecordedRun>,
) -> bool {
    if run.kind == BUILTIN || other.unanswered.is_empty() {
        return false;
    }
    let (unanswered, mut answered): (Vec<_>, Vec<_>) =
        others.partition(|known| is_unanswered(other, known));
    answered.retain(|known| known.definition == run.definition);
    !unanswered.is_empty() && answered.is_empty()
}

struct Comparer<'a> {
    before: ComparedExchange<'a>,
    after: ComparedExchange<'a>,
    limits: ComparisonLimits<'a>,
    result: Comparison,
}

impl Comparer<'_> {
    /// Compares the exchanges in the order of their stages. Breaks if what follows a stage cannot
    /// be compared.
    fn run(&mut self) -> ControlFlow<()> {
        let (before, after) = (self.before.exchange, self.after.exchange);
        if !is_rejected(before) && is_rejected(after) {
            // Also if the agent disconnected, or the model API failed.
            self.result.changes.extend(self.error_change());
        } else if !is_rejected(before) {
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
        let subjects: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let mut rest = Continue(());
        for subject in subjects {
            let old = old.get(subject).copied().unwrap_or_default();
            let new = new.get(subject).copied().unwrap_or_default();
            let Some(kind) = old.difference(new) else {
                continue;
            };
            if kind == DifferenceKind::NewlyAllowed
                && config_error(self.after.exchange).is_some()
                && let Some(change) = self.error_change()
            {
                // The call failed before the decision.
                self.result.changes.push(change);
                return Break(());
            }
            let is_undecided = name == EventName::AfterModel || old.count < new.count;
            if kind != DifferenceKind::NewlyAllowed && is_undecided && self.is_left(round, name) {
                self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
                return Break(());
            }
            let change = old.change_to(new, kind, name, subject);
            self.result.changes.push(change);
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

    /// Returns whether an event depends on a hook that could not run.
    fn is_unknown(&self, round: u32, name: EventName) -> bool {
        let acted = |run: &RecordedRun| has_output(run) || run.status != "ok";
        let needs_all = self.limits.needs_all_hooks;
        let depends = |compared: ComparedExchange<'_>, other: ComparedExchange<'_>| {
            let mut ran = runs(compared.exchange, round, name);
            ran.any(|run| {
                let others = || runs(other.exchange, round, name);
                let lacks_answer =
                    || is_unanswered(other, run) || is_replaced(run, other, others());
                acted(run) && lacks_answer() || needs_all && is_unanswered(compared, run)
            })
        };
        depends(self.before, self.after) || depends(self.after, self.before)
    }

    /// Compares what is sent upstream in a round.
    fn request(&mut self, round: u32) -> ControlFlow<()> {
        let (before, after) = (self.before.exchange, self.after.exchange);
        let at = round as usize;
        match (before.rounds.get(at), after.rounds.get(at)) {
            (_, None) => Continue(()),
            (None, Some(_)) => {
                if self.result.changes.is_empty() && config_error(before).is_none() {
                    self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
                    return Break(());
                }
                Continue(())
            }
            (Some(old), Some(new)) if same_request(before, old, after, new) => Continue(()),
            (Some(_), Some(_)) => {
                self.refused_tools(round);
                self.add_edit("request", |event| {
                    round_of(event) == round && is_one_of(event, &REQUEST)
                });
                self.result.is_stale = true;
                Break(())
            }
        }
    }

    /// Records the tools that the recorded answer calls, and that are refused now. A tool that a
    /// policy denies is also removed from those that the request declares, so the requests differ.
    fn refused_tools(&mut self, round: u32) {
        let (name, kind) = (EventName::BeforeTool, DifferenceKind::NewlyDenied);
        let is_open = |stage| self.is_left(round, stage) || self.is_unknown(round, stage);
        if is_open(EventName::AfterModel) || is_open(name) {
            return;
        }
        let old = decisions::at(self.before.exchange, round, name);
        for (tool, new) in decisions::at(self.after.exchange, round, name) {
            let old = old.get(tool).copied().unwrap_or_default();
            if old.difference(new) == Some(kind) {
                let change = old.change_to(new, kind, name, tool);
                self.result.changes.push(change);
            }
        }
    }

    /// Records that content differs, which the decisions of some events cause.
    fn add_edit(&mut self, part: &str, is_cause: impl Fn(&RecordedEvent) -> bool) {
        if self.limits.has_diverged {
            self.result.is_stale = true;
            return;
        }
        let (before, after) = (self.before.exchange, self.after.exchange);
        if self.has_other_hashes() {
            self.result.unknown = Some(UnknownReason::HashKeyUnknown);
            return;
        }
        self.result.changes.push(Change {
            kind: DifferenceKind::Edited,
            event: part.to_owned(),
            rule: editing_rule(before, after, is_cause).to_owned(),
            tool: String::new(),
            before: String::new(),
            after: String::new(),
        });
    }

    /// Returns whether there are hashes before and after, with different keys.
    fn has_other_hashes(&self) -> bool {
        let events = self.after.exchange.events.iter();
        let mut runs = events.flat_map(|event| &event.hooks);
        runs.any(|run| run.edited && self.limits.other_hash_keys.contains(&run.name))
            && has_hashes(self.before.exchange)
    }

    /// Compares how the exchanges ended, and what the agent received.
    fn end(&mut self) {
        let (before, after) = (self.before.exchange, self.after.exchange);
        if !self.result.changes.is_empty() {
            return;
        }
        let (old, new) = (&before.outcome, &after.outcome);
        let is_same_end = (&old.error, &old.end) == (&new.error, &new.end);
        if !is_left(before) && before.rounds.last().is_some_and(is_cut) && !is_same_end {
            // The answer was refused or broke off, and is read further now.
            self.result.unknown = Some(UnknownReason::AnswerNotRecorded);
            return;
        }
        if !is_left(before)
            && let Some(change) = self.error_change()
        {
            self.result.changes.push(change);
            return;
        }
        let is_same = if is_left(before) || old.end == "truncated" {
            same_beginning
        } else {
            same_answer
        };
        if !is_same(before, after) {
            let last = before.rounds.len().saturating_sub(1);
            let last = u32::try_from(last).unwrap_or(u32::MAX);
            self.add_edit("answer", |event| round_of(event) >= last);
        }
    }

    /// Returns the difference of the errors, if there is one.
    fn error_change(&self) -> Option<Change> {
        let old = config_error(self.before.exchange);
        let new = config_error(self.after.exchange);
        let action = self.after.exchange.outcome.action.as_str();
        let denial = Some(action).filter(|action| is_denial(action));
        let kind = match (old, new) {
            (old, new) if old == new => return None,
            (None, _) => DifferenceKind::NewlyDenied,
            (_, None) if denial.is_none() => DifferenceKind::NewlyAllowed,
            (Some(_), _) => DifferenceKind::Edited,
        };
        let denying = denial.and_then(|_| denying_rule(self.after.exchange));
        Some(Change {
            kind,
            event: "request".to_owned(),
            rule: new.or(denying).or(old).unwrap_or_default().to_owned(),
            tool: String::new(),
            before: verdict_or_proceed(old.unwrap_or_default()),
            after: verdict_or_proceed(new.or(denial).unwrap_or_default()),
        })
    }
}

/// Returns whether the same went upstream. Bytes that are not recorded do not differ.
fn same_request(
    before: &RecordedExchange,
    old: &RecordedRound,
    after: &RecordedExchange,
    new: &RecordedRound,
) -> bool {
    let (bytes, others) = (before.sent_bytes(old), after.sent_bytes(new));
    target(old).eq(target(new)) && (bytes.is_none() || others.is_none() || bytes == others)
}

/// Returns the path and the parameters of a target. The framing of a stream is left out: it depends
/// on the time that hooks take.
fn target(round: &RecordedRound) -> impl Iterator<Item = &str> {
    let parts = round.target.split(['?', '&']);
    parts.filter(|part| !part.starts_with("alt="))
}

/// Returns the error of an exchange; `None` also if the model API, or the recording, has no answer
/// to its last request.
fn config_error(exchange: &RecordedExchange) -> Option<&str> {
    let last = exchange.rounds.last();
    let is_answered = last.is_none_or(|round| round.response.is_some());
    exchange.outcome.error.as_deref().filter(|_| is_answered)
}

/// Returns whether an exchange ended with an error before any rule ran.
fn is_rejected(exchange: &RecordedExchange) -> bool {
    exchange.outcome.error.is_some() && exchange.events.is_empty() && exchange.rounds.is_empty()
}

/// Returns whether the agent disconnected before the end.
pub(super) fn is_left(exchange: &RecordedExchange) -> bool {
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
    use crate::recording::RecordedBody;

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
        compare(before, after, limits(&unanswered))
    }

    fn limits(other_hash_keys: &BTreeSet<String>) -> ComparisonLimits<'_> {
        ComparisonLimits {
            caveat: None,
            name_rules: other_hash_keys,
            has_diverged: false,
            needs_all_hooks: false,
            other_hash_keys,
        }
    }

    #[test]
    fn a_call_that_fails_before_a_denial_is_newly_denied() {
        let before = exchange("complete", &[event("BeforeTool", 1, "deny")]);
        let mut after = exchange("truncated", &[]);
        after.outcome.error = Some("BODY_TOO_LARGE".to_owned());

        let comparison = compared(&before, &after);

        assert_eq!(comparison.kind(), Some(DifferenceKind::NewlyDenied));
        assert_eq!(comparison.changes.len(), 1);
        assert_eq!(comparison.changes[0].rule, "BODY_TOO_LARGE");
    }

    #[test]
    fn the_setting_ask_decides_whether_a_tool_call_is_denied() {
        let asked = [event("BeforeTool", 1, "ask")];
        let (allowed, mut denied) = (exchange("complete", &asked), exchange("complete", &asked));
        denied.outcome.tool_denied = true;
        // The denial makes another request, to which there is no recorded answer.
        let mut unanswered = denied.rounds[0].clone();
        unanswered.response = None;
        let recorded = denied.clone();
        denied.rounds.push(unanswered);
        denied.outcome.error = Some("UPSTREAM_UNREACHABLE".to_owned());

        let newly_denied = compared(&allowed, &denied);
        let newly_allowed = compared(&recorded, &allowed);

        assert_eq!(newly_denied.kind(), Some(DifferenceKind::NewlyDenied));
        assert_eq!(newly_denied.changes[0].rule, "rule");
        assert_eq!(newly_allowed.kind(), Some(DifferenceKind::NewlyAllowed));
        assert_eq!(newly_allowed.changes[0].rule, "rule");
        assert_eq!(compared(&allowed, &allowed).result(), "unchanged");
    }

    #[test]
    fn an_answer_that_is_not_recorded_is_no_error_of_the_config() {
        let before = exchange("complete", &[]);
        let mut after = before.clone();
        let mut unanswered = after.rounds[0].clone();
        unanswered.response = None;
        after.rounds.push(unanswered);
        after.outcome.error = Some("UPSTREAM_UNREACHABLE".to_owned());

        let comparison = compared(&before, &after);

        let reason = UnknownReason::AnswerNotRecorded;
        assert_eq!(
            (comparison.kind(), comparison.unknown),
            (None, Some(reason))
        );
    }

    #[test]
    fn an_edit_is_of_the_rule_whose_effect_or_definition_differs() {
        let edit = |definition: &str| {
            let mut edited = event("BeforeModel", 0, "proceed");
            let mut other = edited["hooks"][0].clone();
            edited["hooks"][0]["edited"] = true.into();
            edited["hooks"][0]["definition"] = definition.into();
            (other["name"], other["edited"]) = ("limits".into(), true.into());
            edited["hooks"].as_array_mut().unwrap().push(other);
            exchange("complete", &[edited])
        };
        let (mut before, mut after) = (edit("a"), edit("b"));
        after.rounds[0].sent = RecordedBody::Text("{ }".to_owned());
        let mut same = edit("a");
        same.rounds[0].sent = RecordedBody::Text("{ }".to_owned());

        assert_eq!(compared(&before, &after).changes[0].rule, "rule");
        assert_eq!(compared(&before, &same).changes[0].rule, "");
        let keys = BTreeSet::from(["rule".to_owned()]);
        let label = "[REDACTED:aws_key:0123456789ab]";
        before.rounds[0].sent = RecordedBody::Text(label.to_owned());
        let none = BTreeSet::new();
        let [before, after] = [&before, &after].map(|exchange| ComparedExchange {
            exchange,
            unanswered: &none,
        });
        let comparison = compare(before, after, limits(&keys));
        assert_eq!(comparison.unknown, Some(UnknownReason::HashKeyUnknown));
        assert_eq!(comparison.kind(), None);
    }

    #[test]
    fn an_edit_in_a_session_that_went_otherwise_is_stale_and_not_unchanged() {
        let before = exchange("complete", &[]);
        let mut after = before.clone();
        after.rounds[0].sent = RecordedBody::Text("{ }".to_owned());
        let none = BTreeSet::new();
        let [before, after] = [&before, &after].map(|exchange| ComparedExchange {
            exchange,
            unanswered: &none,
        });
        let diverged = ComparisonLimits {
            has_diverged: true,
            ..limits(&none)
        };

        assert_eq!(compare(before, after, diverged).result(), "stale");
    }

    #[test]
    fn a_tool_that_is_called_and_declared_no_more_is_newly_denied() {
        let called = |verdict, status: &str| {
            let mut event = event("BeforeTool", 1, verdict);
            event["hooks"][0]["status"] = status.into();
            exchange("complete", &[event])
        };
        let before = called("proceed", "ok");
        let (mut after, mut allowed) = (called("deny", "block"), before.clone());
        for other in [&mut after, &mut allowed] {
            other.rounds[0].sent = RecordedBody::Text("{ }".to_owned());
        }
        let (none, rule) = (BTreeSet::new(), BTreeSet::from(["rule".to_owned()]));
        let compared = |exchange, unanswered| ComparedExchange {
            exchange,
            unanswered,
        };
        let (old, new) = (compared(&before, &none), compared(&after, &none));

        for has_diverged in [false, true] {
            let limits = ComparisonLimits {
                has_diverged,
                ..limits(&none)
            };
            let comparison = compare(old, new, limits);
            assert_eq!(comparison.kind(), Some(DifferenceKind::NewlyDenied));
            assert_eq!(comparison.changes[0].tool, "rm");
            let comparison = compare(old, compared(&allowed, &none), limits);
            let result = if has_diverged { "stale" } else { "edited" };
            assert_eq!(comparison.result(), result);
        }
        // A hook that could not run may have denied the call before.
        let comparison = compare(compared(&before, &rule), new, limits(&none));
        assert_eq!(comparison.result(), "edited");
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
            let comparison = compare(before, after, limits(&none));
            assert_eq!(comparison.unknown, Some(UnknownReason::HookNotRecorded));
        }
    }

    #[test]
    fn a_decision_of_a_hook_whose_definition_has_changed_is_unknown() {
        let run = |name: &str, definition: &str, status: &str, verdict: &str| {
            let mut event = event("BeforeTool", 1, verdict);
            let hook = &mut event["hooks"][0];
            (hook["name"], hook["kind"]) = (name.into(), "command".into());
            (hook["definition"], hook["status"]) = (definition.into(), status.into());
            event
        };
        let denied = run("deny.sh", "a", "block", "deny");
        let unanswered = run("deny.sh --strict", "b", "ok", "proceed");
        let mut both = run("renamed", "a", "block", "deny");
        let others = unanswered["hooks"].as_array().unwrap().clone();
        both["hooks"].as_array_mut().unwrap().extend(others);
        let [denied, unanswered, both] =
            [denied, unanswered, both].map(|event| exchange("complete", &[event]));
        let (none, strict) = (
            BTreeSet::new(),
            BTreeSet::from(["deny.sh --strict".to_owned()]),
        );
        let compared = |exchange, unanswered| ComparedExchange {
            exchange,
            unanswered,
        };
        let (old, new) = (compared(&denied, &none), compared(&unanswered, &strict));

        for (before, after) in [(old, new), (new, old)] {
            let comparison = compare(before, after, limits(&none));
            assert_eq!(comparison.unknown, Some(UnknownReason::HookNotRecorded));
        }
        let comparison = compare(old, compared(&both, &strict), limits(&none));
        assert_eq!(comparison.unknown, None);
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
