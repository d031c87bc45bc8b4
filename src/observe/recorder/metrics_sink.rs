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
        match event {
            ExchangeEvent::HookFinished { event, run } => {
                metrics.record_hook_run(*event, &run.name, run.status(), run.elapsed);
                if run.is_enforced() {
                    for _call in &run.refused {
                        metrics.record_denial(EventName::BeforeTool);
                    }
                }
            }
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision)
                if decision.verdict >= Action::Deny =>
            {
                metrics.record_denial(decision.event);
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
            ExchangeEvent::StreamAborted { reason } => metrics.record_error(reason),
            ExchangeEvent::Finished => {
                let action = exchange.action.as_str();
                let (operation, status) = (exchange.operation, exchange.status);
                metrics.record_request(operation, status, action, exchange.elapsed);
                metrics.record_chunks(exchange.chunks);
            }
            _ => (),
        }
    }
}
