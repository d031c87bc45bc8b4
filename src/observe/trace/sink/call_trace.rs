//! The steps of an exchange in flight, as they are recorded.

use crate::{
    event::{Action, EventName, RuleId, SkipReason},
    observe::{
        recorder::ExchangeAction,
        trace::record::{
            CallDetail, TracedRound,
            chunk_strip::ChunkSpan,
            traced_event::{RunDetail, RunOutcome, TracedEvent},
        },
    },
};

/// Most requests to the model API that are kept of one exchange.
const MAX_ROUNDS: usize = 32;

/// The steps of an exchange in flight.
#[derive(Debug, Default)]
pub(crate) struct CallTrace {
    pub(crate) detail: CallDetail,
    /// Microseconds up to which runs of hooks are counted.
    hooks_until_us: u64,
    /// Time since which bytes are held back.
    held_since_us: Option<u32>,
    /// The round whose response is not complete.
    open_round: Option<OpenRound>,
    /// The event of this round's response, until that is inspected.
    planned_answer: Option<TracedEvent>,
    /// Index of the event of the chunks of this round.
    chunk_event: Option<usize>,
    /// Reason for the next round, until that round begins.
    asked_again: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
struct OpenRound {
    index: usize,
    sent_us: u32,
    hooks_us: u64,
}

impl CallTrace {
    /// Counts a run of a hook that has just ended. Runs at the same time count once.
    pub(crate) fn add_hook_time(&mut self, now_us: u32, elapsed_us: u32) {
        let now = u64::from(now_us);
        let start = now.saturating_sub(elapsed_us.into());
        let new = now.saturating_sub(start.max(self.hooks_until_us));
        self.detail.times.hooks_us += new;
        self.hooks_until_us = self.hooks_until_us.max(now);
    }

    /// Counts a run of a policy. Policies run one after the other, and are recorded together.
    pub(crate) fn add_policy_time(&mut self, now_us: u32, elapsed_us: u32) {
        self.detail.times.hooks_us += u64::from(elapsed_us);
        self.hooks_until_us = self.hooks_until_us.max(now_us.into());
    }

    /// Adds an event that is decided.
    pub(crate) fn add_event(&mut self, event: TracedEvent) {
        self.detail.events.push(event);
    }

    /// Plans the event of a response, which is added once the response is inspected.
    pub(crate) fn plan_answer(&mut self, event: TracedEvent) {
        self.planned_answer = Some(event);
        self.chunk_event = None;
    }

    /// Records the head of a response. One that no rule inspects has its event at once.
    pub(crate) fn answer(&mut self, now_us: u32, status: u16) {
        if let Some(round) = self.round_mut() {
            (round.status, round.answered_us) = (Some(status), Some(now_us));
        }
        let mut planned = self.planned_answer.iter().flat_map(|event| &event.rules);
        let is_inspected = planned.any(|run| run.asked().is_some());
        if (200..300).contains(&status) && !is_inspected {
            self.begin_chunks();
        }
    }

    /// Begins the planned event of a response.
    fn begin_chunks(&mut self) {
        let Some(mut event) = self.planned_answer.take() else {
            return;
        };
        if let Some(answered_us) = self.round_mut().and_then(|round| round.answered_us) {
            (event.at_us, event.ended_us) = (answered_us, answered_us);
        }
        self.chunk_event = Some(self.detail.events.len());
        self.detail.events.push(event);
    }

    /// Returns the event of the chunks of this round.
    pub(crate) fn chunk_event(&mut self) -> Option<&mut TracedEvent> {
        self.begin_chunks();
        self.detail.events.get_mut(self.chunk_event?)
    }

    /// Adds equal runs on a chunk to the event of the chunks.
    pub(crate) fn add_chunk_run(&mut self, rule: RuleId, run: RunDetail) {
        let Some(event) = self.chunk_event() else {
            return;
        };
        // Rules that run are before those that do not.
        let known = event.rules.iter_mut().find(|known| known.id == rule);
        if let Some(RunOutcome::Asked(sum)) = known.map(|known| &mut known.outcome) {
            sum.add(run);
        }
    }

    /// Records that a request went upstream.
    pub(crate) fn send(&mut self, now_us: u32, request_bytes: Option<u64>) {
        self.end_round(now_us);
        self.open_round = Some(OpenRound {
            index: self.detail.upstream_rounds.len(),
            sent_us: now_us,
            hooks_us: self.detail.times.hooks_us,
        });
        let asked_again = self.asked_again.take();
        if self.detail.upstream_rounds.len() < MAX_ROUNDS {
            self.detail.upstream_rounds.push(TracedRound {
                sent_us: now_us,
                request_bytes,
                asked_again,
                ..TracedRound::default()
            });
        }
    }

