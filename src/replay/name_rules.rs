//! Rules of a config that decide by the names of callers, models and tools alone. Pure.

use std::{borrow::Cow, collections::BTreeSet};

use super::report::EvaluatedRule;
use crate::config::{Config, HookMode, PolicySpec};

/// Reason why lists of models are not evaluated.
const BEHIND_SWAP: &str = "a `model_swap` before it is not evaluated";

/// Returns the names of the rules that need no more than names.
pub(super) fn name_rules(config: &Config) -> BTreeSet<String> {
    let (_, rules) = names_only(config.clone());
    let (evaluated, others): (Vec<_>, Vec<_>) = rules
        .into_iter()
        .partition(|rule| rule.not_judged.is_none());
    let mut names: BTreeSet<String> = evaluated.into_iter().map(|rule| rule.rule).collect();
    for other in others {
        // Rules may have the same name.
        names.remove(&other.rule);
    }
    names
}

/// Returns the config with only the rules that names are enough for, and all its rules.
pub(super) fn names_only(mut config: Config) -> (Config, Vec<EvaluatedRule>) {
    let mut rules = Vec::new();
    let mut add = |rule: &str, reason: Option<&'static str>| {
        rules.push(EvaluatedRule {
            rule: rule.to_owned(),
            not_judged: reason.map(Cow::Borrowed),
        });
    };
    let is_swap = |spec: &PolicySpec| spec.policy == "model_swap" && spec.mode == HookMode::Enforce;
    let mut is_swapped_by_hook = false;
    for spec in config.enabled_hooks() {
        add(spec.label(), Some("hooks need the content of events"));
        is_swapped_by_hook |= spec.as_policy().is_some_and(|policy| is_swap(&policy));
    }
    config.hooks.clear();
    let mut is_model_known = true;
    config.policies.retain_mut(|spec| {
        let has_arguments = spec.settings.0.shift_remove("rules").is_some();
        let lists = ["allow", "deny"];
        let has_names = lists.iter().any(|list| spec.settings.0.contains_key(*list));
        let reason = match spec.policy.as_str() {
            _ if spec.mode == HookMode::Observe => Some("it only observes"),
            _ if spec.when.is_some() => Some("its condition needs facts of the call"),
            "model_allow" if is_model_known => None,
            "model_allow" => Some(BEHIND_SWAP),
            "model_swap" if !has_arguments => None,
            "model_swap" => Some("its `rules` need facts of the call"),
            "tool_guard" if has_names => {
                let reason = "its `rules`, which need arguments; `allow` and `deny` are evaluated";
                add(spec.label(), has_arguments.then_some(reason));
                return true;
            }
            "tool_guard" => Some("its `rules` need arguments"),
            _ => Some("it needs the content of calls"),
        };
        is_model_known &= !is_swap(spec) || reason.is_none();
        add(spec.label(), reason);
        reason.is_none()
    });
    // Policies of hooks run between those of the config and those of callers.
    is_model_known &= !is_swapped_by_hook;
    config.caller_policies.retain(|spec| {
        let is_evaluated = is_model_known || spec.policy != "model_allow";
        add(spec.label(), (!is_evaluated).then_some(BEHIND_SWAP));
        is_evaluated
    });
    (config, rules)
}
