//! Evaluation of collected exchanges by the shadow's config.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    observe::Metrics,
    recording::{CollectedExchange, ExchangeCollector, ReservedBytes},
    replay::{Comparison, OrderedCall, Replayer, SessionOrder},
};

/// Label of a difference whose rule is not known, as in reports.
const UNKNOWN_RULE: &str = "(unknown)";

/// Evaluates exchanges in the order of their sessions, and counts the results.
pub(super) struct ExchangeEvaluator {
    pub(super) replayer: Arc<Replayer>,
    pub(super) order: SessionOrder,
    pub(super) collector: Arc<ExchangeCollector>,
    pub(super) max_bytes: usize,
    /// Time after which an exchange that others wait for is lost.
    pub(super) lost_after: Duration,
    pub(super) metrics: Arc<Metrics>,
    /// Calls whose turn it is.
    pub(super) ready: VecDeque<OrderedCall>,
    /// Memory of the exchanges that wait or are evaluated, by request id.
    pub(super) held: HashMap<String, ReservedBytes>,
}

impl ExchangeEvaluator {
    /// Evaluates one call, and returns whether it is the turn of more. If it was that of none
    /// before, adds the next exchange.
    pub(super) async fn evaluate(&mut self, next: Option<Box<CollectedExchange>>) -> bool {
        if self.ready.is_empty() {
            self.add(next);
        }
        if let Some(call) = self.ready.pop_front() {
            let comparison = Box::pin(self.replayer.compare(&call)).await;
            if let Some(comparison) = comparison {
                self.count(&comparison);
            }
            self.held.remove(&call.exchange.id);
        }
        !self.ready.is_empty()
    }

    /// Evaluates the exchanges that still wait.
    pub(super) async fn evaluate_rest(&mut self) {
        self.ready.extend(self.order.finish());
        while self.evaluate(None).await {}
    }

    /// Makes it the turn of the next exchange, if there is one, of those that waited for it, and of
    /// those that wait for a lost one. If half of the memory is used, none waits any longer.
    fn add(&mut self, next: Option<Box<CollectedExchange>>) {
        if let Some(collected) = next {
            let (exchange, memory) = collected.into_recorded();
            self.held.insert(exchange.id.clone(), memory);
            self.ready.extend(self.order.push(exchange));
        }
        let stalled = self.order.release_stalled(self.lost_after);
        self.ready.extend(stalled);
        if self.collector.held_bytes() > self.max_bytes / 2 {
            self.ready.extend(self.order.finish());
        }
    }

    fn count(&self, comparison: &Comparison) {
        let verdicts = &self.metrics.shadow_verdicts;
        for change in &comparison.changes {
            let rule = match change.rule.as_str() {
                "" => UNKNOWN_RULE,
                rule => rule,
            };
            let kind = change.kind.as_str().into();
            verdicts.with([rule.to_owned().into(), kind]).inc();
        }
        if comparison.changes.is_empty() {
            let result = comparison.result().into();
            verdicts.with(["".into(), result]).inc();
        }
    }
}
