//! Which hooks run on an event, and in what order (hook protocol, section 4).
//! Pure.

use std::sync::Arc;

use super::{
    Run,
    placed::PlacedPolicy,
    table::{Hook, HookTable},
    when::Weighing,
};
use crate::{condition::Unclear, event::DiagnosticCode};

/// The policies and hooks that will run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Policies, in the order of the config. They come first.
    pub policies: Vec<Arc<PlacedPolicy>>,
    /// In the order of the config, each only once.
    pub hooks: Vec<Arc<Hook>>,
    /// Whether each waits for the one before it.
    pub sequential: bool,
    /// Who runs only because nobody can say whether its condition holds.
    unclear: Vec<(String, Unclear)>,
}

impl Plan {
    /// Whether nobody listens.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.hooks.is_empty()
    }

    /// Says in a run that nobody knows whether there should have been one.
    pub(super) fn remark(&self, run: &mut Run) {
        if let Some((_, why)) = self.unclear.iter().find(|it| it.0 == run.name) {
            let diagnostic = DiagnosticCode::Condition.with(why.to_string());
            run.answer.diagnostics.insert(0, diagnostic);
        }
    }
}

/// Picks those whose matcher matches the subject and whose condition holds. The
/// first of two equal hooks stays; one sequential group makes the whole plan
/// sequential.
pub(super) fn plan(table: &HookTable, mut weighing: Weighing<'_>) -> Plan {
    let (event, subject) = (weighing.event, weighing.subject());
    let mut plan = Plan::default();
    for policy in table.policies(event) {
        let matches = policy.matcher.matches(subject);
        if matches && weighing.runs(&policy.name, policy.when.as_ref()) {
            plan.policies.push(Arc::clone(policy));
        }
    }
    for group in table.groups(event) {
        if !group.matcher.matches(subject) {
            continue;
        }
        plan.sequential |= group.sequential;
        for hook in &group.hooks {
            let known = |it: &Arc<Hook>| it.identity == hook.identity;
            let new = !plan.hooks.iter().any(known);
            if new && weighing.runs(&hook.name, hook.when.as_ref()) {
                plan.hooks.push(Arc::clone(hook));
            }
        }
    }
    plan.unclear = weighing.unclear;
    plan
}
