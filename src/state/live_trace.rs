//! The live trace of a snapshot: the store that survives reloads, with the rules and settings of
//! one config.

use std::sync::Arc;

use crate::{
    config::{Config, TraceSettings},
    event::RuleId,
    observe::{
        recorder::Sink,
        redaction::MaskPatterns,
        trace::{
            RecordKind, RuleIdentity, RulePosition, RuleSummary, TraceSink, TraceStore,
            TracedRules, truncated_rule_name,
        },
    },
    policy::redact_patterns,
};

/// The live trace with the rules and settings of one config.
#[derive(Debug)]
pub struct LiveTrace {
    /// Records, statistics and denials.
    pub store: Arc<TraceStore>,
    rules: TracedRules,
    settings: TraceSettings,
    /// Patterns of `redact` policies, which are masked in content.
    patterns: MaskPatterns,
}

impl LiveTrace {
    /// Returns the trace of a config built after `previous`. `beside` is that of the config in
    /// use, if the new one is rolled out.
    pub(super) fn new(
        store: &Arc<TraceStore>,
        rules: &[RuleIdentity],
        config: &Config,
        previous: Option<&Self>,
        beside: Option<&Self>,
    ) -> Self {
        let previous = previous.map(|trace| &trace.rules);
        let beside = beside.map(|trace| &trace.rules);
        Self {
            rules: store.register(rules, previous, beside),
            store: Arc::clone(store),
            settings: config.trace,
            patterns: redact_patterns(config),
        }
    }

    /// Returns the rules of the config with their statistics, in order.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, RuleSummary)> {
        let rules = (0..).map(RuleId).zip(self.rules.iter());
        rules.filter_map(|(id, rule)| Some((id, rule.as_ref()?.summary())))
    }

    /// Returns a rule of the config.
    pub(super) fn identity(&self, rule: RuleId) -> Option<&RuleIdentity> {
        let index = usize::try_from(rule.0).ok()?;
        Some(&self.rules.get(index)?.as_ref()?.identity)
    }

    /// Returns the numbers of rules that are equal to this one.
    pub(super) fn equal_rules(&self, identity: &RuleIdentity) -> impl Iterator<Item = RuleId> {
        let rules = (0..).map(RuleId).zip(self.rules.iter());
        rules.filter_map(move |(id, rule)| (rule.as_ref()?.identity == *identity).then_some(id))
    }

    /// Returns whether the config has a rule on this line with this name. Both names are truncated
    /// as in groups of denials.
    pub fn has_rule(&self, name: &str, at: &RulePosition) -> bool {
        let name = truncated_rule_name(name);
        let mut rules = self.rules.iter().flatten().map(|rule| &rule.identity);
        rules.any(|rule| truncated_rule_name(&rule.name) == name && rule.at == *at)
    }

    /// Applies the settings, once the snapshot is in use.
    pub(super) fn start(&self) {
        self.store.configure(&self.settings, &self.patterns);
    }

    /// Returns the sink of one exchange; `None` if the trace is disabled or full.
    pub(super) fn sink(&self, kind: RecordKind) -> Option<Box<dyn Sink>> {
        if self.settings.exchanges == 0 {
            return None;
        }
        let sink = TraceSink::new(&self.store, &self.rules, self.settings.content, kind)?;
        Some(Box::new(sink))
    }
}
