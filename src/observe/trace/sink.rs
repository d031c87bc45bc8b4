//! Receives the events of one exchange and makes its record.

mod call_trace;
mod content_capture;
mod event_trace;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use compact_str::CompactString;

use crate::observe::trace::{
    clock,
    limits::ContentLimits,
    record::chunk_strip::ChunkSpan,
    record::document_diff::DocumentDiff,
    record::traced_event::TracedEvent,
    record::{CallRecord, RecordKind, SessionMatch, TracedTokens},
    sink::call_trace::CallTrace,
    sink::content_capture::ContentCapture,
    sink::event_trace::{RunReader, planned_event},
    store::memory::InFlightBytes,
    store::{TraceStore, TracedRules},
};
use crate::{
    event::EventName,
    observe::recorder::{BodyPart, EventDecision, Exchange, ExchangeEvent, Sink},
};

/// Bytes of one record. Further details are dropped and counted.
const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Bytes of a name that are kept; agents and models choose names.
const MAX_NAME_BYTES: usize = 256;

/// Digits of a caller's key that are kept.
const KEY_CHARS: usize = 16;

/// Receives the events of one exchange and makes its record.
///
/// Without policies and hooks it holds nothing until the end.
#[derive(Debug)]
pub struct TraceSink {
    store: Arc<TraceStore>,
    rules: TracedRules,
    limits: ContentLimits,
    kind: RecordKind,
    rounds: u32,
    call: Option<Box<CallTrace>>,
    content: Option<Box<ContentCapture>>,
    bytes: InFlightBytes,
}

impl TraceSink {
    /// Returns the sink of an exchange; `None` if there is no memory for it.
    pub fn new(
        store: &Arc<TraceStore>,
        rules: &TracedRules,
        limits: ContentLimits,
        kind: RecordKind,
    ) -> Option<Self> {
        let mut bytes = store.in_flight();
        if !store.grow(&mut bytes, size_of::<Self>()) {
            store.drop_record();
            return None;
        }
        Some(Self {
            store: Arc::clone(store),
            rules: Arc::clone(rules),
            limits,
            kind,
            rounds: 0,
            call: None,
            content: None,
            bytes,
        })
    }

    /// Returns the steps so far, if there is memory for `bytes` more of them.
    fn call(&mut self, bytes: usize) -> Option<&mut CallTrace> {
        let own = if self.call.is_none() {
            size_of::<CallTrace>()
        } else {
            0
        };
        let wanted = bytes + own;
        let fits = self.bytes.bytes() + wanted <= MAX_RECORD_BYTES
            && self.store.grow(&mut self.bytes, wanted);
        if !fits {
            self.drop_detail();
            return None;
        }
        Some(self.call.get_or_insert_default())
    }

    fn drop_detail(&mut self) {
        if let Some(call) = &mut self.call {
            call.detail.dropped_details = call.detail.dropped_details.saturating_add(1);
        }
    }

