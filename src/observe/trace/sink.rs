//! Receives the events of one exchange and makes its record.

mod call_trace;
mod content_capture;
mod event_trace;
mod step_trace;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    config::ContentSettings,
    event::{Action, EventName},
    observe::{
        MAX_NAME_BYTES,
        recorder::{
            BodyPart, EventDecision, ExchangeEnd, ExchangeEvent, ExchangeSummary,
            InFlightExchanges, Sink, SinkNeed,
        },
        trace::{
            record::{
                CallDetail, CallHead, CallRecord, RecordKind, SessionMatch, TracedTokens,
                traced_event::TracedEvent,
            },
            sink::{call_trace::CallTrace, content_capture::ContentCapture},
            store::{TraceStore, TracedRules, memory::InFlightBytes},
        },
        truncated,
    },
    timestamp::{milliseconds, whole_microseconds},
};

/// Bytes of one record. Further details are dropped and counted.
const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Bytes of a record up to which events are kept whose verdict is to proceed with an edit. A long
/// history without a session may have hundreds of them before its decisions.
const MAX_EDITED_RECORD_BYTES: usize = MAX_RECORD_BYTES / 4 * 3;

/// Bytes of a record up to which events are kept on which no policy or hook acted.
const MAX_IDLE_RECORD_BYTES: usize = MAX_RECORD_BYTES / 2;

/// A request to the model API that is not sent yet: the decision log and the circuit breaker may
/// refuse it.
#[derive(Debug, Clone, Copy)]
struct WaitingRequest {
    bytes: Option<u64>,
}

/// Receives the events of one exchange and makes its record.
///
/// Without policies and hooks it holds nothing until the end.
#[derive(Debug)]
pub struct TraceSink {
    store: Arc<TraceStore>,
    rules: TracedRules,
    settings: ContentSettings,
    kind: RecordKind,
    /// The reported event, or the first that is decided.
    event: Option<EventName>,
    /// The reported event with the runs on it, until it is decided.
    undecided: Option<Box<TracedEvent>>,
    /// A request that waits until it can be sent.
    waiting: Option<WaitingRequest>,
    /// Steps that were not kept, because the record or the trace is full.
    dropped_details: u32,
    call: Option<Box<CallTrace>>,
    content: Option<Box<ContentCapture>>,
    bytes: InFlightBytes,
}

impl TraceSink {
    /// Returns the sink of an exchange; `None` if there is no memory for it.
    pub fn new(
        store: &Arc<TraceStore>,
        rules: &TracedRules,
        settings: ContentSettings,
        kind: RecordKind,
    ) -> Option<Self> {
        let mut bytes = store.no_bytes();
        if !store.grow(
            &mut bytes,
            size_of::<Self>() + InFlightExchanges::ENTRY_BYTES,
        ) {
            store.drop_record();
            return None;
        }
        Some(Self {
            store: Arc::clone(store),
            rules: Arc::clone(rules),
            settings,
            kind,
            event: None,
            undecided: None,
            waiting: None,
            dropped_details: 0,
            call: None,
            content: None,
            bytes,
        })
    }

    /// Returns the steps so far, if there is memory for `bytes` more of them.
    fn call(&mut self, bytes: usize) -> Option<&mut CallTrace> {
        self.call_within(MAX_RECORD_BYTES, bytes)
    }

    /// Returns the steps so far, if `bytes` more of them fit into a record of `limit` bytes.
    fn call_within(&mut self, limit: usize, bytes: usize) -> Option<&mut CallTrace> {
        let own = if self.call.is_none() {
            size_of::<CallTrace>()
        } else {
            0
        };
        let wanted = bytes + own;
        let fits = self.bytes.bytes() + wanted <= limit && self.store.grow(&mut self.bytes, wanted);
        if !fits {
            self.drop_detail();
            return None;
        }
        Some(self.call.get_or_insert_default())
    }

