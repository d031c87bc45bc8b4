//! Sums of policy and hook runs: of one event, or of all chunks of a response.

use std::time::{Duration, SystemTime};

use super::{
    decision_log::AuditLog,
    hook_run_record::{HookRunRecord, own_verdict},
    record::{CallerRecord, EventRecord, short_name},
    time_range::TimeRange,
};
use crate::{
    event::{Action, EventName, EventOrigin, HookRun, HookStatus, RefusedCall},
    observe::recorder::{EventDecision, ExchangeSummary},
};

/// Sums of policy and hook runs.
#[derive(Debug, Default)]
pub(super) struct RunStats {
    /// Chunks that policies inspected.
    pub(super) inspected_chunks: u64,
    /// Chunks that hooks received.
    pub(super) hooked_chunks: u64,
    hooks: Vec<HookRunRecord>,
    verdict: Option<Action>,
    reason: Option<String>,
}

impl RunStats {
    /// Returns the run of a policy that refused a call of a response, as a run on the
    /// call itself.
    pub(super) fn of_refused_call(run: &HookRun, call: &RefusedCall) -> Self {
        let is_enforced = run.is_enforced();
        let verdict = is_enforced.then_some(Action::Deny);
        Self {
            hooks: vec![HookRunRecord {
                status: HookStatus::Ok,
                would: run.would.map(|_| Action::Deny),
                verdict: verdict.unwrap_or(Action::Proceed),
                edited: false,
                denied_calls: 0,
                ..HookRunRecord::from(run)
            }],
            verdict,
            reason: is_enforced.then(|| call.reason.as_str().to_owned()),
            ..Self::default()
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Adds a run, as many times as given.
    pub(super) fn add_run(&mut self, run: &HookRun, times: u64) {
        let is_same = |hook: &&mut HookRunRecord| hook.rule == run.rule && hook.name == run.name;
        match self.hooks.iter_mut().find(is_same) {
            Some(hook) => {
                hook.status = hook.status.max(run.status());
                let time = TimeRange::ending_at(run.ended, run.elapsed);
                hook.time = hook.time.union(time);
                hook.elapsed += run.elapsed;
                hook.would = hook.would.max(run.would);
                hook.verdict = hook.verdict.max(own_verdict(run));
                hook.runs += times;
                hook.edited |= run.edited;
                hook.denied_calls += run.refused.len();
            }
            None => self.hooks.push(HookRunRecord {
                runs: times,
                ..HookRunRecord::from(run)
            }),
        }
    }

    /// Adds the runs of an event. The strictest verdict counts.
    pub(super) fn add_decision(&mut self, decision: &EventDecision<'_>) {
        for run in decision.runs {
            self.add_run(run, 1);
        }
        if self.verdict < Some(decision.verdict) {
            self.verdict = Some(decision.verdict);
            self.reason = decision.reason();
        }
    }

    pub(super) fn into_record(
        self,
        audit: &AuditLog,
        exchange: &ExchangeSummary,
        event: EventName,
        origin: EventOrigin,
    ) -> EventRecord {
        let times = self.hooks.iter().map(|hook| hook.time);
        let times = times.reduce(TimeRange::union);
        EventRecord {
            request: exchange.request_id.to_string(),
            session: short_name(&exchange.session_id),
            caller: CallerRecord::from(&exchange.caller),
            trace: exchange.trace,
            time: times.unwrap_or_else(|| TimeRange::ending_at(SystemTime::now(), Duration::ZERO)),
            event,
            origin: origin.as_str(),
            subject: None,
            chunks: Some(self.inspected_chunks.max(self.hooked_chunks)),
            hooks: self.hooks,
            verdict: Some(self.verdict.unwrap_or(Action::Proceed)),
            ended: None,
            reason: self.reason.map(|reason| audit.text_digest(&reason)),
            input: None,
        }
    }
}
