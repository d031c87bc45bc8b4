//! Reads events and runs for the trace, and counts them in the statistics of their rules.

use std::sync::Arc;

use crate::{
    event::{Action, EventName, EventOrigin, HookRun, HookStatus, RuleId, SkipReason},
    observe::{
        recorder::{EventDecision, ExchangeEvent, ExchangeSummary},
        trace::{
            record::{
                RecordKind,
                output_fields::OutputFields,
                reason_text::ReasonText,
                traced_event::{RunDetail, RunOutcome, TracedEvent, TracedRun},
            },
            rule::{RunEffect, TracedRule},
            sink::TraceSink,
            store::denials::Denial,
        },
        truncated,
    },
    timestamp::whole_microseconds,
};

/// Bytes of a subject that are kept.
const MAX_SUBJECT_BYTES: usize = 128;

impl TraceSink {
    /// Reads a decided event.
    pub(super) fn read_event(
        &self,
        exchange: &ExchangeSummary,
        decision: &EventDecision<'_>,
    ) -> TracedEvent {
        let runs = decision.runs.iter().map(|run| {
            let detail = self.read_run(decision.event, run, 1);
            self.traced_run(run.rule, RunOutcome::Asked(detail))
        });
        let plan = decision.plan;
        let rules = runs.chain(plan.skipped.iter().map(|skip| self.skipped(*skip)));
        TracedEvent {
            event: decision.event,
            origin: decision.origin.as_str(),
            subject: decision
                .subject
                .map(|subject| truncated(subject, MAX_SUBJECT_BYTES).into()),
            at_us: exchange.micros_at(plan.started),
            ended_us: exchange.micros_now(),
            round: self.round_of(exchange, decision.event),
            sequential: plan.sequential,
            rules: rules.collect(),
            verdict: Some(decision.verdict),
            reason: decision
                .reason()
                .map(|reason| self.event_reason(decision, &reason)),
            chunks: None,
        }
    }

    /// Begins the record of a reported event, which is kept if no decision follows.
    pub(super) fn begin_event(
        &mut self,
        exchange: &ExchangeSummary,
        event: EventName,
        subject: Option<&str>,
    ) {
        let now_us = exchange.micros_now();
        self.event = Some(event);
        self.undecided = Some(Box::new(TracedEvent {
            event,
            origin: EventOrigin::Reported.as_str(),
            subject: subject.map(|subject| truncated(subject, MAX_SUBJECT_BYTES).into()),
            at_us: now_us,
            ended_us: now_us,
            round: 0,
            sequential: false,
            rules: Vec::new(),
            verdict: None,
            reason: None,
            chunks: None,
        }));
    }

    /// Adds a run to the reported event.
    pub(super) fn add_run(&mut self, event: EventName, run: &HookRun) {
        if let Some(mut undecided) = self.undecided.take() {
            let detail = self.read_run(event, run, 1);
            let traced = self.traced_run(run.rule, RunOutcome::Asked(detail));
            undecided.rules.push(traced);
            self.undecided = Some(undecided);
        }
    }

    /// Adds the reported event if it was not decided. Returns whether it was not.
    pub(super) fn add_undecided(&mut self, exchange: &ExchangeSummary) -> bool {
        let Some(mut event) = self.undecided.take() else {
            return false;
        };
        event.ended_us = exchange.micros_now();
        if let Some(call) = self.call(event.bytes()) {
            call.add_event(*event);
        }
        true
    }

    /// Records the plan of an event that no decision follows: nothing runs, or the chunks of a
    /// response follow.
    pub(super) fn record_plan(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let ExchangeEvent::Planned {
            event,
            plan,
            asked,
            is_skipped,
        } = event
        else {
            return;
        };
        let is_call = self.kind == RecordKind::Call && event.is_model_call();
        let is_whole = *is_skipped || is_call && asked.is_empty();
        let has_chunks = is_call && *event == EventName::AfterModel;
        if !(is_whole || has_chunks) {
            return;
        }
        let asked_runs = asked.iter().map(|asked| {
            let outcome = if *is_skipped {
                RunOutcome::NotAsked(SkipReason::DryRun)
            } else {
                RunOutcome::Asked(RunDetail::default())
            };
            self.traced_run(asked.rule, outcome)
        });
        self.count_skipped(plan.skipped);
        let skipped = plan.skipped.iter().map(|skip| self.skipped(*skip));
        let at_us = exchange.micros_at(plan.started);
        let traced = TracedEvent {
            event: *event,
            origin: EventOrigin::ModelCall.as_str(),
            subject: None,
            at_us,
            ended_us: at_us,
            round: self.round_of(exchange, *event),
            sequential: plan.sequential,
            rules: asked_runs.chain(skipped).collect(),
            verdict: (!is_skipped).then_some(Action::Proceed),
            reason: None,
            chunks: None,
        };
        let Some(call) = self.call(traced.bytes()) else {
            return;
        };
        if traced.rules.is_empty() {
            return;
        }
        if has_chunks && !is_skipped {
            call.plan_answer(traced);
        } else {
            call.add_event(traced);
        }
    }

