//! What a block of hooks asks for and cannot have. Pure.

use super::{HookBlock, HookGroup, RawGroup, RawHook};
use crate::{
    config::{FailureMode, HookMode, HookSpec, Matcher, Problem, can_refuse},
    event::{EventKind, EventName, EventVisitor, MatcherSubject, SubjectKind},
};

/// What is idle in one group of a block.
pub(super) fn idle(
    block: &HookBlock,
    raw: &RawGroup,
    event: EventName,
    pointer: &str,
) -> Vec<Problem> {
    let hooks = raw.hooks.iter().enumerate();
    let guards = hooks.filter_map(|(index, hook)| {
        let place = format!("{pointer}/hooks/{index}/on_failure");
        idle_guard(hook, event).map(|it| (place, it))
    });
    let matcher = idle_matcher(raw, event).map(|it| (format!("{pointer}/matcher"), it));
    let all = matcher.into_iter().chain(guards);
    all.map(|(place, message)| Problem::at(&block.tree.place(&place), message))
        .collect()
}

/// A hook that asks to refuse what it cannot refuse.
fn idle_guard(hook: &RawHook, event: EventName) -> Option<String> {
    if hook.on_failure != Some(FailureMode::Closed) {
        return None;
    }
    if !can_refuse(event) {
        let message = format!("hooks cannot refuse {event}, so `closed` changes nothing");
        return Some(message);
    }
    let observes = hook.mode == HookMode::Observe;
    observes.then(|| "the hook only observes, so `closed` changes nothing".to_owned())
}

/// A matcher that is not asked, or that matches nothing.
fn idle_matcher(raw: &RawGroup, event: EventName) -> Option<String> {
    let (matcher, _) = Matcher::parse(&raw.matcher);
    if matcher.is_all() {
        return None;
    }
    match subjects(event) {
        SubjectKind::Tools => None,
        SubjectKind::None => Some(format!(
            "{event} has nothing to match, so the matcher is ignored and the hooks always run"
        )),
        SubjectKind::Keywords(words) => {
            let none = !words
                .iter()
                .any(|it| matcher.matches(MatcherSubject::Keyword(it)));
            let words = words.join(", ");
            none.then(|| format!("the matcher matches none of {words}, so its hooks never run"))
        }
    }
}

fn subjects(event: EventName) -> SubjectKind {
    struct Asking;

    impl EventVisitor for Asking {
        type Output = SubjectKind;

        fn visit<E: EventKind>(self) -> SubjectKind {
            E::SUBJECTS
        }
    }

    event.visit(Asking)
}

fn condition(hook: &HookSpec) -> Option<&str> {
    hook.when.as_ref().map(|it| it.text.as_str())
}

/// Hooks of one event that cannot be told apart, or of which one does not run.
pub(super) fn doubles(event: EventName, groups: &[HookGroup]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for group in groups {
        for (index, hook) in group.hooks.iter().enumerate() {
            let before = group.hooks.iter().take(index);
            let same = |it: &&HookSpec| {
                it.identity() == hook.identity() && condition(it) == condition(hook)
            };
            if let Some(first) = before.rev().find(same) {
                let label = hook.label();
                let message = format!(
                    "hook `{label}` on {event} stands at {} already, and runs once",
                    first.place
                );
                problems.push(Problem::at(&hook.place, message));
            }
        }
    }
    let hooks: Vec<&HookSpec> = groups.iter().flat_map(|it| &it.hooks).collect();
    for (index, hook) in hooks.iter().enumerate() {
        let mut before = hooks.iter().take(index);
        if before.any(|it| it.identity() == hook.identity()) {
            continue;
        }
        let namesake = |it: &&&HookSpec| {
            hook.name.is_some() && it.name == hook.name && it.identity() != hook.identity()
        };
        if let Some(first) = hooks.iter().take(index).find(namesake) {
            let label = hook.label();
            let message = format!(
                "another hook on {event} is named `{label}`, at {}: nobody can tell them apart",
                first.place
            );
            problems.push(Problem::at(&hook.place, message));
        }
    }
    problems
}
