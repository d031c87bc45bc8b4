//! Selection of the policies and hooks that run on an event, and their order (hook
//! protocol, section 4). Pure.

use std::sync::Arc;

use super::{
    condition_eval::ConditionContext,
    configured_policy::ConfiguredPolicy,
    table::{Hook, MatcherGroup},
};
use crate::{
    condition::EvalError,
    config::HookView,
    dialect::Detail,
    event::{DiagnosticCode, HookRun},
};

/// The policies and hooks that run on an event.
#[derive(Debug, Default)]
pub struct Plan {
    /// Policies, in the order of the config. They run before hooks.
    pub policies: Vec<Arc<ConfiguredPolicy>>,
    /// Hooks, in the order of the config, without duplicates.
    pub hooks: Vec<Arc<Hook>>,
    /// Whether hooks run one after the other.
    pub sequential: bool,
    /// Names of policies and hooks whose condition failed, which therefore run.
    failed_conditions: Vec<(String, EvalError)>,
}

impl Plan {
    /// Returns whether nothing runs.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.hooks.is_empty()
    }

    /// Detail with which messages are shown to the hooks.
    pub fn detail(&self) -> Detail {
        let mut hooks = self.hooks.iter();
        if hooks.any(|hook| hook.protocol.shows_message_parts()) {
            Detail::Whole
        } else {
            Detail::Texts
        }
    }

    /// Returns whether a hook receives the document.
    pub fn shows_document(&self) -> bool {
        let mut hooks = self.hooks.iter();
        hooks.any(|hook| hook.spec.view == HookView::Document)
    }

    /// Adds a diagnostic to a run whose condition failed.
    pub(super) fn annotate(&self, run: &mut HookRun) {
        let mut failed = self.failed_conditions.iter();
        if let Some((_, error)) = failed.find(|(name, _)| *name == run.name) {
            let diagnostic = DiagnosticCode::Condition.with(error.to_string());
            run.answer.diagnostics.insert(0, diagnostic);
        }
    }
}

/// Selects the policies and hooks whose matcher matches and whose condition holds.
/// Of equal hooks the first is kept. One sequential group makes the whole plan
/// sequential.
pub(super) fn plan(
    policies: &[Arc<ConfiguredPolicy>],
    groups: &[MatcherGroup],
    mut conditions: ConditionContext<'_>,
) -> Plan {
    let subject = conditions.matcher_subject();
    let mut plan = Plan::default();
    for policy in policies {
        if policy.matcher.matches(subject) && conditions.holds(&policy.name, policy.when.as_ref()) {
            plan.policies.push(Arc::clone(policy));
        }
    }
    for group in groups {
        if !group.matcher.matches(subject) {
            continue;
        }
        plan.sequential |= group.sequential;
        for hook in &group.hooks {
            let mut planned = plan.hooks.iter();
            let is_duplicate =
                planned.any(|planned| planned.spec.identity() == hook.spec.identity());
            if !is_duplicate && conditions.holds(&hook.name, hook.when.as_ref()) {
                plan.hooks.push(Arc::clone(hook));
            }
        }
    }
    plan.failed_conditions = conditions.failed;
    plan
}
