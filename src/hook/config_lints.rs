//! What a config may say, but probably does not mean. Pure.

use std::collections::BTreeMap;

use super::condition_eval::{absent, build};
use crate::{
    config::{Config, Problem},
    policy,
};

/// Everything of the kind.
pub fn remarks(config: &Config) -> Vec<Problem> {
    let mut remarks = unasked(config);
    remarks.extend(crowded(config));
    remarks
}

/// The first hook whose waiting processes do not fit in.
fn crowded(config: &Config) -> Option<Problem> {
    let places = config.limits.hook_processes;
    let mut taken = 0_usize;
    let mut hooks = config.hooks.values().flatten().flat_map(|it| &it.hooks);
    let first = hooks.find(|it| {
        taken = taken.saturating_add(it.processes());
        taken > places
    })?;
    let label = first.label();
    let message = format!(
        "hook `{label}`: `limits.hook_processes` is {places}, so not all processes of workers and of `prewarm` can wait at once"
    );
    Some(Problem {
        place: Some(first.place.clone()),
        message,
    })
}

/// Policies whose condition cannot be asked on some of their events.
fn unasked(config: &Config) -> Vec<Problem> {
    let mut remarks = Vec::new();
    for spec in &config.policies {
        let events = policy::find(&spec.policy).map_or(&[][..], |it| it.events);
        let Some((when, condition)) = spec
            .when
            .as_ref()
            .and_then(|it| Some((it, build(it, events).ok()?)))
        else {
            continue;
        };
        let mut unasked: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for event in events {
            if let Some(what) = absent(condition.prospect(*event)) {
                unasked.entry(what).or_default().push(event.as_str());
            }
        }
        remarks.extend(unasked.into_iter().map(|(what, events)| {
            let (label, events) = (spec.label(), events.join(" and "));
            Problem {
                place: Some(when.place.clone()),
                message: format!(
                    "policy `{label}`: {events} has no `{what}`, so there it always runs; ask `event` or `has(…)` first"
                ),
            }
        }));
    }
    remarks
}
