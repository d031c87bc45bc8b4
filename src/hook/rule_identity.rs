//! Policies and hooks as the trace names them, with their place in the config.

use crate::{
    config::{BUILTIN, FailureMode, HookMode, HookSpec, PolicySpec, SourceSpan},
    event::EventName,
    observe::trace::{RuleIdentity, RulePosition},
};

/// Effect of the config's switches on a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleState {
    Enabled,
    Disabled,
}

/// Returns the identity of a hook on an event.
pub(super) fn hook_rule(event: EventName, spec: &HookSpec, state: RuleState) -> RuleIdentity {
    let policy = spec.as_policy();
    let is_policy = policy.is_some() && spec.kind == BUILTIN;
    RuleIdentity {
        name: spec.label().to_owned(),
        kind: spec.kind.clone(),
        policy: policy.filter(|_| is_policy).map(|policy| policy.policy),
        at: position(&spec.span),
        events: vec![event],
        mode: mode(spec.mode),
        on_failure: (!is_policy).then(|| failure_mode(spec.on_failure)),
        when: spec.when.as_ref().map(|when| when.text.clone()),
        disabled: state == RuleState::Disabled,
    }
}

/// Returns the identity of a policy on its events.
pub(super) fn policy_rule(events: &[EventName], spec: &PolicySpec) -> RuleIdentity {
    RuleIdentity {
        name: spec.label().to_owned(),
        kind: BUILTIN.to_owned(),
        policy: Some(spec.policy.clone()),
        at: position(&spec.span),
        events: events.to_vec(),
        mode: mode(spec.mode),
        on_failure: None,
        when: spec.when.as_ref().map(|when| when.text.clone()),
        disabled: false,
    }
}

fn position(span: &SourceSpan) -> RulePosition {
    RulePosition {
        file: span.file.display().to_string(),
        line: span.line,
    }
}

const fn mode(mode: HookMode) -> &'static str {
    match mode {
        HookMode::Enforce => "enforce",
        HookMode::Observe => "observe",
    }
}

const fn failure_mode(mode: FailureMode) -> &'static str {
    match mode {
        FailureMode::Open => "open",
        FailureMode::Closed => "closed",
    }
}
