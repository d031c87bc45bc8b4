//! Lints: valid settings that probably do not have the intended effect. Pure.

use std::{collections::BTreeMap, slice};

use super::{
    condition_eval::{absent_facts, build, joined_names},
    configured_policy::ConfiguredPolicy,
    table::HookTable,
};
use crate::{
    condition::{self, Condition, StaticResult},
    config::{Config, KeySpec, PolicySpec, Problem},
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
    warnings.extend(conditions_without_callers(config));
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

/// The conditions of hooks and policies that no caller meets. Bundles are for gateways with other
/// callers, too.
fn conditions_without_callers(config: &Config) -> Vec<Problem> {
    let auth = &config.auth;
    // The names in tokens and certificates are not known.
    if auth.jwt.is_some() || auth.mtls.is_some() {
        return Vec::new();
    }
    let policies = config.policies.iter().map(|spec| {
        let events = policy::find(&spec.policy).map_or(&[][..], |kind| kind.events);
        (format!("policy `{}`", spec.label()), &spec.when, events)
    });
    let hooks = config.hooks.iter().flat_map(|(event, groups)| {
        let hooks = groups.iter().flat_map(|group| &group.hooks);
        hooks.map(move |hook| {
            let label = format!("hook `{}` on {event}", hook.label());
            (label, &hook.when, slice::from_ref(event))
        })
    });
    let problems = policies.chain(hooks).filter_map(|(label, when, events)| {
        let when = when.as_ref()?;
        let is_bundled = config.layers.iter().any(|layer| layer.contains(&when.span));
        let condition = build(when, events).ok().filter(|_| !is_bundled)?;
        let message =
            format!("{label}: `when` is false for every caller: `auth.keys` has no such name");
        is_for_no_caller(&condition, events, &auth.keys).then(|| Problem::at(&when.span, message))
    });
    problems.collect()
}

fn is_for_no_caller(condition: &Condition, events: &[EventName], keys: &[KeySpec]) -> bool {
    if !condition.uses("caller") {
        return false;
    }
    let names = keys.iter().map(|key| key.name.as_str());
    let mut names: Vec<&str> = names.chain([""]).collect();
    // One that the condition has is most likely to make it true.
    let text = condition.to_string();
    names.sort_by_key(|name| !text.contains(name));
    let is_false = |name: &str, event: EventName| {
        condition::analyze_for_caller(condition, event, name) == StaticResult::False
    };
    let is_false_for = |name: &&str| events.iter().all(|event| is_false(name, *event));
    names.iter().all(is_false_for)
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
