//! Records of what policies and hooks did on one response.

use super::ResponseFilter;
use crate::{
    event::{EventName, HookRun},
    observe::recorder::{ExchangeAction, ExchangeEvent},
};

impl ResponseFilter<'_> {
    /// Records the inspected chunks, and the runs of policies that were not reported, since the
    /// last call.
    pub(super) fn record_unreported(&mut self) {
        let chunks = std::mem::take(&mut self.unrecorded_chunks);
        let mut runs = self.first_policies.take_unreported();
        runs.extend(self.second_policies.take_unreported());
        if chunks > 0 || !runs.is_empty() {
            let runs = &runs;
            self.context
                .record(&ExchangeEvent::ChunksPassed { chunks, runs });
        }
    }

    /// Records runs of policies. Returns those with an output, which are still to be applied.
    pub(super) fn record_policies(&self, runs: Vec<HookRun>) -> Vec<HookRun> {
        self.record_runs(&runs);
        // A policy that withholds text until it is complete edits nothing by that.
        if runs.iter().any(HookRun::has_edited) {
            self.context.record_action(ExchangeAction::Edit);
        }
        let (with_output, silent): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(HookRun::has_output);
        self.context.record(&ExchangeEvent::PoliciesRan(&silent));
        with_output
    }

    /// Records runs of policies on what hooks changed. Returns those with an output. An observing
    /// policy has recorded the calls that it would remove before the hooks ran, so they are not
    /// recorded again.
    pub(super) fn record_second_pass(&self, mut runs: Vec<HookRun>) -> Vec<HookRun> {
        let observed = runs.iter_mut().filter(|run| !run.is_enforced());
        for run in observed.filter(|run| !run.refused.is_empty()) {
            run.refused.clear();
            run.edited = false;
        }
        self.record_policies(runs)
    }

    /// Records runs whose outputs have no effect.
    pub(super) fn record_observed(&self, runs: &[HookRun]) {
        self.record_runs(runs);
        self.context.record(&ExchangeEvent::PoliciesRan(runs));
    }

    fn record_runs(&self, runs: &[HookRun]) {
        let (context, event) = (self.context, EventName::AfterModel);
        for run in runs {
            context.record(&ExchangeEvent::HookFinished { event, run });
        }
    }
}

/// A response may be dropped before its end.
impl Drop for ResponseFilter<'_> {
    fn drop(&mut self) {
        self.record_unreported();
    }
}