    /// Returns the round whose response is not complete.
    pub(crate) fn round_mut(&mut self) -> Option<&mut TracedRound> {
        let index = self.open_round?.index;
        self.detail.upstream_rounds.get_mut(index)
    }

    fn end_round(&mut self, now_us: u32) {
        if let Some(round) = self.round_mut() {
            round.ended_us = Some(now_us);
        }
        if let Some(round) = self.open_round.take() {
            let hooks = self.detail.times.hooks_us - round.hooks_us;
            let total = u64::from(now_us.saturating_sub(round.sent_us));
            self.detail.times.upstream_us += total.saturating_sub(hooks);
        }
    }

    /// Records that a response is decided, and why the model is asked again.
    pub(crate) fn end_response(&mut self, now_us: u32, asked_again: Option<&'static str>) {
        self.release(now_us);
        self.end_round(now_us);
        self.asked_again = asked_again;
    }

    /// Adds a chunk of the model's response.
    pub(crate) fn add_chunk(&mut self, now_us: u32, chunk: ChunkSpan) {
        self.begin_chunks();
        match self.held_since_us {
            None if chunk.held_bytes > 0 => self.held_since_us = Some(now_us),
            Some(_) if chunk.held_bytes == 0 => self.release(now_us),
            _ => (),
        }
        self.detail.chunks.push(chunk);
    }

    /// Counts a chunk whose time is not kept.
    pub(crate) fn count_chunk(&mut self, chunk: ChunkSpan) {
        self.detail.chunks.count(chunk);
    }

    fn release(&mut self, now_us: u32) {
        if let Some(since) = self.held_since_us.take() {
            self.detail.times.held_back_us += u64::from(now_us.saturating_sub(since));
        }
    }

    /// Completes the steps at the end of the exchange.
    pub(crate) fn finish(mut self, now_us: u32) -> CallDetail {
        self.end_response(now_us, None);
        if self.detail.upstream_rounds.is_empty() {
            // The request was ready, but not sent.
            (self.detail.request_diff, self.detail.prompt_cache) = (None, None);
        }
        for event in &mut self.detail.events {
            event.name_idle_policies();
        }
        self.detail.shrink();
        self.detail
    }
}

impl CallDetail {
    /// Returns the strictest verdict of its events, as the action on a reported event, or that it
    /// was edited.
    pub(crate) fn action(&self) -> ExchangeAction {
        let verdicts = self.events.iter().filter_map(|event| event.verdict);
        match verdicts.max().unwrap_or(Action::Proceed) {
            Action::Proceed | Action::Ask if self.events.iter().any(TracedEvent::has_edit) => {
                ExchangeAction::Edit
            }
            Action::Proceed | Action::Ask => ExchangeAction::Pass,
            Action::Respond => ExchangeAction::Respond,
            Action::Deny => ExchangeAction::Deny,
            Action::Stop => ExchangeAction::Stop,
        }
    }

    fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.upstream_rounds.shrink_to_fit();
        self.chunks.spans.shrink_to_fit();
        self.denied_tools.shrink_to_fit();
        self.would_deny_tools.shrink_to_fit();
        let diffs = [&mut self.request_diff, &mut self.answer_diff];
        for diff in diffs.into_iter().flatten() {
            diff.changes.shrink_to_fit();
        }
    }
}

impl TracedEvent {
    /// Policies without runs on a response do not inspect responses: the first run of the others
    /// is always reported.
    fn name_idle_policies(&mut self) {
        if self.event != EventName::AfterModel {
            return;
        }
        for run in &mut self.rules {
            let is_policy = run
                .rule
                .as_ref()
                .is_some_and(|rule| rule.identity.policy.is_some());
            if is_policy && run.asked().is_some_and(|detail| detail.runs == 0) {
                run.outcome = RunOutcome::NotAsked(SkipReason::NoResponses);
            }
        }
    }
}

impl RunDetail {
    /// Adds runs of the same rule. The worst status and the strictest decision count.
    fn add(&mut self, other: Self) {
        self.status = self.status.max(other.status);
        self.duration_us = self.duration_us.saturating_add(other.duration_us);
        self.runs += other.runs;
        if other.action > self.action || self.reason.is_none() {
            self.reason = other.reason.or(self.reason.take());
        }
        self.action = self.action.max(other.action);
        self.would = self.would.max(other.would);
        self.fields = self.fields.union(other.fields);
        self.edited |= other.edited;
        self.refused_calls = self.refused_calls.saturating_add(other.refused_calls);
        for code in other.diagnostics {
            if !self.diagnostics.contains(&code) {
                self.diagnostics.push(code);
            }
        }
    }
}
