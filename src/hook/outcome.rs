//! Results: of one policy or hook, and of an event as a whole.

use std::time::{Duration, SystemTime};

use crate::{
    config::HookMode,
    event::{
        Action, Diagnostic, EventKind, HookOutput, HookResult, HookStatus, Verdict, merge_outputs,
    },
    policy::RefusedCall,
};

/// One run of a policy or hook.
#[derive(Debug)]
pub struct HookRun {
    /// Name of the policy or hook; the command of a hook without a name.
    pub name: String,
    /// Status, output and diagnostics.
    pub answer: HookResult,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Time at which the run ended.
    pub ended: SystemTime,
    /// Action that the output would have caused; `None` unless in `mode: observe`.
    pub would: Option<Action>,
    /// Whether a policy edited the document, or would have.
    pub edited: bool,
    /// Calls that a policy removed from a response, or would have.
    pub refused: Vec<RefusedCall>,
}

impl HookRun {
    /// A run that ends now.
    pub(super) fn new<E: EventKind>(
        name: &str,
        mode: HookMode,
        answer: HookResult,
        elapsed: Duration,
    ) -> Self {
        let would = match mode {
            HookMode::Enforce => None,
            HookMode::Observe => {
                let (output, _) = merge_outputs([&answer.output], E::HONOURS);
                Some(E::evaluate(&output).action())
            }
        };
        Self {
            name: name.to_owned(),
            answer,
            elapsed,
            ended: SystemTime::now(),
            would,
            edited: false,
            refused: Vec::new(),
        }
    }

    /// Status of the run.
    pub const fn status(&self) -> HookStatus {
        self.answer.status
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

/// Source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOrigin {
    /// Reported by the agent.
    Reported,
    /// Derived from a model call. Policies that inspect model calls have already
    /// inspected it there.
    Derived,
}

/// Merges the outputs of all enforcing runs.
pub(super) fn merge_runs<E: EventKind>(runs: &[HookRun]) -> (HookOutput, Vec<Diagnostic>) {
    let enforced = runs.iter().filter(|run| run.would.is_none());
    merge_outputs(enforced.map(|run| &run.answer.output), E::HONOURS)
}
