//! Lints: valid settings that probably do not have the intended effect. Pure.

use std::collections::BTreeMap;

use super::{
    condition_eval::{absent_facts, build, joined_names},
    configured_policy::ConfiguredPolicy,
    table::HookTable,
};
use crate::{
    condition::{self, Condition, StaticResult},
    config::{Config, PolicySpec, Problem},
    event::{EventName, RuleId},
    policy,
};

/// Returns the warnings about settings that are valid but probably not intended. `table` is that
/// of the config.
pub fn warnings(config: &Config, table: &HookTable) -> Vec<Problem> {
    let mut warnings = config.warnings.clone();
    warnings.extend(config.policies.iter().flat_map(absent_variables));
    warnings.extend(config.policies.iter().filter_map(uninspected_calls));
    warnings.extend(policy_lints(table));
    warnings.extend(excess_processes(config));
    warnings.extend(unreported_events(config));
    warnings.extend(config.guards_that_fail_open().map(|(event, hook)| {
        let label = hook.label();
        let message =
            format!("hook `{label}` on {event} fails open: its failure allows what it would deny");
        Problem::at(&hook.span, message)
    }));
    warnings
}

/// Settings of policies without an effect, or with another one than intended.
fn policy_lints(table: &HookTable) -> Vec<Problem> {
    let mut policies: BTreeMap<RuleId, (&ConfiguredPolicy, Vec<EventName>)> = BTreeMap::new();
    for (event, policy) in table.all_policies() {
        let (_, events) = policies
            .entry(policy.rule)
            .or_insert((&**policy, Vec::new()));
        let is_false = |when: &Condition| condition::analyze(when, event) == StaticResult::False;
        if !policy.when.as_ref().is_some_and(is_false) {
            events.push(event);
        }
    }
    let problems = policies.values().filter_map(|(policy, events)| {
        // Those that share counters act together.
        let shares_counters = |other: &ConfiguredPolicy| {
            policy.kind == "request_limits"
                && (other.kind, &other.counter) == (policy.kind, &policy.counter)
        };
        let others = policies.values();
        let others = others.filter(|(other, _)| shares_counters(other));
        let shared = others.flat_map(|(_, events)| events);
        let events: Vec<EventName> = events.iter().chain(shared).copied().collect();
        let message = format!("policy `{}`: {}", policy.name, policy.policy.lint(&events)?);
        Some(Problem::at(&policy.span, message))
    });
    problems.collect()
}

/// Events with hooks that are not derived from model calls.
fn unreported_events(config: &Config) -> impl Iterator<Item = Problem> {
    let is_fired = |event: EventName| event.is_model_call() || config.events.derives(event);
    let events = config.hooks.iter();
    let unreported = events.filter(move |(event, _)| !is_fired(**event));
    unreported.filter_map(|(event, groups)| {
        let first = groups.iter().find_map(|group| group.hooks.first())?;
        let reason = if event.is_derivable() {
            "`events.derive` does not include it"
        } else {
            "it cannot be derived from model calls"
        };
        let message =
            format!("hooks on {event} run only for agents that report the event: {reason}");
        Some(Problem::at(&first.span, message))
    })
}

/// The first hook whose waiting processes exceed the limit.
fn excess_processes(config: &Config) -> Option<Problem> {
    let limit = config.limits.hook_processes;
    let mut used = 0_usize;
    let first = config.enabled_hooks().find(|hook| {
        used = used.saturating_add(hook.processes());
        used > limit
    })?;
    let label = first.label();
    let message = format!(
        "hook `{label}`: `limits.hook_processes` is {limit}, so not all processes of workers and of `prewarm` can wait at once"
    );
    Some(Problem::at(&first.span, message))
}

/// The condition of a `tool_guard` that excludes the calls of tools in answers.
fn uninspected_calls(spec: &PolicySpec) -> Option<Problem> {
    let when = spec.when.as_ref().filter(|_| spec.policy == "tool_guard")?;
    let condition = build(when, policy::find(&spec.policy)?.events).ok()?;
    if condition::analyze(&condition, EventName::AfterModel) != StaticResult::False {
        return None;
    }
    let label = spec.label();
    let message = format!(
        "policy `{label}`: `when` is always false on AfterModel, so calls of tools in answers are not inspected"
    );
    Some(Problem::at(&when.span, message))
}

/// The variables of a policy's condition that some of its events do not have.
fn absent_variables(spec: &PolicySpec) -> Vec<Problem> {
    let events = policy::find(&spec.policy).map_or(&[][..], |kind| kind.events);
    let Some(when) = &spec.when else {
        return Vec::new();
    };
    let Ok(condition) = build(when, events) else {
        return Vec::new();
    };
    let problem = |(variable, events): (String, Vec<EventName>)| {
        let verb = if events.len() > 1 { "have" } else { "has" };
        // With `has(…)` in front, the policy would run on no model call.
        let advice = if events.iter().any(|event| event.is_model_call()) {
            "for one event, use a hook of `type: builtin`"
        } else {
            "test `event` or `has(…)` first"
        };
        let (label, events) = (spec.label(), joined_names(&events, " and "));
        let message = format!(
            "policy `{label}`: {events} {verb} no `{variable}`, so the policy runs there unless the rest of the condition is false; {advice}"
        );
        Problem::at(&when.span, message)
    };
    let absent = absent_facts(&condition, events);
    absent.into_iter().map(problem).collect()
}