    /// Reads equal runs of a rule.
    pub(super) fn read_run(&self, event: EventName, run: &HookRun, times: u64) -> RunDetail {
        let output = &run.result.output;
        let reason = run.action.reason_in(output);
        let reason = reason.or_else(|| output.reason.clone());
        let diagnostics = run.result.diagnostics.iter();
        RunDetail {
            status: run.status(),
            duration_us: whole_microseconds(run.elapsed),
            runs: times,
            action: run.action,
            would: run.would_on_calls(),
            reason: reason.map(|reason| self.reason(event, Some(run), &reason)),
            fields: OutputFields::of(output),
            edited: run.edited,
            refused_calls: u32::try_from(run.refused.len()).unwrap_or(u32::MAX),
            diagnostics: diagnostics
                .map(|diagnostic| diagnostic.code.as_str())
                .collect(),
        }
    }

    /// Returns the reason of an event, as the rule that gave it has it.
    pub(super) fn event_reason(&self, decision: &EventDecision<'_>, reason: &str) -> ReasonText {
        let gave = |run: &&HookRun| {
            let output = &run.result.output;
            let texts = [&output.reason, &output.stop_reason];
            texts.into_iter().flatten().any(|text| text == reason)
        };
        let run = decision.runs.iter().find(gave);
        self.reason(decision.event, run, reason)
    }

    /// Counts a run, and the calls that a policy removed.
    pub(super) fn count_run(&self, exchange: &ExchangeSummary, event: EventName, run: &HookRun) {
        let Some(rule) = self.rule(run.rule) else {
            return;
        };
        let has_effect = run.action != Action::Proceed
            || run.edited
            || !run.refused.is_empty()
            || OutputFields::of(&run.result.output).has_edit();
        let effect = match (has_effect, run.would) {
            (false, _) => RunEffect::None,
            (true, None) => RunEffect::Acted,
            (true, Some(_)) => RunEffect::WouldHave,
        };
        let is_failed = run.status() == HookStatus::Failed;
        rule.record_runs(1, effect, is_failed, run.elapsed);
        for call in run.refused.iter().filter(|_| run.is_enforced()) {
            let reason = self.reason(event, Some(run), &call.reason);
            self.store.add_denial(Denial {
                rule: &rule.identity.name,
                at: Some(&rule.identity.at),
                event: EventName::BeforeTool,
                action: Action::Deny,
                reason: Some(&reason),
                tool: Some(&call.tool),
                caller: exchange.caller.label(),
                request: &exchange.request_id,
            });
        }
    }

    /// Counts runs without effect, whose durations are known in sum.
    pub(super) fn count_equal_runs(&self, run: &HookRun, times: u64) {
        if let Some(rule) = self.rule(run.rule) {
            rule.record_runs(times, RunEffect::None, false, run.elapsed);
        }
    }

    /// Adds each denial of an enforcing rule to the table of denials.
    pub(super) fn record_denials(&self, exchange: &ExchangeSummary, decision: &EventDecision<'_>) {
        let denies = |run: &&HookRun| {
            matches!(run.action, Action::Ask | Action::Deny | Action::Stop) && run.is_enforced()
        };
        let is_tool = matches!(decision.event, EventName::BeforeTool | EventName::AfterTool);
        for run in decision.runs.iter().filter(denies) {
            let Some(rule) = self.rule(run.rule) else {
                continue;
            };
            let detail = self.read_run(decision.event, run, 1);
            self.store.add_denial(Denial {
                rule: &rule.identity.name,
                at: Some(&rule.identity.at),
                event: decision.event,
                action: run.action,
                reason: detail.reason.as_ref(),
                tool: decision.subject.filter(|_| is_tool),
                caller: exchange.caller.label(),
                request: &exchange.request_id,
            });
        }
    }

    /// Keeps the reason that a run gave. Reasons of policies come from the config, but for those
    /// that replace a tool's result; reasons of hooks may be about content, but for those that
    /// hookgate gives when a hook fails.
    fn reason(&self, event: EventName, run: Option<&HookRun>, reason: &str) -> ReasonText {
        let is_policy = run.is_some_and(|run| self.is_policy(run.rule));
        let is_failure = run.is_some_and(|run| run.result.is_failure_reason(&run.name, reason));
        if is_failure || is_policy && event != EventName::AfterTool {
            ReasonText::with_text(reason)
        } else if self.settings.reasons {
            ReasonText::with_content(reason, &self.store.contents.masked_text(reason))
        } else {
            ReasonText::digest(reason)
        }
    }

    /// Returns whether a rule is a policy, not a hook.
    pub(super) fn is_policy(&self, rule: RuleId) -> bool {
        let rule = self.rule(rule);
        rule.is_some_and(|rule| rule.identity.policy.is_some())
    }

    fn rule(&self, rule: RuleId) -> Option<&Arc<TracedRule>> {
        let index = usize::try_from(rule.0).ok()?;
        self.rules.get(index)?.as_ref()
    }

    fn skipped(&self, (rule, reason): (RuleId, SkipReason)) -> TracedRun {
        self.traced_run(rule, RunOutcome::NotAsked(reason))
    }

    fn traced_run(&self, id: RuleId, outcome: RunOutcome) -> TracedRun {
        TracedRun {
            id,
            rule: self.rule(id).cloned(),
            outcome,
        }
    }

    pub(super) fn count_skipped(&self, skipped: &[(RuleId, SkipReason)]) {
        for (rule, _) in skipped {
            if let Some(rule) = self.rule(*rule) {
                rule.record_skip();
            }
        }
    }
}
