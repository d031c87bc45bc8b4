//! Which hooks run on an event, and in what order (hook protocol, section 4).
//! Pure.

use std::sync::Arc;

use super::{
    placed::PlacedPolicy,
    table::{Hook, HookTable},
};
use crate::event::{EventName, Subject};

/// The policies and hooks that will run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Policies, in the order of the config. They come first.
    pub policies: Vec<Arc<PlacedPolicy>>,
    /// In the order of the config, each only once.
    pub hooks: Vec<Arc<Hook>>,
    /// Whether each waits for the one before it.
    pub sequential: bool,
}

impl Plan {
    /// Whether nobody listens.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.hooks.is_empty()
    }
}

/// Picks the hooks whose matcher matches the subject. The first of two equal
/// hooks stays; one sequential group makes the whole plan sequential.
pub(super) fn plan(table: &HookTable, event: EventName, subject: Subject<'_>) -> Plan {
    let mut plan = Plan::default();
    let policies = table.policies(event).iter();
    let policies = policies.filter(|it| it.matcher.matches(subject));
    plan.policies.extend(policies.cloned());
    for group in table.groups(event) {
        if !group.matcher.matches(subject) {
            continue;
        }
        plan.sequential |= group.sequential;
        for hook in &group.hooks {
            let known = |it: &Arc<Hook>| it.identity == hook.identity;
            if !plan.hooks.iter().any(known) {
                plan.hooks.push(Arc::clone(hook));
            }
        }
    }
    plan
}
