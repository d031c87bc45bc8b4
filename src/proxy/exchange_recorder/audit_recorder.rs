//! What the decision log is told of one model call: that it goes upstream, what
//! hooks did on the chunks of its answer, and what came of it.

use std::sync::Arc;

use serde_json::Value;

use super::body_digest::Side;
use crate::{
    audit_log::{
        Audit, CallRecord, CallerRecord, Mark, OutcomeRecord, Record, RefusedRecord, RequestRecord,
        Sample, Usage, short,
    },
    dialect::Call,
    event::{Context, EventName},
    hook::RunStats,
    observe::ExchangeFinished,
};

/// What is remembered of one call for the log.
#[derive(Debug)]
pub(super) struct Trail {
    pub(super) audit: Arc<Audit>,
    /// From before the first line about the call.
    pub(super) since: Mark,
    /// What is told if it turns out to be no call.
    refused: RefusedRecord,
    context: Context,
    dialect: &'static str,
    asked: String,
    /// How often upstream was called.
    rounds: u32,
    /// Whether the log knows of the call.
    is_told: bool,
    received: Option<Sample>,
    told: Option<Sample>,
    tally: RunStats,
    /// Of the answers before this one.
    spent: Option<Usage>,
    /// Of this one, so far.
    usage: Option<Usage>,
    error: Option<&'static str>,
    /// The model that says it has answered.
    answered: String,
}

impl Trail {
    pub(super) fn new(audit: Arc<Audit>, refused: RefusedRecord) -> Self {
        Self {
            since: audit.mark(),
            audit,
            refused,
            context: Context::default(),
            dialect: "",
            asked: String::new(),
            rounds: 0,
            is_told: false,
            received: None,
            told: None,
            tally: RunStats::default(),
            spent: None,
            usage: None,
            error: None,
            answered: String::new(),
        }
    }

    /// It is a call of this caller.
    pub(super) fn opened(&mut self, dialect: &'static str, context: &Context) {
        self.context = context.clone();
        self.dialect = dialect;
    }

    /// The agent asks for this model, and names its session, if it does.
    pub(super) fn asks(&mut self, call: &Call, session: &str) {
        self.session(session);
        self.asked = short(call.model_name());
    }

    pub(super) fn session(&mut self, id: &str) {
        id.clone_into(&mut self.context.session_id);
    }

    pub(super) fn failed(&mut self, reason: &'static str) {
        self.error = Some(reason);
    }

    pub(super) fn sampled(&mut self, side: Side, sample: Sample) {
        match side {
            Side::Request => self.received = Some(sample),
            Side::Response => self.told = Some(sample),
        }
    }

    /// The answer counts so many tokens up to here.
    pub(super) fn usage(&mut self, counted: &Value) {
        self.usage = read_usage(counted).or(self.usage);
    }

    /// The whole answer, which nobody read, ends with this count.
    pub(super) fn usage_at_end(&mut self, counted: &Value) {
        if self.usage.is_none() && self.spent.is_none() {
            self.usage = read_usage(counted);
        }
    }

    /// The answer says which model it is of.
    pub(super) fn answered(&mut self, model: &str) {
        self.answered = short(model);
    }

    pub(super) fn tally(&mut self) -> &mut RunStats {
        &mut self.tally
    }

    /// Upstream is about to be called with this body, or with one that nobody
    /// reads.
    pub(super) fn sends(&mut self, now: &ExchangeFinished, body: Option<&[u8]>) {
        self.rounds += 1;
        self.spent = add(self.spent, self.usage.take());
        let sent = body.map(|it| self.audit.sampler().of(it));
        self.tell_request(now, sent);
    }

    /// Something that hooks decided is about to be told to the agent.
    pub(super) fn settles(&mut self, now: &ExchangeFinished) {
        self.tell_tally();
        if !self.is_told {
            self.tell_request(now, None);
        }
    }

    /// The call is over.
    pub(super) fn finish(mut self, end: &ExchangeFinished) {
        if self.dialect.is_empty() {
            self.refused.request = end.request_id.to_string();
            self.refused.status = end.status;
            self.refused.error = self.error.unwrap_or_default();
            if end.operation != "unknown" {
                self.refused.operation = end.operation;
            }
            self.audit.refused(self.refused);
            return;
        }
        self.settles(end);
        let outcome = OutcomeRecord {
            request: end.request_id.to_string(),
            session: short(&self.context.session_id),
            caller: CallerRecord::from(&self.context.caller),
            call: CallRecord {
                trace: self.context.trace,
                dialect: self.dialect,
                method: end.operation,
                asked: self.asked,
                answered: self.answered,
                elapsed: end.elapsed,
            },
            action: end.action,
            error: self.error,
            status: end.status,
            ended: end.ended.as_str(),
            upstream: end.upstream,
            rounds: self.rounds,
            called: short(&end.model),
            received: self.received.take(),
            told: self.told.take(),
            chunks: end.chunks,
            usage: add(self.spent, self.usage),
            duration_ms: u64::try_from(end.elapsed.as_millis()).unwrap_or(u64::MAX),
        };
        self.audit.tell(&Record::Outcome(Box::new(outcome)));
    }

    fn tell_request(&mut self, now: &ExchangeFinished, sent: Option<Sample>) {
        let request = RequestRecord {
            request: self.context.request_id.clone(),
            trace: self.context.trace,
            round: self.rounds,
            session: short(&self.context.session_id),
            caller: CallerRecord::from(&self.context.caller),
            dialect: self.dialect,
            method: now.operation,
            asked: self.asked.clone(),
            called: short(&now.model),
            received: self.received.take(),
            sent,
        };
        self.is_told = true;
        self.audit.tell(&Record::Request(Box::new(request)));
    }

    fn tell_tally(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        if !tally.is_empty() {
            let event = EventName::AfterModel;
            let told = tally.into_record(&self.audit, &self.context, event, "call");
            self.audit.tell(&Record::Event(Box::new(told)));
        }
    }
}

/// Counts as upstream writes them.
fn read_usage(counted: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.iter().find_map(|it| counted.get(it)?.as_u64());
    let usage = Usage {
        prompt: count(["promptTokenCount", "prompt_token_count"]),
        candidates: count(["candidatesTokenCount", "candidates_token_count"]),
        total: count(["totalTokenCount", "total_token_count"]),
    };
    (usage != Usage::default()).then_some(usage)
}

fn add(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    match (one, other) {
        (Some(one), Some(other)) => Some(Usage {
            prompt: sum(one.prompt, other.prompt),
            candidates: sum(one.candidates, other.candidates),
            total: sum(one.total, other.total),
        }),
        (one, other) => one.or(other),
    }
}
