//! Collects the events of one exchange for its recording.

use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;

use super::{
    collector::ExchangeCollector,
    format::{
        RecordedEvent, RecordedExchange, RecordedOutcome, RecordedRefusal, RecordedRun,
        RecordedSession,
    },
    raw_exchange::{CollectedExchange, ITEM_BYTES, RawResponse, RawRound, WirePiece},
    recorder::RuleDefinition,
    request_head::{response_head, without_credentials},
};
use crate::{
    config::RecordedKind,
    event::{Action, Caller, EventName, EventOrigin, HookOutput, HookRun},
    observe::recorder::{
        BodySide, EventDecision, ExchangeAction, ExchangeEvent, ExchangeSummary, Sink, SinkNeed,
    },
    timestamp::whole_milliseconds,
};

/// Collects the events of one exchange.
#[derive(Debug)]
pub struct RecordingSink {
    collector: Arc<ExchangeCollector>,
    rules: Arc<[RuleDefinition]>,
    revision: Arc<str>,
    /// The exchange, unless it is not in the sample, or there is no memory for it.
    raw: Option<Box<CollectedExchange>>,
    /// True if the exchange is in the sample; `None` until its session is known.
    is_sampled: Option<bool>,
    /// True if something was edited or answered, also if the exchange ended otherwise.
    is_edited: bool,
}

impl RecordingSink {
    /// Returns the sink of an exchange with this head, which arrived at this time.
    pub fn new(
        collector: &Arc<ExchangeCollector>,
        rules: &Arc<[RuleDefinition]>,
        revision: &Arc<str>,
        head: &Parts,
        started: SystemTime,
    ) -> Self {
        let mut raw = CollectedExchange::new(head, started, collector.reserve());
        let bytes = raw.head_bytes();
        let is_reserved = raw.memory.grow(bytes);
        Self {
            collector: Arc::clone(collector),
            rules: Arc::clone(rules),
            revision: Arc::clone(revision),
            raw: is_reserved.then(|| Box::new(raw)),
            is_sampled: None,
            is_edited: false,
        }
    }

    /// Returns the exchange, once there is memory for `bytes` more of it.
    fn raw(&mut self, bytes: usize) -> Option<&mut CollectedExchange> {
        if !self.raw.as_mut()?.memory.grow(bytes + ITEM_BYTES) {
            self.raw = None;
        }
        self.raw.as_deref_mut()
    }

    /// Decides whether the exchange is recorded, unless that is decided. Also a call that is not
    /// recorded has its place in the session, so that the gap can be seen.
    fn decide(&mut self, exchange: &ExchangeSummary) {
        if self.is_sampled.is_some() {
            return;
        }
        let (id, request) = (&exchange.session_id, &*exchange.request_id);
        let is_sampled = self.collector.is_sampled(id, request);
        self.is_sampled = Some(is_sampled);
        let is_counted = !id.is_empty() && self.collector.samples_session(id);
        let caller = &exchange.caller;
        let place = is_counted.then(|| self.collector.next_place(caller, id));
        self.raw.take_if(|_| !is_sampled);
        if let Some(raw) = &mut self.raw {
            raw.line.session = place.map(|place| RecordedSession {
                id: id.clone(),
                place,
                source: "named".to_owned(),
                match_kind: "named".to_owned(),
                ..RecordedSession::default()
            });
        }
    }

    /// Records how the session of the exchange was found.
    fn record_session(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        self.decide(exchange);
        let session = self.raw.as_mut().and_then(|raw| raw.line.session.as_mut());
        if let ExchangeEvent::SessionFound {
            match_kind,
            source,
            parent,
            reported,
            ..
        } = event
            && let Some(session) = session
        {
            (*match_kind).clone_into(&mut session.match_kind);
            (*source).clone_into(&mut session.source);
            session.parent = parent.map(str::to_owned);
            let reported = reported.iter();
            session.reported = reported.map(|event| event.as_str().to_owned()).collect();
        }
    }

