//! Sink that counts requests and their events in the metrics.

use std::sync::Arc;

use super::{event::ExchangeEvent, exchange_summary::ExchangeSummary, sink::Sink};
use crate::{
    event::{Action, EventName, HookStatus},
    observe::metrics::Metrics,
};

/// Counts requests, hook runs, denials, session lookups and streams that an error breaks off.
#[derive(Debug)]
pub struct MetricsSink(pub Arc<Metrics>);

impl Sink for MetricsSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let metrics = &self.0;
        let denied = |event: EventName| metrics.denials.with([event.as_str().into()]).inc();
        match event {
            ExchangeEvent::HookFinished { event, run } => {
                metrics.record_hook_run(*event, &run.name, run.status(), run.elapsed);
                if run.is_enforced() {
                    for _call in &run.refused {
                        denied(EventName::BeforeTool);
                    }
                }
            }
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision)
                if decision.verdict >= Action::Deny =>
            {
                denied(decision.event);
            }
            ExchangeEvent::ChunksPassed { runs, .. } => {
                for (run, times) in *runs {
                    metrics.count_hook_runs(
                        EventName::AfterModel,
                        &run.name,
                        HookStatus::Ok,
                        *times,
                    );
                }
            }
            ExchangeEvent::SessionFound {
                match_kind, source, ..
            } => metrics.record_session_lookup(match_kind, source),
            ExchangeEvent::StreamAborted { reason } => {
                metrics.errors.with([(*reason).into()]).inc();
            }
            ExchangeEvent::Finished => {
                let action = exchange.action.as_str();
                let (operation, status) = (exchange.operation, exchange.status);
                metrics.record_request(operation, status, action, exchange.elapsed);
                metrics.chunks.inc_by(exchange.chunks);
            }
            _ => (),
        }
    }
}
