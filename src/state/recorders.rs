//! Creates recorders with the sinks of a snapshot.

use std::sync::Arc;

use http::request::Parts;
use tokio_util::sync::CancellationToken;

use super::{replay_input::ReplayInput, snapshot::Snapshot};
use crate::{
    audit_log::{DecisionLogSink, RejectionRecord},
    event::Context,
    observe::{
        recorder::{ExchangeSummary, LogSink, MetricsSink, Recorder, Sink},
        trace::RecordKind,
    },
};

impl Snapshot {
    /// Creates the recorder of a request to the proxy with this head. `rejected` creates its
    /// decision log record if it is rejected.
    pub fn exchange_recorder(
        &self,
        exchange: ExchangeSummary,
        head: &Parts,
        rejected: impl FnOnce() -> RejectionRecord,
        aborted: CancellationToken,
    ) -> Recorder {
        let log = self.audit.clone();
        let log = log.map(|audit| DecisionLogSink::for_exchange(audit, rejected()));
        let trace = self.trace.sink(RecordKind::Call);
        let is_traced = trace.is_some();
        let mut sinks = self.sinks(log, trace);
        sinks.extend(self.recordings.sinks(&exchange.caller.name, head));
        let replay = head.extensions.get::<ReplayInput>();
        sinks.extend(replay.and_then(ReplayInput::take_sink));
        let recorder = Recorder::for_exchange(exchange, sinks, aborted);
        if is_traced {
            recorder.list_in(self.trace.store.exchanges_in_flight());
        }
        recorder
    }

    /// Creates the recorder of a single hook event. `aborted` is cancelled when shutdown aborts
    /// requests.
    pub fn event_recorder(&self, context: &Context, aborted: CancellationToken) -> Recorder {
        let log = self.audit.clone().map(DecisionLogSink::for_event);
        let sinks = self.sinks(log, self.trace.sink(RecordKind::Event));
        Recorder::for_event(ExchangeSummary::from_context(context), sinks, aborted)
    }

    fn sinks(
        &self,
        decision_log: Option<DecisionLogSink>,
        trace: Option<Box<dyn Sink>>,
    ) -> Vec<Box<dyn Sink>> {
        let metrics = MetricsSink(Arc::clone(&self.metrics));
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(metrics)];
        // The calls of a trial are not those of an agent.
        match &self.tracer {
            Some(tracer) => sinks.push(Box::new(Arc::clone(tracer))),
            None => sinks.push(Box::new(LogSink)),
        }
        if let Some(rollout) = &self.rollout {
            sinks.push(Box::new(rollout.sink()));
        }
        if let Some(decision_log) = decision_log {
            sinks.push(Box::new(decision_log));
        }
        sinks.extend(trace);
        sinks
    }
}