    /// Records an event with the runs on it, its time and its round.
    fn add_event(&mut self, exchange: &ExchangeSummary, event: RecordedEvent, runs: &[HookRun]) {
        if self.raw.is_none() {
            return;
        }
        let rule = |run: &HookRun| self.rules.get(run.rule.0 as usize);
        let hooks = runs.iter();
        let hooks: Vec<RecordedRun> = hooks.map(|run| recorded_run(run, rule(run))).collect();
        let outputs: usize = hooks.iter().map(output_bytes).sum();
        let inputs: Vec<Bytes> = runs.iter().map(|run| run.input.clone()).collect();
        let texts: usize = inputs.iter().map(Bytes::len).sum();
        let facts = [&event.subject, &event.reason];
        let facts: usize = facts.into_iter().flatten().map(String::len).sum();
        if let Some(raw) = self.raw(texts + outputs + facts) {
            let event = RecordedEvent {
                ms: milliseconds(exchange),
                round: u32::try_from(raw.rounds.len()).unwrap_or(u32::MAX),
                hooks,
                ..event
            };
            raw.events.push((event, inputs));
        }
    }

    /// Records what happens between the gateway and the model API.
    fn record_upstream(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let ms = milliseconds(exchange);
        match event {
            ExchangeEvent::Sending { target, body, .. } => {
                self.decide(exchange);
                // An unedited body shares its memory with the request or the round before.
                let raw = self.raw.as_deref();
                let is_shared = |body: &Bytes| raw.is_some_and(|raw| raw.shares_body(body));
                let bytes = body.filter(|body| !is_shared(body)).map_or(0, Bytes::len);
                if let Some(raw) = self.raw(bytes + target.len()) {
                    raw.rounds.push(RawRound {
                        ms,
                        target: without_credentials(target),
                        sent: body.cloned(),
                        response: None,
                    });
                }
            }
            ExchangeEvent::UpstreamHead { status, headers } => {
                if let Some(round) = self.raw(ITEM_BYTES).and_then(|raw| raw.rounds.last_mut()) {
                    round.response = Some(RawResponse {
                        ms,
                        status: *status,
                        head: response_head(headers),
                        ..RawResponse::default()
                    });
                }
            }
            ExchangeEvent::UpstreamPiece(piece) => {
                let bytes = piece.map_or(0, Bytes::len);
                let round = self.raw(bytes).and_then(|raw| raw.rounds.last_mut());
                let response = round.and_then(|round| round.response.as_mut());
                match (response, piece) {
                    (Some(response), Some(piece)) => {
                        response.pieces.push(WirePiece::new(ms, piece));
                    }
                    (Some(response), None) => response.is_complete = true,
                    (None, _) => (),
                }
            }
            _ => (),
        }
    }

    /// Records what happens between the agent and the gateway.
    fn record_agent(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let ms = milliseconds(exchange);
        match event {
            ExchangeEvent::BodyPiece(side, piece) => {
                let Some(raw) = self.raw(piece.len()) else {
                    return;
                };
                match side {
                    BodySide::Request => raw.received.push(WirePiece::new(ms, piece)),
                    BodySide::Response => {
                        let answer = raw.answer.get_or_insert_default();
                        answer.pieces.push(WirePiece::new(ms, piece));
                    }
                }
            }
            ExchangeEvent::RequestRead(body) => {
                if let Some(raw) = self.raw(0) {
                    raw.drop_received();
                }
                if let Some(raw) = self.raw(body.len()) {
                    raw.request = Some((*body).clone());
                }
            }
            ExchangeEvent::ResponseStarted { status } | ExchangeEvent::Failed { status, .. } => {
                if let Some(raw) = self.raw(0) {
                    let answer = raw.answer.get_or_insert_default();
                    (answer.ms, answer.status) = (ms, *status);
                }
            }
            _ => (),
        }
    }

    /// Returns whether the config selects an exchange by what happened to it.
    fn is_selected(&self, exchange: &ExchangeSummary, raw: &CollectedExchange) -> bool {
        let mut verdicts = raw.events.iter().map(|(event, _)| event.verdict.as_str());
        let is_denied = raw.line.outcome.tool_denied
            || matches!(exchange.action, ExchangeAction::Deny | ExchangeAction::Stop)
            || verdicts.any(|verdict| matches!(verdict, "deny" | "stop"));
        self.collector.collects(|kind| match kind {
            RecordedKind::All => true,
            RecordedKind::Denied => is_denied,
            RecordedKind::Edited => self.is_edited,
        })
    }