    fn reader(&self) -> RunReader<'_> {
        RunReader {
            store: &self.store,
            rules: &self.rules,
            keeps_reasons: self.limits.reasons,
        }
    }

    fn decided(&mut self, exchange: &Exchange, decision: &EventDecision<'_>) {
        self.reader().count_skips(decision);
        self.reader().record_denials(exchange, decision);
        let is_empty =
            decision.runs.is_empty() && decision.plan.is_none_or(|plan| plan.skipped.is_empty());
        if is_empty {
            return;
        }
        let event = self.reader().event(exchange, decision);
        let bytes = event.bytes();
        let rounds = self.rounds;
        if let Some(call) = self.call(bytes) {
            call.add_event(TracedEvent {
                round: rounds,
                ..event
            });
        }
    }

    fn chunk_decided(&mut self, exchange: &Exchange, decision: &EventDecision<'_>) {
        self.reader().record_denials(exchange, decision);
        let runs = decision.runs.iter();
        let runs: Vec<_> = runs
            .map(|run| (run.rule, self.reader().run(decision.event, run, 1)))
            .collect();
        let reason = decision.reason();
        let reason = reason.map(|reason| self.reader().event_reason(decision, &reason));
        let Some(call) = &mut self.call else {
            return;
        };
        for (rule, run) in runs {
            call.add_chunk_run(rule, run);
        }
        if let Some(event) = call.chunk_event() {
            if decision.verdict > event.verdict || event.reason.is_none() {
                event.reason = reason;
            }
            event.verdict = event.verdict.max(decision.verdict);
            event.ended_us = exchange.micros_now();
        }
    }

    fn finish(&mut self, exchange: &Exchange) {
        let elapsed = match self.kind {
            RecordKind::Call => exchange.elapsed,
            RecordKind::Event => Duration::from_micros(exchange.micros_now().into()),
        };
        let now = SystemTime::now();
        let end_us = clock::micros(elapsed);
        let detail = self.call.take().map(|call| Box::new(call.finish(end_us)));
        let record = CallRecord {
            seq: 0,
            id: Arc::clone(&exchange.request_id),
            kind: self.kind,
            started_ms: clock::milliseconds(now.checked_sub(elapsed).unwrap_or(now)),
            duration_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            caller: short(&exchange.caller.name, MAX_NAME_BYTES),
            caller_key: short(&exchange.caller.key, KEY_CHARS),
            agent: short(&exchange.caller.agent, MAX_NAME_BYTES),
            session: short(&exchange.session_id, MAX_NAME_BYTES),
            dialect: exchange.dialect,
            method: exchange.operation,
            requested_model: short(&exchange.requested_model, MAX_NAME_BYTES),
            model: short(&exchange.model, MAX_NAME_BYTES),
            upstream: exchange.upstream,
            status: exchange.status,
            action: exchange.action,
            error: exchange.error,
            end: exchange.end,
            rounds: self.rounds,
            detail,
        };
        if let Some(content) = self.content.take() {
            let is_watched = self.store.is_watched(&exchange.session_id);
            content.finish(&self.store, &record, is_watched);
        }
        let bytes = std::mem::replace(&mut self.bytes, self.store.in_flight());
        self.store.push(record, bytes);
    }

    /// Records the events of the response.
    fn record_response(&mut self, exchange: &Exchange, event: &ExchangeEvent<'_>) {
        let now_us = exchange.micros_now();
        match event {
            ExchangeEvent::ChunkDecided(decision) => self.chunk_decided(exchange, decision),
            ExchangeEvent::ChunkInspected(runs) => {
                for run in *runs {
                    let detail = self.reader().run(EventName::AfterModel, run, 1);
                    if let Some(call) = &mut self.call {
                        call.add_chunk_run(run.rule, detail);
                    }
                }
            }
            ExchangeEvent::ChunksPassed { chunks, runs } => {
                for (run, times) in *runs {
                    self.reader().count_equal_runs(run, *times);
                    let detail = self.reader().run(EventName::AfterModel, run, *times);
                    if let Some(call) = &mut self.call {
                        call.add_chunk_run(run.rule, detail);
                    }
                }
                if let Some(event) = self.call.as_mut().and_then(|call| call.chunk_event()) {
                    let sum = event.chunks.unwrap_or_default() + chunks;
                    event.chunks = Some(sum);
                    event.ended_us = now_us;
                }
            }
            ExchangeEvent::ChunkFiltered(facts) => {
                let chunk = ChunkSpan {
                    from_us: now_us,
                    to_us: now_us,
                    chunks: 1,
                    received_bytes: facts.received_bytes,
                    held_bytes: facts.held_bytes,
                    edited: u32::from(facts.is_edited),
                };
                let is_first = self
                    .call
                    .as_ref()
                    .is_none_or(|call| call.detail.chunks.is_empty());
                let bytes = if is_first {
                    CallTrace::chunk_bytes()
                } else {
                    0
                };
                if let Some(call) = self.call(bytes) {
                    call.add_chunk(now_us, chunk);
                }
            }
            ExchangeEvent::AnswerEdited { before, after } => {
                // Reserved once for all chunks.
                let has_diff = self
                    .call
                    .as_ref()
                    .is_some_and(|call| call.detail.answer_diff.is_some());
                let bytes = if has_diff { 0 } else { DocumentDiff::MAX_BYTES };
                if let Some(call) = self.call(bytes) {
                    let number = call.detail.chunks.chunks;
                    let diff = call.detail.answer_diff.get_or_insert_default();
                    diff.add_chunk(number, before, after);
                }
            }
            ExchangeEvent::UsageReported(usage) => {
                if let Some(call) = &mut self.call {
                    call.set_tokens(TracedTokens::read(usage));
                }
            }
            ExchangeEvent::RoundEnded { asked_again } => {
                if let Some(call) = &mut self.call {
                    call.release(now_us);
                    call.end_round(now_us);
                    if let Some(reason) = asked_again {
                        call.ask_again(reason);
                    }
                }
            }
            _ => (),
        }
    }

    /// Records the events of the request.
    fn record_request(&mut self, exchange: &Exchange, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::Sending(body) => {
                self.rounds += 1;
                let bytes = body.map(|body| body.len() as u64);
                if let Some(call) = &mut self.call {
                    call.send(exchange.micros_now(), bytes);
                }
            }
            ExchangeEvent::UpstreamSelected(target) => {
                if let Some(round) = self.call.as_mut().and_then(|call| call.round_mut()) {
                    round.upstream = target;
                }
            }
            ExchangeEvent::UpstreamAnswered { status } => {
                let now_us = exchange.micros_now();
                if let Some(round) = self.call.as_mut().and_then(|call| call.round_mut()) {
                    (round.status, round.answered_us) = (Some(*status), Some(now_us));
                }
            }
            ExchangeEvent::RequestEdited { before, after } => {
                if let Some(call) = self.call(DocumentDiff::MAX_BYTES) {
                    call.detail.request_diff = DocumentDiff::between(before, after);
                }
            }
            ExchangeEvent::PromptSent { received, sent } => {
                let session = exchange.session_id.as_str();
                let store = Arc::clone(&self.store);
                if let Some(call) = &mut self.call {
                    call.detail.prompt_cache = store.prompts.record(session, *received, *sent);
                }
            }
            _ => (),
        }
    }

    fn capture(&mut self, part: BodyPart, body: &bytes::Bytes) {
        if self.content.is_none() {
            self.content = Some(Box::new(ContentCapture::new(&self.store, self.limits)));
        }
        if let Some(content) = &mut self.content {
            content.add(&self.store, part, body);
        }
    }
}

