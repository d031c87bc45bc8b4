//! Records of one request in the decision log: the request before it goes upstream, hook events,
//! and the outcome.

use std::sync::Arc;

use super::{
    body_digest::{BodyDigest, BodyHasher},
    decision_log::{AuditLog, Checkpoint},
    record::{
        AuditRecord, CallSpan, CallerRecord, EventRecord, OutcomeRecord, RejectionRecord,
        RequestRecord, short_name,
    },
    run_stats::RunStats,
};
use crate::{
    event::{EventName, EventOrigin, HookRun, RefusedCall},
    observe::{
        ModelReader,
        recorder::{
            BodySide, CommitFuture, EventDecision, ExchangeEvent, ExchangeSummary, Sink, SinkNeed,
        },
    },
    timestamp::whole_milliseconds,
};

/// Writes the records of one request.
#[derive(Debug)]
pub struct DecisionLogSink {
    audit: Arc<AuditLog>,
    /// Position in the log before the first record of the request.
    since: Checkpoint,
    /// The record if the request is rejected; `None` for a single hook event.
    rejected: Option<Box<RejectionRecord>>,
    has_request_record: bool,
    request_digester: Option<BodyHasher>,
    response_digester: Option<BodyHasher>,
    /// Digest of the request body, until a record holds it.
    received: Option<BodyDigest>,
    /// Digest of the response body.
    sent: Option<BodyDigest>,
    /// Reader of the response's model; `None` until the response begins, and if no spans are
    /// exported.
    model: Option<ModelReader>,
    /// Name and subject of a reported event that is not decided yet.
    reported: Option<(EventName, Option<String>)>,
    /// Runs on the chunks of the response, or on a reported event.
    stats: RunStats,
}

impl DecisionLogSink {
    /// Writes a request to the proxy. `rejected` is its record if it is rejected.
    pub fn for_exchange(audit: Arc<AuditLog>, rejected: RejectionRecord) -> Self {
        let digester = audit.body_hasher();
        Self {
            rejected: Some(Box::new(rejected)),
            request_digester: Some(digester.clone()),
            response_digester: Some(digester),
            ..Self::for_event(audit)
        }
    }

    /// Writes a single hook event.
    pub fn for_event(audit: Arc<AuditLog>) -> Self {
        Self {
            since: audit.checkpoint(),
            audit,
            rejected: None,
            has_request_record: false,
            request_digester: None,
            response_digester: None,
            received: None,
            sent: None,
            model: None,
            reported: None,
            stats: RunStats::default(),
        }
    }

    fn write_event(&self, exchange: &ExchangeSummary, decision: &EventDecision<'_>) {
        if decision.runs.is_empty() && decision.origin == EventOrigin::ModelCall {
            return;
        }
        let mut stats = RunStats::default();
        stats.add_decision(decision);
        let record = stats.into_record(&self.audit, exchange, decision.event, decision.origin);
        let digest = |input| self.audit.body_hasher().digest(input);
        self.audit.append(&AuditRecord::Event(Box::new(EventRecord {
            subject: decision.subject.map(short_name),
            input: decision.input.map(digest),
            chunks: None,
            ..record
        })));
    }

    /// Writes a reported event that was not decided, with the runs on it so far.
    fn write_undecided(&mut self, exchange: &ExchangeSummary) {
        if let Some((event, subject)) = self.reported.take() {
            let stats = std::mem::take(&mut self.stats);
            let record = stats.into_record(&self.audit, exchange, event, EventOrigin::Reported);
            self.audit.append(&AuditRecord::Event(Box::new(EventRecord {
                subject,
                chunks: None,
                verdict: None,
                ended: Some(exchange.end.as_str()),
                ..record
            })));
        }
    }

    /// Writes a call that a policy removed from a response as a `BeforeTool` event.
    fn write_refused_call(&self, exchange: &ExchangeSummary, run: &HookRun, call: &RefusedCall) {
        let stats = RunStats::of_refused_call(run, call);
        let (event, origin) = (EventName::BeforeTool, EventOrigin::ModelCall);
        let record = stats.into_record(&self.audit, exchange, event, origin);
        self.audit.append(&AuditRecord::Event(Box::new(EventRecord {
            subject: Some(short_name(&call.tool)),
            chunks: None,
            ..record
        })));
    }

    /// Writes the runs on the chunks so far as one event.
    fn write_chunks(&mut self, exchange: &ExchangeSummary) {
        let stats = std::mem::take(&mut self.stats);
        if !stats.is_empty() {
            let (event, origin) = (EventName::AfterModel, EventOrigin::ModelCall);
            let record = stats.into_record(&self.audit, exchange, event, origin);
            self.audit.append(&AuditRecord::Event(Box::new(record)));
        }
    }

    /// Writes the request of a round; 0 if none was sent.
    fn write_request(&mut self, exchange: &ExchangeSummary, round: u32, sent: Option<BodyDigest>) {
        self.has_request_record = true;
        self.audit
            .append(&AuditRecord::Request(Box::new(RequestRecord {
                request: exchange.request_id.to_string(),
                trace: exchange.trace,
                round,
                session: short_name(&exchange.session_id),
                caller: CallerRecord::from(&exchange.caller),
                dialect: exchange.dialect,
                method: exchange.operation,
                requested_model: short_name(&exchange.requested_model),
                model: short_name(&exchange.model),
                received: self.received.take(),
                sent,
            })));
    }