    fn finish(&mut self, exchange: &ExchangeSummary) {
        self.decide(exchange);
        let Some(mut raw) = self.raw.take() else {
            if self.is_sampled == Some(true) {
                self.collector.count_dropped();
            }
            return;
        };
        if !self.is_selected(exchange, &raw) {
            return;
        }
        let tool_denied = raw.line.outcome.tool_denied;
        raw.line = RecordedExchange {
            id: exchange.request_id.to_string(),
            revision: self.revision.to_string(),
            caller: exchange.caller.name.clone(),
            caller_key: caller_key(&exchange.caller).to_owned(),
            dialect: exchange.api.to_owned(),
            operation: exchange.operation.to_owned(),
            outcome: RecordedOutcome {
                tool_denied,
                ..recorded_outcome(exchange)
            },
            ..raw.line
        };
        self.collector.push(raw);
    }
}

impl Sink for RecordingSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::SessionFound { .. } => self.record_session(exchange, event),
            ExchangeEvent::EventDecided(decision) if !decision.runs.is_empty() => {
                self.add_event(exchange, recorded_event(decision), decision.runs);
            }
            ExchangeEvent::ChunkDecided(decision) if decision.runs.iter().any(has_effect) => {
                self.add_event(exchange, recorded_event(decision), decision.runs);
            }
            // Without an output, policies may have edited the chunk or removed calls.
            ExchangeEvent::PoliciesRan(runs) if runs.iter().any(has_effect) => {
                let event = RecordedEvent {
                    name: EventName::AfterModel.as_str().to_owned(),
                    origin: EventOrigin::ModelCall.as_str().to_owned(),
                    verdict: Action::Proceed.as_str().to_owned(),
                    ..RecordedEvent::default()
                };
                self.add_event(exchange, event, runs);
            }
            ExchangeEvent::ActionTaken(ExchangeAction::Edit | ExchangeAction::Respond) => {
                self.is_edited = true;
            }
            ExchangeEvent::ToolCallDenied { .. } => {
                if let Some(raw) = self.raw(0) {
                    raw.line.outcome.tool_denied = true;
                }
            }
            ExchangeEvent::Finished => self.finish(exchange),
            ExchangeEvent::Sending { .. }
            | ExchangeEvent::UpstreamHead { .. }
            | ExchangeEvent::UpstreamPiece(_) => self.record_upstream(exchange, event),
            other => self.record_agent(exchange, other),
        }
    }

    fn needs(&self, what: SinkNeed) -> bool {
        self.raw.is_some() && matches!(what, SinkNeed::Bodies | SinkNeed::Upstream)
    }
}

/// Returns what keeps a caller without a name apart from others, and what rules compare.
fn caller_key(caller: &Caller) -> &str {
    if caller.name.is_empty() {
        &caller.key
    } else {
        ""
    }
}

/// Returns the end of an exchange in the form of a recording, without denied tool calls. An error
/// that broke off a response is omitted: a replay of the recorded, truncated answer breaks off with
/// another reason.
pub fn recorded_outcome(exchange: &ExchangeSummary) -> RecordedOutcome {
    let is_error_response = exchange.action == ExchangeAction::Error;
    RecordedOutcome {
        action: exchange.action.as_str().to_owned(),
        error: exchange
            .error
            .filter(|_| is_error_response)
            .map(str::to_owned),
        end: exchange.end.as_str().to_owned(),
        tool_denied: false,
        ms: whole_milliseconds(exchange.elapsed),
    }
}

/// Returns a run in the form of a recording, without its input. `rule` has its definition, if that
/// is recorded.
pub fn recorded_run(run: &HookRun, rule: Option<&RuleDefinition>) -> RecordedRun {
    let output = &run.result.output;
    let is_empty = *output == HookOutput::default();
    let refused = run.refused.iter();
    RecordedRun {
        name: run.name.clone(),
        kind: rule.map_or_else(String::new, |rule| rule.kind.clone()),
        definition: rule.map_or_else(String::new, |rule| rule.definition.clone()),
        input: None,
        status: run.status().as_str().to_owned(),
        output: if is_empty {
            Value::Null
        } else {
            serde_json::to_value(output).unwrap_or_default()
        },
        ms: whole_milliseconds(run.elapsed),
        action: run.action.as_str().to_owned(),
        would: run.would.map(|action| action.as_str().to_owned()),
        edited: run.edited,
        refused: refused
            .map(|call| RecordedRefusal {
                tool: call.tool.clone(),
                reason: call.reason.clone(),
            })
            .collect(),
    }
}