impl Sink for TraceSink {
    fn record(&mut self, exchange: &Exchange, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::SessionFound {
                match_kind, source, ..
            } => {
                let found = SessionMatch {
                    result: match_kind,
                    source,
                };
                if let Some(call) = self.call(0) {
                    call.detail.session_match = Some(found);
                }
            }
            ExchangeEvent::Planned {
                event,
                plan,
                asked,
                is_skipped,
            } => {
                let planned = planned_event(self.kind, *event, *is_skipped, asked.is_empty());
                let Some(planned) = planned else {
                    return;
                };
                let event = self
                    .reader()
                    .planned(exchange, *event, *plan, (asked, *is_skipped));
                let event = TracedEvent {
                    round: self.rounds,
                    ..event
                };
                let rules = asked.iter().map(|asked| asked.rule).collect();
                if let Some(call) = self.call(event.bytes()) {
                    planned.add(call, event, rules);
                }
            }
            ExchangeEvent::HookFinished { event, run } => {
                self.reader().count_run(exchange, *event, run);
                let now_us = exchange.micros_now();
                if let Some(call) = self.call(0) {
                    call.add_hook_time(now_us, clock::micros(run.elapsed));
                }
            }
            ExchangeEvent::EventDecided(decision) => self.decided(exchange, decision),
            ExchangeEvent::BodyInspected(part, body) => self.capture(*part, body),
            ExchangeEvent::ResponseStarted { .. } => {
                let now_us = exchange.micros_now();
                if let Some(call) = &mut self.call {
                    call.detail.times.first_byte_us = Some(now_us.into());
                }
            }
            ExchangeEvent::Finished | ExchangeEvent::Closed => self.finish(exchange),
            other => {
                self.record_request(exchange, other);
                self.record_response(exchange, other);
            }
        }
    }

    fn wants_plans(&self) -> bool {
        true
    }

    fn wants_steps(&self) -> bool {
        self.kind == RecordKind::Call
    }

    fn wants_content(&self) -> bool {
        let is_wanted = self.limits.denied_or_edited || self.limits.sample > 0.0;
        self.kind == RecordKind::Call && (is_wanted || self.store.has_watches())
    }
}

fn short(name: &str, max: usize) -> CompactString {
    let end = name.floor_char_boundary(max);
    CompactString::from(name.get(..end).unwrap_or_default())
}