    /// Writes what must be in the log before the agent receives a decision.
    fn write_before_reply(&mut self, exchange: &ExchangeSummary) {
        self.write_chunks(exchange);
        if !self.has_request_record {
            self.write_request(exchange, 0, None);
        }
    }

    fn read_response(&mut self, exchange: &ExchangeSummary, piece: &[u8]) {
        if let Some(digester) = &mut self.response_digester {
            digester.update(piece);
        }
        if exchange.trace.is_enabled() {
            let reader = || ModelReader::of_dialect(exchange.dialect);
            self.model.get_or_insert_with(reader).push(piece);
        }
    }

    fn end_body(&mut self, side: BodySide) {
        match side {
            BodySide::Request => {
                self.received = self.request_digester.take().map(BodyHasher::finish);
            }
            BodySide::Response => {
                self.sent = self.response_digester.take().map(BodyHasher::finish);
            }
        }
    }

    fn finish(&mut self, exchange: &ExchangeSummary) {
        let Some(mut rejected) = self.rejected.take() else {
            return;
        };
        if exchange.dialect.is_empty() {
            rejected.request = exchange.request_id.to_string();
            rejected.status = exchange.status;
            rejected.error = exchange.error.unwrap_or_default();
            if exchange.operation != "unknown" {
                rejected.operation = exchange.operation;
            }
            self.audit.append_rejection(*rejected);
            return;
        }
        self.write_before_reply(exchange);
        let outcome = Box::new(self.outcome(exchange));
        self.audit.append(&AuditRecord::Outcome(outcome));
    }

    /// Returns the record of a call that has ended, with the digests of its bodies.
    fn outcome(&mut self, exchange: &ExchangeSummary) -> OutcomeRecord {
        let response_model = self.model.take().and_then(ModelReader::into_model);
        // A response of hookgate's own names a model, too.
        let response_model = response_model.filter(|_| exchange.rounds > 0);
        OutcomeRecord {
            request: exchange.request_id.to_string(),
            session: short_name(&exchange.session_id),
            caller: CallerRecord::from(&exchange.caller),
            call: CallSpan {
                trace: exchange.trace,
                dialect: exchange.dialect,
                method: exchange.operation,
                requested_model: short_name(&exchange.requested_model),
                response_model: short_name(&response_model.unwrap_or_default()),
                elapsed: exchange.elapsed,
            },
            action: exchange.action.as_str(),
            error: exchange.error,
            status: exchange.status,
            ended: exchange.end.as_str(),
            upstream: exchange.upstream,
            rounds: exchange.rounds,
            model: short_name(&exchange.model),
            received: self.received.take(),
            response: self.sent.take(),
            chunks: exchange.chunks,
            usage: exchange.tokens.total(),
            duration_ms: whole_milliseconds(exchange.elapsed),
        }
    }
}

impl Sink for DecisionLogSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::HookFinished { run, .. } => {
                for call in &run.refused {
                    self.write_refused_call(exchange, run, call);
                }
                if self.reported.is_some() {
                    self.stats.add_run(run, 1);
                }
            }
            ExchangeEvent::Reported { event, subject } => {
                self.reported = Some((*event, subject.map(short_name)));
            }
            ExchangeEvent::EventDecided(decision) => {
                self.reported = None;
                self.write_event(exchange, decision);
            }
            ExchangeEvent::ChunkDecided(decision) => self.stats.add_decision(decision),
            ExchangeEvent::PoliciesRan(runs) => {
                runs.iter().for_each(|run| self.stats.add_run(run, 1));
            }
            ExchangeEvent::ChunksPassed { chunks, runs } => {
                self.stats.inspected_chunks += chunks;
                runs.iter()
                    .for_each(|(run, times)| self.stats.add_run(run, *times));
            }
            ExchangeEvent::ChunkToHooks => self.stats.hooked_chunks += 1,
            ExchangeEvent::Sending { body, .. } => {
                self.write_chunks(exchange);
                let sent = body.map(|body| self.audit.body_hasher().digest(body));
                self.write_request(exchange, exchange.rounds + 1, sent);
            }
            ExchangeEvent::Replying => self.write_before_reply(exchange),
            ExchangeEvent::BodyPiece(BodySide::Request, piece) => {
                if let Some(digester) = &mut self.request_digester {
                    digester.update(piece);
                }
            }
            ExchangeEvent::BodyPiece(BodySide::Response, piece) => {
                self.read_response(exchange, piece);
            }
            ExchangeEvent::BodyEnded(side) => self.end_body(*side),
            ExchangeEvent::Finished => self.finish(exchange),
            ExchangeEvent::Closed => self.write_undecided(exchange),
            _ => (),
        }
    }

    /// INVARIANT: a request is in a durable log before it goes upstream, and a decision before
    /// the agent receives it.
    fn commit(&self) -> Option<CommitFuture> {
        self.audit.is_durable().then(|| {
            let (audit, since) = (Arc::clone(&self.audit), self.since);
            Box::pin(async move { audit.commit(since).await }) as CommitFuture
        })
    }

    fn needs(&self, what: SinkNeed) -> bool {
        match what {
            SinkNeed::Bodies | SinkNeed::Usage => self.rejected.is_some(),
            SinkNeed::Inputs => self.audit.stores_content(),
            SinkNeed::Upstream | SinkNeed::Plans | SinkNeed::Steps | SinkNeed::Content => false,
        }
    }
}
