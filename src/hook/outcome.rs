//! Results: of one policy or hook, and of an event as a whole.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::{
    config::HookMode,
    event::{
        Action, Diagnostic, EventKind, EventName, EventOrigin, HookOutput, HookResult, HookRun,
        RuleId, merge_outputs,
    },
    observe::recorder::{EventDecision, ExchangeEvent, PlanSummary, Recorder},
};

/// A run that ends now.
pub(super) fn hook_run<E: EventKind>(
    rule: RuleId,
    name: &str,
    mode: HookMode,
    result: HookResult,
    elapsed: Duration,
) -> HookRun {
    let (output, _) = merge_outputs([&result.output], E::HONOURS);
    let action = E::action(&output);
    let would = match mode {
        HookMode::Enforce => None,
        HookMode::Observe => Some(action),
    };
    HookRun {
        rule,
        name: name.to_owned(),
        result,
        elapsed,
        ended: SystemTime::now(),
        action,
        would,
        edited: false,
        refused: Vec::new(),
        input: Bytes::new(),
    }
}

/// Result of all policies and hooks on one event.
#[derive(Debug)]
pub struct EventOutcome<V> {
    /// Verdict on the event.
    pub verdict: V,
    /// Merged output of all enforcing runs.
    pub output: HookOutput,
    /// Runs of policies and hooks, in order.
    pub runs: Vec<HookRun>,
    /// Diagnostics of the merge.
    pub diagnostics: Vec<Diagnostic>,
}

impl<V> EventOutcome<V> {
    /// Turns the denial of an answer into the end of the agent's turn if a hook has failed: another
    /// answer would not repair it.
    pub(super) fn stop_failed_turn<E: EventKind<Verdict = V>>(&mut self) {
        if E::NAME == EventName::AfterAgent
            && self.runs.iter().any(HookRun::fails_closed)
            && let Some(denial) = self.output.deny()
        {
            let reason = self.output.stop().unwrap_or(denial);
            self.output.decision = None;
            self.output.reason = None;
            self.output.r#continue = Some(false);
            self.output.stop_reason = Some(reason.as_str().to_owned());
            self.verdict = E::evaluate(&self.output);
        }
    }
}

/// Returns the outcome of an event as sinks of the recorder receive it.
pub(super) fn decision<'a, E: EventKind>(
    outcome: &'a EventOutcome<E::Verdict>,
    origin: EventOrigin,
    plan: PlanSummary<'a>,
) -> EventDecision<'a> {
    EventDecision {
        event: E::NAME,
        origin,
        subject: None,
        input: None,
        plan,
        runs: &outcome.runs,
        verdict: E::action(&outcome.output),
        output: &outcome.output,
        diagnostics: &outcome.diagnostics,
    }
}

/// Merges all runs on one event of a model call, or one chunk of its response, and records the
/// decision.
pub fn conclude<E: EventKind>(
    recorder: &Recorder,
    plan: PlanSummary<'_>,
    runs: Vec<HookRun>,
) -> E::Verdict {
    record::<E>(recorder, plan, merge::<E>(runs))
}

/// Concludes an event like [`conclude`], with the runs of the second pass apart. If these deny, the
/// denial has their reasons only.
pub fn conclude_passes<E: EventKind>(
    recorder: &Recorder,
    plan: PlanSummary<'_>,
    mut runs: Vec<HookRun>,
    second: Vec<HookRun>,
) -> E::Verdict {
    let (second_output, _) = merge_runs::<E>(&second);
    runs.extend(second);
    let mut outcome = merge::<E>(runs);
    if E::action(&second_output) >= Action::Deny {
        outcome.output.reason = second_output.reason;
        outcome.verdict = E::evaluate(&outcome.output);
    }
    record::<E>(recorder, plan, outcome)
}

/// Records the outcome of an event of a model call, and returns its verdict.
fn record<E: EventKind>(
    recorder: &Recorder,
    plan: PlanSummary<'_>,
    outcome: EventOutcome<E::Verdict>,
) -> E::Verdict {
    let decision = decision::<E>(&outcome, EventOrigin::ModelCall, plan);
    recorder.record(&match E::NAME {
        EventName::AfterModel => ExchangeEvent::ChunkDecided(&decision),
        _ => ExchangeEvent::EventDecided(&decision),
    });
    outcome.verdict
}

/// Merges the outputs of all enforcing runs, and returns the verdict on them.
pub fn evaluate<E: EventKind>(runs: &[HookRun]) -> E::Verdict {
    E::evaluate(&merge_runs::<E>(runs).0)
}

/// Merges all runs on one event into its outcome.
pub(super) fn merge<E: EventKind>(runs: Vec<HookRun>) -> EventOutcome<E::Verdict> {
    let (output, diagnostics) = merge_runs::<E>(&runs);
    EventOutcome {
        verdict: E::evaluate(&output),
        output,
        runs,
        diagnostics,
    }
}

/// Merges the outputs of all enforcing runs.
pub fn merge_runs<E: EventKind>(runs: &[HookRun]) -> (HookOutput, Vec<Diagnostic>) {
    let enforced = runs.iter().filter(|run| run.is_enforced());
    merge_outputs(enforced.map(|run| &run.result.output), E::HONOURS)
}
