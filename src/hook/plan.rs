//! Which hooks run on an event, and in what order (hook protocol, section 4).
//! Pure.

use std::sync::Arc;

use super::{
    Run,
    condition_eval::Weighing,
    configured_policy::PlacedPolicy,
    table::{Hook, HookTable},
};
use crate::{condition::Unclear, dialect::Detail, event::DiagnosticCode};

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

    /// What its hooks are shown of messages.
    pub fn detail(&self) -> Detail {
        let mut hooks = self.hooks.iter();
        if hooks.any(|it| it.protocol.shows_whole_messages()) {
            Detail::Whole
        } else {
            Detail::Texts
        }
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
    let mut plan = Plan {
        policies: picked(table, &mut weighing),
        ..Plan::default()
    };
    let subject = weighing.subject();
    for group in table.groups(weighing.event) {
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

/// The same, without hooks.
pub(super) fn policies(table: &HookTable, mut weighing: Weighing<'_>) -> Plan {
    Plan {
        policies: picked(table, &mut weighing),
        unclear: weighing.unclear,
        ..Plan::default()
    }
}

fn picked(table: &HookTable, weighing: &mut Weighing<'_>) -> Vec<Arc<PlacedPolicy>> {
    let subject = weighing.subject();
    let all = table.policies(weighing.event).iter();
    let picked =
        all.filter(|it| it.matcher.matches(subject) && weighing.runs(&it.name, it.when.as_ref()));
    picked.cloned().collect()
}