fn recorded_event(decision: &EventDecision<'_>) -> RecordedEvent {
    RecordedEvent {
        name: decision.event.as_str().to_owned(),
        origin: decision.origin.as_str().to_owned(),
        subject: decision.subject.map(str::to_owned),
        verdict: decision.verdict.as_str().to_owned(),
        reason: decision.reason(),
        ..RecordedEvent::default()
    }
}

/// Returns the approximate size of a run with its output.
fn output_bytes(run: &RecordedRun) -> usize {
    match &run.output {
        Value::Null => 256,
        output => 256 + output.to_string().len(),
    }
}

/// Returns whether a run on a chunk is recorded: hooks always, policies with an effect.
fn has_effect(run: &HookRun) -> bool {
    !run.input.is_empty() || run.edited || !run.refused.is_empty() || run.has_output()
}

fn milliseconds(exchange: &ExchangeSummary) -> u64 {
    u64::from(exchange.micros_now()) / 1000
}

#[cfg(test)]
mod tests {
    use http::Request;
    use prometheus_client::metrics::counter::Counter;

    use super::*;
    use crate::config::RecordSelection;

    /// Bytes that exchanges share in these tests.
    const MAX_BYTES: usize = 64 * 1024 * 1024;

    fn collector() -> Arc<ExchangeCollector> {
        let (what, dropped) = (RecordSelection::default(), Counter::default());
        let queue = Box::new(|_| true);
        Arc::new(ExchangeCollector::new(what, MAX_BYTES, queue, dropped))
    }

    fn sink(collector: &Arc<ExchangeCollector>, user_agent: &str) -> RecordingSink {
        let request = Request::get("/path").header("user-agent", user_agent);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let (rules, revision) = (Arc::from([]), Arc::from("r"));
        RecordingSink::new(collector, &rules, &revision, &head, SystemTime::now())
    }

    fn summary() -> ExchangeSummary {
        ExchangeSummary::new("id".into(), Caller::default())
    }

    #[test]
    fn the_head_counts_as_memory() {
        let collector = collector();
        let user_agent = "x".repeat(30_000);

        let sinks: Vec<_> = (0..10).map(|_| sink(&collector, &user_agent)).collect();

        let held = collector.held_bytes();
        assert!(held > sinks.len() * user_agent.len(), "{held}");
        drop(sinks);
        assert_eq!(collector.held_bytes(), 0);
        let sinks: Vec<_> = (0..3000).map(|_| sink(&collector, &user_agent)).collect();
        assert!(sinks.iter().any(|sink| sink.raw.is_none()));
    }

    #[test]
    fn subject_and_reason_of_an_event_count_as_memory() {
        let collector = collector();
        let mut sink = sink(&collector, "");
        let before = collector.held_bytes();
        let subject = "x".repeat(10_000);
        let event = RecordedEvent {
            subject: Some(subject.clone()),
            reason: Some(subject.clone()),
            ..RecordedEvent::default()
        };

        sink.add_event(&summary(), event, &[]);

        assert!(collector.held_bytes() > before + 2 * subject.len());
    }

    #[test]
    fn an_unedited_request_counts_once_in_all_rounds() {
        let collector = collector();
        let mut sink = sink(&collector, "");
        let exchange = summary();
        let edited = Bytes::from(vec![b'y'; 3_000_000]);
        let body = Bytes::from(vec![b'x'; 9_000_000]);
        sink.record(&exchange, &ExchangeEvent::RequestRead(&body));
        for sent in [&body, &body, &edited, &edited, &edited] {
            let sending = ExchangeEvent::Sending {
                model: "m",
                target: "/path",
                body: Some(sent),
            };
            sink.record(&exchange, &sending);
        }

        let raw = sink.raw.as_ref();
        assert_eq!(raw.map(|raw| raw.rounds.len()), Some(5));
        let held = collector.held_bytes();
        assert!((12_000_000..12_010_000).contains(&held), "{held}");
    }
}
