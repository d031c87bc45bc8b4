//! The live trace of a snapshot: the store that survives reloads, with the rules and limits of
//! one config.

use std::sync::Arc;

use crate::{
    config::TraceSettings,
    observe::{
        recorder::Sink,
        trace::{
            ContentLimits, RecordKind, RuleIdentity, RuleSummary, TraceLimits, TraceSink,
            TraceStore, TracedRules,
        },
    },
};

/// The live trace with the rules and limits of one config.
#[derive(Debug)]
pub struct LiveTrace {
    /// Records, statistics and denials.
    pub store: Arc<TraceStore>,
    rules: TracedRules,
    limits: TraceLimits,
}

impl LiveTrace {
    pub(super) fn new(
        store: &Arc<TraceStore>,
        rules: &[RuleIdentity],
        settings: &TraceSettings,
    ) -> Self {
        Self {
            rules: store.register(rules),
            store: Arc::clone(store),
            limits: limits(settings),
        }
    }

    /// Returns the rules of the config with their statistics, in order.
    pub fn rules(&self) -> Vec<RuleSummary> {
        let rules = self.rules.iter().flatten();
        rules.map(|rule| rule.summary()).collect()
    }

    /// Applies the limits, once the snapshot is in use.
    pub(super) fn start(&self) {
        self.store.configure(&self.limits);
    }

    /// Returns the sink of one exchange; `None` if the trace is disabled or full.
    pub(super) fn sink(&self, kind: RecordKind) -> Option<Box<dyn Sink>> {
        if self.limits.exchanges == 0 {
            return None;
        }
        let sink = TraceSink::new(&self.store, &self.rules, self.limits.content, kind)?;
        Some(Box::new(sink))
    }
}

fn limits(settings: &TraceSettings) -> TraceLimits {
    let content = &settings.content;
    TraceLimits {
        exchanges: settings.exchanges,
        memory: settings.memory,
        content: ContentLimits {
            denied_or_edited: content.denied_or_edited,
            sample: content.sample,
            reasons: content.reasons,
            memory: content.memory,
            retention: content.retention,
        },
    }
}
