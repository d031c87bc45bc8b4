//! Sums of policy and hook runs: of one event, or of all chunks of a response.

use std::time::{Duration, SystemTime};

use super::{
    decision_log::AuditLog,
    record::{CallerRecord, EventRecord, HookRunRecord, short_name},
    time_range::TimeRange,
};
use crate::{
    event::{Action, EventName, EventOrigin, HookRun, HookStatus},
    observe::recorder::{EventDecision, Exchange},
};

/// Sums of policy and hook runs.
#[derive(Debug, Default)]
pub(super) struct RunStats {
    /// Chunks that policies inspected.
    pub(super) inspected_chunks: u64,
    /// Chunks that hooks received.
    pub(super) hooked_chunks: u64,
    hooks: Vec<HookStats>,
    verdict: Option<Action>,
    reason: Option<String>,
}

/// Sum of all runs of one policy or hook.
#[derive(Debug)]
struct HookStats {
    name: String,
    status: HookStatus,
    elapsed: Duration,
    time: TimeRange,
    would: Option<Action>,
    runs: u64,
    edited: bool,
    refused: usize,
}

impl RunStats {
    pub(super) const fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Adds a run, as many times as given.
    pub(super) fn add_run(&mut self, run: &HookRun, times: u64) {
        match self.hooks.iter_mut().find(|stats| stats.name == run.name) {
            Some(stats) => stats.add(run, times),
            None => self.hooks.push(HookStats::new(run, times)),
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
        exchange: &Exchange,
        event: EventName,
        origin: EventOrigin,
    ) -> EventRecord {
        let times = self
            .hooks
            .iter()
            .map(|stats| stats.time)
            .reduce(TimeRange::union);
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
            hooks: self.hooks.into_iter().map(HookStats::into_record).collect(),
            verdict: self.verdict.unwrap_or(Action::Proceed),
            reason: self.reason.map(|reason| audit.text_digest(&reason)),
            input: None,
        }
    }
}

impl HookStats {
    fn new(run: &HookRun, times: u64) -> Self {
        Self {
            name: run.name.clone(),
            status: run.status(),
            elapsed: run.elapsed,
            time: TimeRange::ending_at(run.ended, run.elapsed),
            would: run.would,
            runs: times,
            edited: run.edited,
            refused: run.refused.len(),
        }
    }

    fn add(&mut self, run: &HookRun, times: u64) {
        if severity(run.status()) > severity(self.status) {
            self.status = run.status();
        }
        self.elapsed += run.elapsed;
        self.time = self
            .time
            .union(TimeRange::ending_at(run.ended, run.elapsed));
        self.would = self.would.max(run.would);
        self.runs += times;
        self.edited |= run.edited;
        self.refused += run.refused.len();
    }

    fn into_record(self) -> HookRunRecord {
        HookRunRecord {
            name: self.name,
            status: self.status.as_str(),
            time: self.time,
            ms: u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            would: self.would.map(would),
            runs: (self.runs > 1).then_some(self.runs),
            edited: self.edited,
            denied_calls: self.refused,
        }
    }
}

const fn severity(status: HookStatus) -> u8 {
    match status {
        HookStatus::Ok => 0,
        HookStatus::Block => 1,
        HookStatus::Failed => 2,
    }
}

const fn would(action: Action) -> &'static str {
    match action {
        Action::Proceed => "would_proceed",
        Action::Ask => "would_ask",
        Action::Respond => "would_respond",
        Action::Deny => "would_deny",
        Action::Stop => "would_stop",
    }
}
