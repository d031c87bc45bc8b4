//! Lints: valid settings that probably do not have the intended effect. Pure.

use std::collections::BTreeMap;

use super::condition_eval::build;
use crate::{
    condition::{self, StaticResult},
    config::{Config, PolicySpec, Problem},
    policy,
};

/// Returns the warnings about hooks and policies of a config.
pub fn lints(config: &Config) -> Vec<Problem> {
    let policies = config.policies.iter().flat_map(absent_variables);
    policies.chain(excess_processes(config)).collect()
}

/// The first hook whose waiting processes exceed the limit.
fn excess_processes(config: &Config) -> Option<Problem> {
    let limit = config.limits.hook_processes;
    let mut used = 0_usize;
    let mut hooks = config
        .hooks
        .values()
        .flatten()
        .flat_map(|group| &group.hooks);
    let first = hooks.find(|hook| {
        used = used.saturating_add(hook.processes());
        used > limit
    })?;
    let label = first.label();
    let message = format!(
        "hook `{label}`: `limits.hook_processes` is {limit}, so not all processes of workers and of `prewarm` can wait at once"
    );
    Some(Problem {
        span: Some(first.span.clone()),
        message,
    })
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
    let mut absent: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for event in events {
        if let StaticResult::Absent(variable) = condition::analyze(&condition, *event) {
            absent.entry(variable).or_default().push(event.as_str());
        }
    }
    let problem = |(variable, events): (String, Vec<&str>)| {
        let (label, events) = (spec.label(), events.join(" and "));
        Problem {
            span: Some(when.span.clone()),
            message: format!(
                "policy `{label}`: {events} has no `{variable}`, so the policy always runs there; test `event` or `has(…)` first"
            ),
        }
    };
    absent.into_iter().map(problem).collect()
}
