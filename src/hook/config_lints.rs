//! Lints: valid settings that probably do not have the intended effect. Pure.

use std::collections::BTreeMap;

use super::condition_eval::build;
use crate::{
    condition::{self, Condition, StaticResult},
    config::{Config, PolicySpec, Problem},
    event::EventName,
    policy,
};

/// Returns the warnings about settings that are valid but probably not intended.
pub fn warnings(config: &Config) -> Vec<Problem> {
    let mut warnings = config.warnings.clone();
    warnings.extend(config.policies.iter().flat_map(absent_variables));
    warnings.extend(config.policies.iter().filter_map(uninspected_calls));
    warnings.extend(policy_lints(config));
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
fn policy_lints(config: &Config) -> Vec<Problem> {
    let hooks = config.hooks.iter().flat_map(|(event, groups)| {
        let hooks = groups.iter().flat_map(|group| &group.hooks);
        hooks.filter_map(|hook| Some((*event, hook.as_policy()?)))
    });
    let hooks: Vec<(EventName, PolicySpec)> = hooks.collect();
    let shared_events = |event: EventName, spec: &PolicySpec| {
        let counts_with = |other: &PolicySpec| {
            spec.policy == "request_limits"
                && (&other.policy, &other.name) == (&spec.policy, &spec.name)
        };
        let others = hooks.iter().filter(|(_, other)| counts_with(other));
        let others = others.map(|(event, _)| *event);
        others.chain([event]).collect::<Vec<EventName>>()
    };
    let builtin = hooks.iter();
    let builtin = builtin.map(|(event, spec)| (shared_events(*event, spec), spec));
    let policies = config.policies.iter().chain(&config.caller_policies);
    let policies = policies.map(|spec| (possible_events(spec), spec));
    let problems = policies.chain(builtin).filter_map(|(events, spec)| {
        let (_, policy) = policy::build(&spec.policy, spec.settings.0.clone()).ok()?;
        let message = format!("policy `{}`: {}", spec.label(), policy.lint(&events)?);
        Some(Problem::at(&spec.span, message))
    });
    problems.collect()
}

/// Returns the events of a policy on which its condition may be true.
fn possible_events(spec: &PolicySpec) -> Vec<EventName> {
    let events = policy::find(&spec.policy).map_or(&[][..], |kind| kind.events);
    let condition = spec.when.as_ref();
    let condition = condition.and_then(|when| build(when, events).ok());
    let is_false =
        |condition: &Condition, event| condition::analyze(condition, event) == StaticResult::False;
    let is_possible =
        |event: &EventName| !condition.as_ref().is_some_and(|one| is_false(one, *event));
    events.iter().copied().filter(is_possible).collect()
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
    let when = spec.when.as_ref()?;
    if spec.policy != "tool_guard" || possible_events(spec).contains(&EventName::AfterModel) {
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
    let mut absent: BTreeMap<String, Vec<EventName>> = BTreeMap::new();
    for event in events {
        if let StaticResult::Absent(variable) = condition::analyze(&condition, *event) {
            absent.entry(variable).or_default().push(*event);
        }
    }
    let problem = |(variable, events): (String, Vec<EventName>)| {
        let verb = if events.len() > 1 { "have" } else { "has" };
        // With `has(…)` in front, the policy would run on no model call.
        let advice = if events.iter().any(|event| event.is_model_call()) {
            "for one event, use a hook of `type: builtin`"
        } else {
            "test `event` or `has(…)` first"
        };
        let events: Vec<&str> = events.iter().map(|event| event.as_str()).collect();
        let (label, events) = (spec.label(), events.join(" and "));
        let message = format!(
            "policy `{label}`: {events} {verb} no `{variable}`, so the policy runs there unless the rest of the condition is false; {advice}"
        );
        Problem::at(&when.span, message)
    };
    absent.into_iter().map(problem).collect()
}
