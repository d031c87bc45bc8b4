//! Policies of a table, each on all or one of its events.

use std::sync::Arc;

use super::TableBuilder;
use crate::{
    config::{Matcher, PolicySpec, SourceSpan},
    event::EventName,
    hook::{
        configured_policy::ConfiguredPolicy,
        rule_identity::{policy_definition, policy_rule},
        tool_matcher::ToolMatcher,
    },
    policy,
};

impl TableBuilder<'_> {
    /// Adds a policy on all of its events.
    pub(super) fn add_policy(&mut self, spec: &PolicySpec) {
        let events = policy::find(&spec.policy).map_or(&[][..], |kind| kind.events);
        let matcher = self.matcher(&Matcher::default(), "");
        let counter = self.counter_name(spec, None);
        self.add_policy_on(events, &matcher, spec, counter);
    }

    /// Returns the name of a policy's counters. Without a name, the first policy has its own, the
    /// second one has, and so on; the first hook of each event shares one, too. INVARIANT: no
    /// policy of another bundle has the counters of a locked one.
    fn counter_name(&mut self, spec: &PolicySpec, event: Option<EventName>) -> String {
        let label = spec.label().to_owned();
        if spec.name.is_some() {
            return label;
        }
        let bundle = if self.is_locked(&spec.span) {
            "locked "
        } else {
            ""
        };
        let number = self.unnamed.entry((spec.policy.clone(), event, bundle));
        let number = number.and_modify(|number| *number += 1).or_insert(1);
        let list = if event.is_some() { "hooks" } else { "policies" };
        format!("{label}#{number} of {bundle}{list}")
    }

    /// Adds a policy on one event.
    pub(super) fn add_builtin(
        &mut self,
        event: EventName,
        matcher: &ToolMatcher,
        spec: &PolicySpec,
    ) {
        let known = policy::find(&spec.policy).map_or(&[][..], |kind| kind.events);
        if !known.contains(&event) {
            let known: Vec<&str> = known.iter().map(|event| event.as_str()).collect();
            let (label, known) = (spec.label(), known.join(", "));
            let message = format!("policy `{label}` does not run on {event}, only on {known}");
            self.report(&spec.span, message);
            return;
        }
        let counter = self.counter_name(spec, Some(event));
        self.add_policy_on(&[event], matcher, spec, counter);
    }

    fn add_policy_on(
        &mut self,
        events: &[EventName],
        matcher: &ToolMatcher,
        spec: &PolicySpec,
        counter: String,
    ) {
        let label = format!("policy `{}`", spec.label());
        let (kind, policy) = match policy::build(&spec.policy, spec.settings.0.clone()) {
            Ok(built) => built,
            Err(error) => return self.report(&spec.span, format!("{label}: {error}")),
        };
        let when = self.build_condition(spec.when.as_ref(), events, &label);
        let rule = self.add_rule(policy_rule(events, spec), policy_definition(spec));
        let policy = Arc::new(ConfiguredPolicy {
            rule,
            when,
            callers: spec.callers.clone(),
            name: spec.label().to_owned(),
            span: spec.span.clone(),
            counter,
            kind: kind.name,
            mode: spec.mode,
            is_locked: self.is_locked(&spec.span),
            is_below_locked: self.is_below_locked(&spec.span),
            proof: spec.proof.clone(),
            matcher: matcher.clone(),
            inspects_calls: events.iter().any(|event| event.is_model_call()),
            policy,
        });
        for event in events {
            let policies = self.table.policies.entry(*event).or_default();
            policies.push(Arc::clone(&policy));
        }
    }

    /// Returns whether a policy or hook is in a locked bundle: the first of two.
    pub(super) fn is_locked(&self, span: &SourceSpan) -> bool {
        let locked = self.layers.split_first();
        locked.is_some_and(|(locked, unlocked)| !unlocked.is_empty() && locked.contains(span))
    }

    /// Returns whether a policy is in the bundle below a locked one.
    fn is_below_locked(&self, span: &SourceSpan) -> bool {
        self.layers.iter().skip(1).any(|layer| layer.contains(span))
    }
}
