//! Evaluation of collected exchanges by the shadow's config.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    observe::Metrics,
    recording::{CollectedExchange, ExchangeCollector, ReservedBytes},
    replay::{Comparison, OrderedCall, SerialReplay},
};

/// Label of a difference whose rule is not known, as in reports.
const UNKNOWN_RULE: &str = "(unknown)";

/// Evaluates exchanges in the order of their sessions, and counts the results.
pub(super) struct ExchangeEvaluator {
    pub(super) replay: SerialReplay,
    pub(super) collector: Arc<ExchangeCollector>,
    pub(super) max_bytes: usize,
    /// Time after which an exchange that others wait for is lost.
    pub(super) lost_after: Duration,
    pub(super) metrics: Arc<Metrics>,
    /// Memory of the exchanges that wait for earlier ones or are evaluated, by request id.
    pub(super) held: HashMap<String, ReservedBytes>,
}

impl ExchangeEvaluator {
    /// Evaluates the next exchange, if there is one, those that waited for it, and those that wait for
    /// a lost one. If half of the memory is used, none waits any longer.
    pub(super) async fn evaluate(&mut self, next: Option<Box<CollectedExchange>>) {
        let mut calls = Vec::new();
        if let Some(collected) = next {
            let (exchange, memory) = collected.into_recorded();
            self.held.insert(exchange.id.clone(), memory);
            calls = self.replay.push(exchange);
        }
        calls.extend(self.replay.release_stalled(self.lost_after));
        if self.collector.held_bytes() > self.max_bytes / 2 {
            calls.extend(self.replay.release());
        }
        self.evaluate_calls(calls).await;
    }

    /// Evaluates the exchanges that still wait.
    pub(super) async fn evaluate_rest(&mut self) {
        let calls = self.replay.release();
        self.evaluate_calls(calls).await;
    }

    async fn evaluate_calls(&mut self, calls: Vec<OrderedCall>) {
        for call in calls {
            let comparison = Box::pin(self.replay.compare(&call)).await;
            if let Some(comparison) = comparison {
                self.count(&comparison);
            }
            self.held.remove(&call.exchange.id);
        }
    }

    fn count(&self, comparison: &Comparison) {
        for change in &comparison.changes {
            let rule = match change.rule.as_str() {
                "" => UNKNOWN_RULE,
                rule => rule,
            };
            let kind = change.kind.as_str();
            self.metrics.record_shadow_verdict(rule, kind);
        }
        if comparison.changes.is_empty() {
            self.metrics.record_shadow_verdict("", comparison.result());
        }
    }
}
