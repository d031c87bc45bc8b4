//! Warnings about hooks: settings without effect, and duplicates.

use serde_json::{Map, Value};

use super::pointers::matching;
use crate::{
    config::{
        matcher::Matcher,
        policy_layer::PolicyLayer,
        settings::hooks::{BUILTIN, HookGroup, HookSpec},
        source_span::Problem,
        spanned_yaml::{SpannedYaml, escape_key},
    },
    event::{AgentScope, EventName, MatcherSubject, SubjectKind},
    protocol,
};

/// Settings of hooks without an effect on those of type `builtin`.
const UNUSED_BY_POLICIES: [&str; 4] = ["timeout", "on_failure", "document", "context"];

/// Timeout below which few hooks have an answer, in milliseconds.
const MIN_TIMEOUT_MS: u64 = 100;

/// Returns warnings about settings without effect, and about matchers that are no
/// regular expressions. `value` is the document before defaults are filled in.
pub(super) fn unused_settings(document: &SpannedYaml, value: &Value) -> Vec<Problem> {
    let groups = EventName::ALL.iter().flat_map(|event| {
        let groups = matching(value, &format!("/hooks/{event}/*"));
        groups.into_iter().map(|pointer| (*event, pointer))
    });
    let warnings = groups.flat_map(|(event, pointer)| group_warnings(value, event, &pointer));
    // Timeouts of translated documents are written in seconds.
    let hooks = matching(value, "/hooks/*/*/hooks/*").into_iter();
    let hooks = hooks.filter(|_| !document.is_translated());
    let timeouts = hooks.filter_map(|pointer| {
        let message = short_timeout(value.pointer(&pointer)?)?;
        Some((format!("{pointer}/timeout"), message))
    });
    warnings
        .chain(timeouts)
        .map(|(pointer, message)| Problem::at(&document.span(&pointer), message))
        .collect()
}

/// Returns a warning about a settings file without hooks, at the key that was probably meant as
/// one of them.
pub(super) fn no_hooks(document: &SpannedYaml) -> Problem {
    let message = "the settings file has no hooks, so none of it runs";
    let formats = protocol::ALL
        .iter()
        .filter_map(|protocol| protocol.settings_format());
    let aliases = formats.flat_map(|format| format.events);
    let aliases: Vec<&str> = aliases.map(|alias| alias.name).collect();
    let value = document.value();
    let mut keys = value.as_object().into_iter().flat_map(Map::keys);
    let hint = keys.find_map(|key| {
        let hint = match key.to_ascii_lowercase().as_str() {
            "hook" | "hooks" if key != "hooks" => "did you mean `hooks`?",
            "hooksconfig" if key != "hooksConfig" => "did you mean `hooksConfig`?",
            _ if EventName::parse(key).is_some() || aliases.contains(&key.as_str()) => {
                "events belong under `hooks`"
            }
            _ => return None,
        };
        Some((document.key_span(&format!("/{}", escape_key(key))), hint))
    });
    match hint {
        Some((span, hint)) => Problem::at(&span, format!("{message}; {hint}")),
        None => Problem::at(&document.span(""), message),
    }
}

/// Returns warnings about hooks or policies, at the pointers that match `pattern`, whose names
/// are empty.
pub(super) fn empty_names(document: &SpannedYaml, value: &Value, pattern: &str) -> Vec<Problem> {
    let rules = matching(value, pattern).into_iter();
    let unnamed = rules.filter(|rule| {
        let fields = value.pointer(rule).and_then(Value::as_object);
        fields.is_some_and(has_empty_name)
    });
    let warnings = unnamed.map(|rule| {
        let span = document.span(&format!("{rule}/name"));
        Problem::at(&span, "the name is empty, so it has no effect")
    });
    warnings.collect()
}

/// Returns whether a hook or policy has a name without a visible character.
pub(super) fn has_empty_name(fields: &Map<String, Value>) -> bool {
    let name = fields.get("name").and_then(Value::as_str);
    name.is_some_and(|name| name.trim().is_empty())
}

fn group_warnings(value: &Value, event: EventName, pointer: &str) -> Vec<(String, String)> {
    let at_matcher = format!("{pointer}/matcher");
    let matcher = value.pointer(&at_matcher).and_then(Value::as_str);
    let (matcher, translation_warning) = Matcher::parse(matcher.unwrap_or_default());
    let unused_matcher = unused_matcher(&matcher, event).map(|text| (at_matcher.clone(), text));
    let unmatched = unmatched_by_tools(&matcher).filter(|_| event.subjects() == SubjectKind::Tools);
    let unmatched = unmatched.map(|text| (at_matcher.clone(), text.to_owned()));
    let hooks = matching(value, &format!("{pointer}/hooks/*")).into_iter();
    let failure_modes = hooks.filter_map(|pointer| {
        let message = unused_failure_mode(value.pointer(&pointer)?, event)?;
        Some((format!("{pointer}/on_failure"), message))
    });
    let unused_settings = matching(value, &format!("{pointer}/hooks/*"))
        .into_iter()
        .flat_map(|hook| unused_by_policies(value, &hook));
    let translation_warning = translation_warning.map(|text| (at_matcher, text));
    unused_matcher
        .into_iter()
        .chain(failure_modes)
        .chain(unused_settings)
        .chain(translation_warning)
        .chain(unmatched)
        .collect()
}

/// Returns why a matcher, or an alternative of it, matches no name of a tool.
fn unmatched_by_tools(matcher: &Matcher) -> Option<&'static str> {
    if matcher.has_blank_alternative() {
        Some(
            "the matcher has blanks beside `|`, which no name of a tool has, so that these alternatives never match",
        )
    } else if matcher.is_permission_rule() {
        Some(
            "the matcher is a permission rule, which no name of a tool matches: write the name alone, and check the arguments in the hook",
        )
    } else {
        None
    }
}