    /// Returns the number of the request to the model API that an event belongs to.
    const fn round_of(&self, exchange: &ExchangeSummary, event: EventName) -> u32 {
        // Events of a call are fired or planned before its request is sent.
        if matches!(self.kind, RecordKind::Call) && event.is_model_call() {
            exchange.rounds + 1
        } else {
            exchange.rounds
        }
    }

    fn drop_detail(&mut self) {
        self.dropped_details = self.dropped_details.saturating_add(1);
    }

    /// Returns the steps at the end; `None` if there were none.
    fn take_detail(&mut self, end_us: u32) -> Option<Box<CallDetail>> {
        let steps = self.call.take();
        if steps.is_none() && self.dropped_details == 0 {
            return None;
        }
        let steps = steps.map(|steps| steps.finish(end_us));
        Some(Box::new(CallDetail {
            dropped_details: self.dropped_details,
            ..steps.unwrap_or_default()
        }))
    }

    fn decided(&mut self, exchange: &ExchangeSummary, decision: &EventDecision<'_>) {
        self.event.get_or_insert(decision.event);
        self.undecided = None;
        self.count_skipped(decision.plan.skipped);
        self.record_denials(exchange, decision);
        if decision.runs.is_empty() && decision.plan.skipped.is_empty() {
            return;
        }
        let event = self.read_event(exchange, decision);
        let limit = if event.verdict_on_calls() > Some(Action::Proceed) {
            MAX_RECORD_BYTES
        } else if event.has_acted() {
            MAX_EDITED_RECORD_BYTES
        } else {
            MAX_IDLE_RECORD_BYTES
        };
        if let Some(call) = self.call_within(limit, event.bytes()) {
            call.add_event(event);
        }
    }

    fn finish(&mut self, exchange: &ExchangeSummary) {
        let elapsed = match self.kind {
            RecordKind::Call => exchange.elapsed,
            RecordKind::Event => Duration::from_micros(exchange.micros_now().into()),
        };
        let mut head = self.head(exchange, elapsed);
        let is_undecided = self.add_undecided(exchange);
        let detail = self.take_detail(whole_microseconds(elapsed));
        if self.kind == RecordKind::Event
            && let Some(detail) = detail.as_ref().filter(|_| !is_undecided)
        {
            head.action = detail.action();
        }
        let record = CallRecord {
            head,
            upstream: exchange.upstream,
            tokens: exchange.tokens.total().map(TracedTokens::from),
            detail,
        };
        if let Some(content) = self.content.take() {
            let watched = &self.store.watched;
            let is_watched = watched.includes(&exchange.session_id, &exchange.caller.key);
            content.finish(&self.store, &record, is_watched);
        }
        let bytes = std::mem::replace(&mut self.bytes, self.store.no_bytes());
        self.store.push(record, bytes);
    }

    fn head(&self, exchange: &ExchangeSummary, elapsed: Duration) -> CallHead {
        let (method, end) = match (self.kind, self.event) {
            (RecordKind::Event, Some(event)) if self.undecided.is_some() => {
                (event.as_str(), exchange.end)
            }
            (RecordKind::Event, Some(event)) => (event.as_str(), ExchangeEnd::Complete),
            _ => (exchange.operation, exchange.end),
        };
        let now = SystemTime::now();
        let last = self.store.ring.last();
        let name =
            |name: &str, of: fn(&CallRecord) -> &Arc<str>| shared(name, last.as_deref().map(of));
        let caller = &exchange.caller;
        CallHead {
            seq: 0,
            id: Arc::clone(&exchange.request_id),
            kind: self.kind,
            started_ms: milliseconds(now.checked_sub(elapsed).unwrap_or(now)),
            duration_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            caller: name(&caller.name, |last| &last.caller),
            caller_key: name(caller.short_key(), |last| &last.caller_key),
            agent: name(&caller.agent, |last| &last.agent),
            session: name(&exchange.session_id, |last| &last.session),
            dialect: exchange.api,
            method,
            requested_model: name(&exchange.requested_model, |last| &last.requested_model),
            model: name(&exchange.model, |last| &last.model),
            status: exchange.status,
            action: exchange.action,
            error: exchange.error,
            end,
            rounds: exchange.rounds,
        }
    }

