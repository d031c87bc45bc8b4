//! Guards: policies and hooks that have cases to prove them.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use super::{
    configured_policy::ConfiguredPolicy,
    table::{Hook, HookTable},
};
use crate::{
    config::ProofCases,
    event::{MatcherSubject, RuleId},
};

/// A policy or hook that has cases to prove it.
#[derive(Debug, Clone)]
pub enum Guard {
    /// A policy, on all of its events.
    Policy(Arc<ConfiguredPolicy>),
    /// A hook, on its event.
    Hook(Arc<Hook>),
}

impl Guard {
    /// Returns the guards of a table, policies first.
    pub fn all(table: &HookTable) -> Vec<Self> {
        let mut guards: Vec<Self> = Vec::new();
        for (_, policy) in table.all_policies() {
            // A policy is listed on each of its events.
            let is_known = guards.iter().any(|guard| guard.is_policy(policy));
            if !policy.proof.is_empty() && !is_known {
                guards.push(Self::Policy(Arc::clone(policy)));
            }
        }
        for hook in table.hooks() {
            if !hook.spec.proof.is_empty() {
                guards.push(Self::Hook(Arc::clone(hook)));
            }
        }
        guards
    }

    /// Name of the policy or hook.
    pub fn name(&self) -> &str {
        match self {
            Self::Policy(policy) => &policy.name,
            Self::Hook(hook) => &hook.name,
        }
    }

    /// Number in the rules of its config.
    pub fn rule(&self) -> RuleId {
        match self {
            Self::Policy(policy) => policy.rule,
            Self::Hook(hook) => hook.rule,
        }
    }

    /// Cases as they are written in the config.
    pub fn cases(&self) -> &ProofCases {
        match self {
            Self::Policy(policy) => &policy.proof,
            Self::Hook(hook) => &hook.spec.proof,
        }
    }

    /// Returns whether each of its runs starts a process.
    pub fn starts_processes(&self) -> bool {
        match self {
            Self::Policy(_) => false,
            Self::Hook(hook) => hook.transport.starts_processes(),
        }
    }

    /// Returns whether its matcher matches a subject.
    pub fn matches(&self, subject: MatcherSubject<'_>) -> bool {
        match self {
            Self::Policy(policy) => policy.matcher.matches(subject),
            Self::Hook(hook) => hook.matcher.matches(subject),
        }
    }

    /// Records a successful proof. A hook that fails closed is called again.
    pub fn proof_succeeded(&self) {
        if let Self::Hook(hook) = self {
            hook.is_unproven.store(false, Ordering::Relaxed);
        }
    }

    /// Records a failed proof. A hook that fails closed refuses its events.
    pub fn proof_failed(&self) {
        if let Self::Hook(hook) = self {
            hook.is_unproven.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether it is this policy.
    pub fn is_policy(&self, other: &Arc<ConfiguredPolicy>) -> bool {
        matches!(self, Self::Policy(policy) if Arc::ptr_eq(policy, other))
    }

    /// Returns whether it is this hook, or one that runs instead of it (hook protocol,
    /// section 4). An equal hook that is less strict proves nothing of it.
    pub(super) fn is_hook(&self, other: &Hook) -> bool {
        let Self::Hook(hook) = self else {
            return false;
        };
        (hook.event, hook.is_locked) == (other.event, other.is_locked)
            && hook.spec.identity() == other.spec.identity()
            && hook.spec.strictness() <= other.spec.strictness()
    }
}

/// Displays ``policy `redact` `` or ``hook `shell` on BeforeTool``.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => write!(f, "policy `{}`", policy.name),
            Self::Hook(hook) => write!(f, "hook `{}` on {}", hook.name, hook.event),
        }
    }
}