/// Returns warnings about settings of hooks that policies do not have.
fn unused_by_policies(value: &Value, hook: &str) -> Vec<(String, String)> {
    let has = |key: &str| value.pointer(&format!("{hook}/{key}")).is_some();
    let kind = value.pointer(&format!("{hook}/type"));
    if kind.and_then(Value::as_str) != Some(BUILTIN) {
        return Vec::new();
    }
    let unused = UNUSED_BY_POLICIES.iter().filter(|key| has(key));
    let warnings = unused.map(|key| {
        let message = format!("`{key}` has no effect on a policy");
        (format!("{hook}/{key}"), message)
    });
    warnings.collect()
}

/// Returns a warning about a timeout that is probably meant in seconds.
fn short_timeout(hook: &Value) -> Option<String> {
    let timeout = hook.get("timeout")?.as_u64()?;
    let is_policy = hook.get("type").and_then(Value::as_str) == Some(BUILTIN);
    (timeout < MIN_TIMEOUT_MS && !is_policy).then(|| {
        format!("the timeout is {timeout} milliseconds: in seconds it would be {timeout}000")
    })
}

fn unused_failure_mode(hook: &Value, event: EventName) -> Option<String> {
    let has = |key, value| hook.get(key).and_then(Value::as_str) == Some(value);
    if !has("on_failure", "closed") {
        return None;
    }
    if !event.can_fail_closed() {
        let message = format!("hooks cannot deny {event}, so `closed` has no effect");
        return Some(message);
    }
    let observes = has("mode", "observe");
    observes.then(|| "the hook only observes, so `closed` has no effect".to_owned())
}

fn unused_matcher(matcher: &Matcher, event: EventName) -> Option<String> {
    if matcher.is_all() {
        return None;
    }
    match event.subjects() {
        SubjectKind::Tools => None,
        SubjectKind::None => Some(format!(
            "{event} has nothing to match, so the matcher is ignored and the hooks always run"
        )),
        SubjectKind::Keywords { words, .. } => {
            let none = !words
                .iter()
                .any(|word| matcher.matches(MatcherSubject::Keyword(word)));
            let words = words.join(", ");
            none.then(|| format!("the matcher matches none of {words}, so its hooks never run"))
        }
    }
}

/// Returns warnings about hooks of one event of which only one runs, or that share a name with
/// another hook.
pub(super) fn duplicate_hooks(
    event: EventName,
    groups: &[HookGroup],
    layers: &[PolicyLayer],
) -> Vec<Problem> {
    let layer_of = |hook: &HookSpec| layers.iter().position(|layer| layer.contains(&hook.span));
    let mut problems = Vec::new();
    let mut earlier: Vec<(usize, &HookSpec)> = Vec::new();
    for (group, HookGroup { hooks, .. }) in groups.iter().enumerate() {
        for hook in hooks {
            // A hook of another bundle runs beside this one.
            let of_layer = |(_, other): &&(usize, &HookSpec)| layer_of(other) == layer_of(hook);
            let earlier_of_layer: Vec<_> = earlier.iter().filter(of_layer).copied().collect();
            if let Some(message) = duplicate_warning(event, group, hook, &earlier_of_layer) {
                problems.push(Problem::at(&hook.span, message));
            }
            earlier.push((group, hook));
        }
    }
    problems
}

/// Returns the warning about a hook that has the identity or the name of one of the `earlier`
/// hooks, each with the index of its group.
fn duplicate_warning(
    event: EventName,
    group: usize,
    hook: &HookSpec,
    earlier: &[(usize, &HookSpec)],
) -> Option<String> {
    let label = hook.label();
    let equal = earlier.iter().filter(|(_, other)| is_equal(other, hook));
    if let Some((_, first)) = equal
        .clone()
        .find(|(_, other)| !has_same_effect(other, hook))
    {
        let span = &first.span;
        return Some(format!(
            "hook `{label}` on {event} is also at {span}, with other settings: where both match, only one runs, the strictest or else the first; give them different names to run both"
        ));
    }
    let mut in_group = equal.clone().filter(|(of_group, _)| *of_group == group);
    if let Some((_, first)) = in_group.find(|(_, other)| condition(other) == condition(hook)) {
        let span = &first.span;
        return Some(format!(
            "hook `{label}` on {event} is already at {span}, and runs once"
        ));
    }
    if hook.name.is_none() || equal.count() > 0 {
        return None;
    }
    let (_, first) = earlier.iter().find(|(_, other)| other.name == hook.name)?;
    let span = &first.span;
    Some(format!(
        "another hook on {event} is named `{label}`, at {span}: logs do not distinguish them"
    ))
}

/// Returns whether only one of two hooks runs on an event that both match. All policies run.
fn is_equal(one: &HookSpec, other: &HookSpec) -> bool {
    let agents = [one.agents, other.agents];
    let are_disjoint =
        agents.contains(&AgentScope::Main) && agents.contains(&AgentScope::SubAgents);
    let is_policy = one.kind == BUILTIN || other.kind == BUILTIN;
    !is_policy && !are_disjoint && one.identity() == other.identity()
}

/// Returns whether equal hooks have the same effect where both match.
fn has_same_effect(one: &HookSpec, other: &HookSpec) -> bool {
    let facts = |hook: &HookSpec| (hook.document, hook.context, hook.shadow, hook.timeout);
    one.kind == other.kind
        && one.settings == other.settings
        && facts(one) == facts(other)
        && one.strictness() == other.strictness()
}

fn condition(hook: &HookSpec) -> Option<&str> {
    hook.when.as_ref().map(|when| when.text.as_str())
}
