//! Collects what policies and hooks do with a replayed call, in the form of a recording.

use std::{collections::BTreeSet, mem, sync::Arc};

use super::decisions::strictness;
use crate::{
    event::{EventName, HookRun},
    mutex::Mutex,
    observe::recorder::{EventDecision, ExchangeEvent, ExchangeSummary, Sink},
    recording::{
        RecordedEvent, RecordedOutcome, RecordedRun, RuleDefinition, recorded_outcome, recorded_run,
    },
};

/// Sink that collects the decisions of policies and hooks about a call. Clones share one
/// collection.
#[derive(Debug, Clone)]
pub(super) struct ReplaySink(Arc<Mutex<ReplayedCall>>);

/// Decisions of policies and hooks about a call, and its outcome.
#[derive(Debug, Default)]
pub(super) struct ReplayedCall {
    /// Definitions of the rules, by their number.
    rules: Arc<[RuleDefinition]>,
    pub(super) events: Vec<RecordedEvent>,
    /// The `AfterModel` event of the present round.
    answer_event: Option<RecordedEvent>,
    /// Number of requests to the model API so far.
    rounds: u32,
    /// Names of the rules that ran.
    pub(super) asked: BTreeSet<String>,
    tool_denied: bool,
    pub(super) outcome: Option<RecordedOutcome>,
    pub(super) status: u16,
}

impl ReplaySink {
    /// Returns the sink of a call under these rules.
    pub(super) fn new(rules: &Arc<[RuleDefinition]>) -> Self {
        Self(Arc::new(Mutex::new(ReplayedCall {
            rules: Arc::clone(rules),
            ..ReplayedCall::default()
        })))
    }

    /// Takes what was collected, once the call has ended.
    pub(super) fn take(&self) -> ReplayedCall {
        let mut call = mem::take(&mut *self.0.lock());
        call.end_round();
        call
    }
}

impl Sink for ReplaySink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let mut call = self.0.lock();
        match event {
            ExchangeEvent::HookFinished { event, run } => {
                if !call.asked.contains(&run.name) {
                    call.asked.insert(run.name.clone());
                }
                if *event == EventName::AfterModel {
                    call.add_answer_run(run);
                }
            }
            ExchangeEvent::EventDecided(decision) => call.add_decision(decision),
            ExchangeEvent::ChunkDecided(decision) => {
                let event = call.answer_event();
                if event.verdict == "proceed" {
                    decision.verdict.as_str().clone_into(&mut event.verdict);
                }
            }
            ExchangeEvent::Sending { .. } => {
                call.end_round();
                call.rounds += 1;
            }
            ExchangeEvent::ToolCallDenied { .. } => call.tool_denied = true,
            ExchangeEvent::Finished => {
                call.status = exchange.status;
                call.outcome = Some(RecordedOutcome {
                    tool_denied: call.tool_denied,
                    ..recorded_outcome(exchange)
                });
            }
            _ => (),
        }
    }
}

impl ReplayedCall {
    fn add_decision(&mut self, decision: &EventDecision<'_>) {
        let hooks = decision.runs.iter().map(|run| self.run(run)).collect();
        self.events.push(RecordedEvent {
            subject: decision.subject.map(str::to_owned),
            hooks,
            verdict: decision.verdict.as_str().to_owned(),
            ..event(decision.event, self.rounds)
        });
    }

    fn run(&self, run: &HookRun) -> RecordedRun {
        recorded_run(run, self.rules.get(run.rule.0 as usize))
    }

    fn answer_event(&mut self) -> &mut RecordedEvent {
        let round = self.rounds;
        self.answer_event
            .get_or_insert_with(|| event(EventName::AfterModel, round))
    }

    /// Adds a run on a response or chunk. Of several runs of a rule, the strictest counts, and all
    /// refused calls.
    fn add_answer_run(&mut self, run: &HookRun) {
        let mut run = self.run(run);
        let runs = &mut self.answer_event().hooks;
        let Some(known) = runs.iter_mut().find(|known| known.name == run.name) else {
            runs.push(run);
            return;
        };
        let rank = |run: &RecordedRun| (strictness(&run.action), !run.output.is_null());
        if rank(&run) > rank(known) {
            mem::swap(known, &mut run);
        }
        known.edited |= run.edited;
        known.refused.append(&mut run.refused);
    }

    fn end_round(&mut self) {
        self.events.extend(self.answer_event.take());
    }
}

fn event(name: EventName, round: u32) -> RecordedEvent {
    RecordedEvent {
        name: name.as_str().to_owned(),
        round,
        verdict: "proceed".to_owned(),
        ..RecordedEvent::default()
    }
}