    /// Begins a round with the first attempt to send its request, and records the address.
    fn attempt(&mut self, exchange: &ExchangeSummary, target: &'static str) {
        if let Some(request) = self.waiting.take() {
            if let Some(content) = &mut self.content {
                content.begin_round();
            }
            if let Some(call) = &mut self.call {
                call.send(exchange.micros_now(), request.bytes);
            }
        }
        if let Some(round) = self.call.as_mut().and_then(|call| call.round_mut()) {
            round.upstream = target;
        }
    }

    fn capture(&mut self, part: BodyPart, body: &bytes::Bytes) {
        let start = || Box::new(ContentCapture::new(&self.store, self.settings));
        let content = self.content.get_or_insert_with(start);
        content.add(&self.store, part, body);
    }
}

impl Sink for TraceSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::SessionFound {
                match_kind,
                source,
                sub_agent,
                ..
            } => {
                let found = SessionMatch {
                    result: match_kind,
                    source,
                };
                let sub_agent = sub_agent.map(|name| truncated(name, MAX_NAME_BYTES));
                if let Some(call) = self.call(sub_agent.map_or(0, str::len)) {
                    call.detail.session_match = Some(found);
                    call.detail.sub_agent = sub_agent.map(Box::from);
                }
            }
            ExchangeEvent::Planned { .. } => self.record_plan(exchange, event),
            ExchangeEvent::Reported { event, subject } => {
                self.begin_event(exchange, *event, *subject);
            }
            ExchangeEvent::HookFinished { event, run } => {
                self.count_run(exchange, *event, run);
                self.add_run(*event, run);
                self.add_observed_tools(run);
                let is_policy = self.is_policy(run.rule);
                let (now_us, elapsed_us) = (exchange.micros_now(), whole_microseconds(run.elapsed));
                match self.call(0) {
                    Some(call) if is_policy => call.add_policy_time(now_us, elapsed_us),
                    Some(call) => call.add_hook_time(now_us, elapsed_us),
                    None => (),
                }
            }
            ExchangeEvent::EventDecided(decision) => self.decided(exchange, decision),
            ExchangeEvent::BodyInspected(part, body) => self.capture(*part, body),
            ExchangeEvent::ResponseStarted { .. } => {
                if let Some(call) = &mut self.call {
                    call.detail.times.first_byte_us = Some(exchange.micros_now().into());
                }
            }
            ExchangeEvent::Finished | ExchangeEvent::Closed => self.finish(exchange),
            ExchangeEvent::Sending { body, .. } => {
                let bytes = body.map(|body| body.len() as u64);
                self.waiting = Some(WaitingRequest { bytes });
            }
            ExchangeEvent::UpstreamSelected(target) => self.attempt(exchange, target),
            other if self.call.is_some() => self.record_step(exchange, other),
            _ => (),
        }
    }

    fn needs(&self, what: SinkNeed) -> bool {
        let is_call = self.kind == RecordKind::Call;
        match what {
            SinkNeed::Plans => true,
            SinkNeed::Steps | SinkNeed::Usage => is_call,
            SinkNeed::Content => {
                let is_kept = self.settings.denied_or_edited || self.settings.sample > 0.0;
                is_call && (is_kept || self.store.watched.has_any())
            }
            SinkNeed::Bodies | SinkNeed::Upstream | SinkNeed::Inputs => false,
        }
    }
}

/// Returns a name, which is that of the last record if they are equal: most calls have the same
/// caller, agent and model.
fn shared(name: &str, last: Option<&Arc<str>>) -> Arc<str> {
    let name = truncated(name, MAX_NAME_BYTES);
    let last = last.filter(|last| ***last == *name);
    last.map_or_else(|| Arc::from(name), Arc::clone)
}
