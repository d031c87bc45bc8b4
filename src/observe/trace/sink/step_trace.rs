//! Steps of a request and its response: edits, runs on chunks, chunks, and the ends of rounds.

use crate::{
    event::{EventName, HookRun},
    observe::{
        MAX_NAME_BYTES,
        recorder::{ChunkFacts, EventDecision, ExchangeEvent, ExchangeSummary},
        trace::{
            record::{
                CallDetail,
                chunk_strip::{ChunkSpan, ChunkStrip},
                document_diff::DocumentDiff,
            },
            sink::TraceSink,
        },
        truncated,
    },
    timestamp::whole_microseconds,
};

/// Tools in one of the lists of a call.
const MAX_LISTED_TOOLS: usize = 16;

impl TraceSink {
    /// Records a step of the request or of its response.
    pub(super) fn record_step(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::RequestEdited { before, after } => {
                if let Some(call) = self.call(DocumentDiff::MAX_BYTES) {
                    call.detail.request_diff = DocumentDiff::between(before, after);
                }
            }
            ExchangeEvent::PromptSent { received, sent } => {
                let session = (&*exchange.caller.key, &*exchange.session_id);
                if let Some(call) = &mut self.call {
                    call.detail.prompt_cache = self.store.prompts.record(session, *received, *sent);
                }
            }
            ExchangeEvent::UpstreamAnswered { status } => {
                if let Some(call) = &mut self.call {
                    call.answer(exchange.micros_now(), *status);
                }
            }
            ExchangeEvent::ChunkDecided(decision) => self.chunk_decided(exchange, decision),
            ExchangeEvent::PoliciesRan(runs) => {
                for run in *runs {
                    self.add_chunk_runs(run, 1);
                }
            }
            ExchangeEvent::ChunksPassed { chunks, runs } => {
                for (run, times) in *runs {
                    self.count_equal_runs(run, *times);
                    self.add_chunk_runs(run, *times);
                    if let Some(call) = &mut self.call {
                        call.detail.times.hooks_us += u64::from(whole_microseconds(run.elapsed));
                    }
                }
                if let Some(event) = self.call.as_mut().and_then(|call| call.chunk_event()) {
                    event.chunks = Some(event.chunks.unwrap_or_default() + chunks);
                    event.ended_us = exchange.micros_now();
                }
            }
            ExchangeEvent::ChunkFiltered(facts) => self.add_chunk(exchange, *facts),
            ExchangeEvent::ToolCallDenied { tool } => {
                self.add_tool(tool, |detail| &mut detail.denied_tools);
            }
            ExchangeEvent::AnswerEdited { before, after } => self.add_edit(before, after),
            ExchangeEvent::RoundEnded { asked_again } => {
                if let Some(call) = &mut self.call {
                    call.end_response(exchange.micros_now(), *asked_again);
                }
            }
            _ => (),
        }
    }

    fn add_chunk_runs(&mut self, run: &HookRun, times: u64) {
        let detail = self.read_run(EventName::AfterModel, run, times);
        if let Some(call) = &mut self.call {
            call.add_chunk_run(run.rule, detail);
        }
    }

    fn add_chunk(&mut self, exchange: &ExchangeSummary, facts: ChunkFacts) {
        let now_us = exchange.micros_now();
        let chunk = ChunkSpan {
            from_us: now_us,
            to_us: now_us,
            chunks: 1,
            received_bytes: facts.received_bytes,
            held_bytes: facts.held_bytes,
            edited: u32::from(facts.is_edited),
        };
        let strip = self.call.as_ref().map(|call| &call.detail.chunks);
        let growth = strip.map_or(0, ChunkStrip::next_growth);
        if let Some(call) = self.call(growth) {
            call.add_chunk(now_us, chunk);
        } else if let Some(call) = &mut self.call {
            call.count_chunk(chunk);
        }
    }

    /// Records the tools whose calls a rule in mode `observe` would have removed.
    pub(super) fn add_observed_tools(&mut self, run: &HookRun) {
        for call in run.refused.iter().filter(|_| !run.is_enforced()) {
            self.add_tool(&call.tool, |detail| &mut detail.would_deny_tools);
        }
    }

    /// Adds a tool to one of the lists of tools.
    fn add_tool(&mut self, tool: &str, list: fn(&mut CallDetail) -> &mut Vec<Box<str>>) {
        let tool = Box::from(truncated(tool, MAX_NAME_BYTES));
        let known = self.call.as_mut().map(|call| list(&mut call.detail));
        if known.is_some_and(|known| known.contains(&tool) || known.len() >= MAX_LISTED_TOOLS) {
            return;
        }
        // A vector begins with space for four.
        if let Some(call) = self.call(tool.len() + 4 * size_of::<Box<str>>()) {
            list(&mut call.detail).push(tool);
        }
    }

    fn add_edit(&mut self, before: &[u8], after: &[u8]) {
        // The changes of all chunks are reserved with the first one.
        let call = self.call.as_ref();
        let is_first = call.is_none_or(|call| call.detail.answer_diff.is_none());
        let bytes = if is_first { DocumentDiff::MAX_BYTES } else { 0 };
        if let Some(call) = self.call(bytes) {
            let number = call.detail.chunks.chunks;
            let diff = call.detail.answer_diff.get_or_insert_default();
            diff.add_chunk(number, before, after);
        }
    }

    fn chunk_decided(&mut self, exchange: &ExchangeSummary, decision: &EventDecision<'_>) {
        self.record_denials(exchange, decision);
        let runs = decision.runs.iter();
        let runs: Vec<_> = runs
            .map(|run| (run.rule, self.read_run(decision.event, run, 1)))
            .collect();
        let reason = decision.reason();
        let reason = reason.map(|reason| self.event_reason(decision, &reason));
        let Some(call) = &mut self.call else {
            return;
        };
        for (rule, run) in runs {
            call.add_chunk_run(rule, run);
        }
        if let Some(event) = call.chunk_event() {
            let verdict = Some(decision.verdict);
            if verdict > event.verdict || event.reason.is_none() {
                event.reason = reason;
            }
            event.verdict = event.verdict.max(verdict);
            event.ended_us = exchange.micros_now();
        }
    }
}
