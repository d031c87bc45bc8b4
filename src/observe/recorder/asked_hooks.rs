//! Hooks that a request waits for.

use std::time::Instant;

use serde::Serialize;
use utoipa::ToSchema;

use super::event::{EventDecision, PlannedRule};
use crate::{
    config::BUILTIN,
    event::{EventName, RuleId},
    timestamp::whole_microseconds,
};

/// Hooks of the events of a request, and since when it waits for each. Policies are not listed:
/// they answer at once.
///
/// Nothing is allocated for a request without hooks.
#[derive(Debug, Default)]
pub struct AskedHooks(Vec<AskedHook>);

#[derive(Debug)]
struct AskedHook {
    event: EventName,
    rule: RuleId,
    name: String,
    /// Time since which the request waits; `None` if the hook has answered or is not called.
    since: Option<Instant>,
}

/// Hooks that a call in flight waits for.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InFlightHooks {
    /// Name of the event.
    pub event: &'static str,
    /// Names of the hooks that have not answered yet.
    pub hooks: Vec<String>,
    /// Time for which the call has waited for them, in microseconds.
    pub elapsed_us: u32,
}

impl AskedHooks {
    /// Returns the event whose hooks have not answered, if there is one.
    pub fn pending(&self) -> Option<InFlightHooks> {
        let mut hooks = self.0.iter().filter_map(|hook| Some((hook, hook.since?)));
        // Events of tools are fired while a chunk is decided.
        let (last, since) = hooks.next_back()?;
        let hooks = self.0.iter();
        let hooks = hooks.filter(|hook| hook.event == last.event && hook.since.is_some());
        Some(InFlightHooks {
            event: last.event.as_str(),
            hooks: hooks.map(|hook| hook.name.clone()).collect(),
            elapsed_us: whole_microseconds(since.elapsed()),
        })
    }

    /// Adds the hooks of an event, in the place of those of the same plan. Those of chunks stay,
    /// because their event is planned once, and those of an event that is fired at the same time.
    pub(super) fn add(&mut self, event: EventName, since: Instant, asked: &[PlannedRule<'_>]) {
        self.0.retain(|hook| match hook.event {
            EventName::AfterModel => event != EventName::AfterModel,
            _ => hook.since.is_some() && (hook.event, hook.since) != (event, Some(since)),
        });
        let hooks = asked.iter().filter(|asked| asked.kind != BUILTIN);
        let since = (event != EventName::AfterModel).then_some(since);
        self.0.extend(hooks.map(|asked| AskedHook {
            event,
            rule: asked.rule,
            name: asked.name.to_owned(),
            since,
        }));
    }

    /// Marks a hook as answered.
    pub(super) fn finish(&mut self, event: EventName, rule: RuleId) {
        let mut hooks = self.0.iter_mut();
        let asked = |hook: &&mut AskedHook| {
            hook.event == event && hook.rule == rule && hook.since.is_some()
        };
        if let Some(hook) = hooks.find(asked) {
            hook.since = None;
        }
    }

    /// Removes hooks of a decided event that were not called, because edits of hooks before them
    /// ended their condition.
    pub(super) fn end(&mut self, decision: &EventDecision<'_>) {
        let is_skipped = |hook: &AskedHook| {
            let mut skipped = decision.plan.skipped.iter();
            hook.event == decision.event
                && hook.since == Some(decision.plan.started)
                && skipped.any(|(rule, _)| *rule == hook.rule)
        };
        for hook in self.0.iter_mut().filter(|hook| is_skipped(hook)) {
            hook.since = None;
        }
    }

    /// Marks the hooks of chunks as asked.
    pub(super) fn ask_about_chunk(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let now = Instant::now();
        let hooks = self.0.iter_mut();
        for hook in hooks.filter(|hook| hook.event == EventName::AfterModel) {
            hook.since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        event::{Action, EventOrigin, HookOutput, SkipReason},
        observe::recorder::PlanSummary,
    };

    const TOOL: EventName = EventName::BeforeTool;
    const CHUNK: EventName = EventName::AfterModel;

    fn asked<'a>(names: &'a [&'a str]) -> Vec<PlannedRule<'a>> {
        let rules = (0..).map(RuleId).zip(names);
        let planned = rules.map(|(rule, name)| PlannedRule {
            rule,
            name,
            kind: if *name == "policy" {
                BUILTIN
            } else {
                "command"
            },
        });
        planned.collect()
    }

    fn names(hooks: &AskedHooks) -> Vec<String> {
        let pending = hooks.pending();
        pending.map(|pending| pending.hooks).unwrap_or_default()
    }

    fn end(hooks: &mut AskedHooks, started: Instant) {
        let skipped = [RuleId(2), RuleId(3)].map(|rule| (rule, SkipReason::Condition));
        hooks.end(&EventDecision {
            event: TOOL,
            origin: EventOrigin::Derived,
            subject: None,
            input: None,
            plan: PlanSummary {
                started,
                sequential: false,
                skipped: &skipped,
            },
            runs: &[],
            verdict: Action::Proceed,
            output: &HookOutput::default(),
            diagnostics: &[],
        });
    }

    #[test]
    fn hooks_are_pending_until_they_answer_or_are_skipped_and_policies_never() {
        let (mut hooks, started) = (AskedHooks::default(), Instant::now());

        hooks.add(TOOL, started, &asked(&["policy", "a", "b", "c"]));
        assert_eq!(names(&hooks), ["a", "b", "c"]);
        hooks.finish(TOOL, RuleId(1));
        assert_eq!(names(&hooks), ["b", "c"]);
        end(&mut hooks, started);

        assert_eq!(hooks.pending(), None);
    }

    #[test]
    fn a_hook_of_one_of_two_equal_events_stays_pending() {
        let (mut hooks, started) = (AskedHooks::default(), Instant::now());
        let later = started + Duration::from_nanos(1);

        hooks.add(TOOL, started, &asked(&["a"]));
        hooks.add(TOOL, later, &asked(&["a"]));
        hooks.finish(TOOL, RuleId(0));
        end(&mut hooks, started);
        assert_eq!(names(&hooks), ["a"]);
        hooks.finish(TOOL, RuleId(0));

        assert_eq!(hooks.pending(), None);
    }

    #[test]
    fn hooks_that_are_selected_anew_take_the_place_of_those_before() {
        let (mut hooks, started) = (AskedHooks::default(), Instant::now());

        hooks.add(TOOL, started, &asked(&["a"]));
        hooks.add(TOOL, started, &asked(&["b"]));

        assert_eq!(names(&hooks), ["b"]);
    }

    #[test]
    fn hooks_of_chunks_are_pending_with_each_chunk_also_after_a_tool_call() {
        let (mut hooks, started) = (AskedHooks::default(), Instant::now());

        hooks.add(CHUNK, started, &asked(&["chunk"]));
        assert_eq!(hooks.pending(), None);
        hooks.ask_about_chunk();
        assert_eq!(names(&hooks), ["chunk"]);
        hooks.finish(CHUNK, RuleId(0));
        hooks.add(TOOL, started, &asked(&["tool"]));
        assert_eq!(names(&hooks), ["tool"]);
        hooks.finish(TOOL, RuleId(0));
        hooks.ask_about_chunk();

        assert_eq!(names(&hooks), ["chunk"]);
    }
}
