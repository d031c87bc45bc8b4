//! Selection of the policies and hooks that run on an event, and their order (hook
//! protocol, section 4). Pure.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use super::{
    condition_eval::ConditionContext,
    configured_policy::ConfiguredPolicy,
    guard::Guard,
    table::{Hook, MatcherGroup},
};
use crate::{
    condition::EvalError,
    config::FailureMode,
    dialect::Detail,
    event::{DiagnosticCode, EventName, EventOrigin, HookRun, RuleId, SkipReason},
    observe::recorder::PlanSummary,
    policy::InspectionPass,
};

/// The policies and hooks that run on an event.
#[derive(Debug, Default)]
pub struct Plan {
    /// Policies, in the order of the config. They run before hooks.
    pub policies: Vec<Arc<ConfiguredPolicy>>,
    /// Hooks, in the order of the config, without duplicates.
    pub hooks: Vec<Arc<Hook>>,
    /// Hooks of a locked bundle that run after `hooks`, as they are selected now. They are
    /// selected anew then. `None` if that bundle has no hooks on the event, or no others run.
    locked_hooks: Option<Vec<Arc<Hook>>>,
    /// True if hooks run one after the other.
    pub sequential: bool,
    /// Time of the selection.
    started: Option<Instant>,
    /// Policies that have inspected the event in the first pass; `None` in that pass.
    inspected: Option<Vec<RuleId>>,
    /// Policies that were selected anew after an edit of another one.
    added: Vec<RuleId>,
    /// Source of the event.
    pub(super) origin: EventOrigin,
    /// Policies and hooks that do not run, and why.
    pub(super) skipped: Vec<(RuleId, SkipReason)>,
    /// True if its hook is called for a proof, although the last one failed.
    pub(super) is_proof: bool,
    /// True if a locked bundle has policies on the event.
    has_locked_policies: bool,
    /// Policies and hooks whose condition failed, which therefore run.
    failed_conditions: Vec<(RuleId, EvalError)>,
}

impl Plan {
    /// Returns whether nothing runs.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.hooks.is_empty()
    }

    /// Returns whether a hook must not be called because it is not proven.
    pub(super) fn refuses(&self, hook: &Hook) -> bool {
        !self.is_proof
            && hook.spec.on_failure == FailureMode::Closed
            && hook.is_unproven.load(Ordering::Relaxed)
    }

    /// Detail with which messages are shown to the hooks on an event.
    pub fn detail(&self, event: EventName) -> Detail {
        let mut hooks = self.all_hooks();
        // A later hook sees what an earlier one leaves, which can be parts without text.
        let is_edited = self.sequential && event == EventName::BeforeModel;
        if is_edited || hooks.any(|hook| hook.protocol.shows_message_parts()) {
            Detail::Whole
        } else {
            Detail::Texts
        }
    }

    /// Returns whether a hook receives the document.
    pub fn shows_document(&self) -> bool {
        let mut hooks = self.all_hooks();
        hooks.any(|hook| hook.spec.document)
    }

    /// Returns whether a locked bundle has hooks on the event that run after others.
    pub const fn has_locked_hooks(&self) -> bool {
        self.locked_hooks.is_some()
    }

    /// Returns all hooks, those that run last included.
    pub(super) fn all_hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.hooks.iter().chain(self.locked_hooks.iter().flatten())
    }

    /// Returns the selection for the recorder.
    pub fn summary(&self) -> PlanSummary<'_> {
        PlanSummary {
            started: self.started.unwrap_or_else(Instant::now),
            sequential: self.sequential,
            skipped: &self.skipped,
        }
    }

    /// Returns whether policies of a locked bundle must inspect what these runs changed: whether
    /// any is of a policy that does not belong to it.
    pub fn needs_second_pass(&self, runs: &[HookRun]) -> bool {
        let mut changed = runs
            .iter()
            .filter(|run| run.is_enforced() && (run.edited || run.has_output()));
        let is_unlocked = |run: &HookRun| {
            let mut policies = self.policies.iter();
            policies.any(|policy| policy.rule == run.rule && !policy.is_locked)
        };
        self.has_locked_policies && changed.any(is_unlocked)
    }

    /// Returns whether a policy or hook that does not belong to a locked bundle answers in the
    /// place of the model.
    pub fn is_answered_by_unlocked(&self, runs: &[HookRun]) -> bool {
        let mut answers = runs.iter().filter(|run| {
            run.is_enforced() && run.result.output.specific("llm_response").is_some()
        });
        answers.any(|run| {
            let mut policies = self.policies.iter();
            let mut hooks = self.hooks.iter();
            policies.any(|policy| policy.rule == run.rule && !policy.is_locked)
                || hooks.any(|hook| hook.rule == run.rule && !hook.is_locked)
        })
    }

    /// Keeps the policies and hooks of a locked bundle.
    pub(super) fn keep_locked(&mut self) {
        let locked_hooks = self.locked_hooks.take();
        self.hooks.extend(locked_hooks.into_iter().flatten());
        self.hooks.retain(|hook| hook.is_locked);
        self.policies.retain(|policy| policy.is_locked);
    }

    /// Records which hooks of the locked bundle run, once they are selected anew.
    pub(super) fn reselect_locked(&mut self, selected: &[Arc<Hook>]) {
        let runs = |rule: RuleId| selected.iter().any(|hook| hook.rule == rule);
        self.skipped.retain(|(rule, _)| !runs(*rule));
        let locked_hooks = self.locked_hooks.iter().flatten();
        let left_out = locked_hooks.filter(|hook| !runs(hook.rule));
        self.skipped
            .extend(left_out.map(|hook| (hook.rule, SkipReason::Condition)));
    }

    /// Separates the hooks of a locked bundle, which run on what the others leave.
    fn separate_locked_hooks(&mut self, groups: &[MatcherGroup]) {
        let mut configured = groups.iter().flat_map(|group| &group.hooks);
        let has_unlocked = self.hooks.iter().any(|hook| !hook.is_locked);
        if has_unlocked && configured.any(|hook| hook.is_locked) {
            let hooks = std::mem::take(&mut self.hooks).into_iter();
            let (locked, unlocked) = hooks.partition(|hook| hook.is_locked);
            (self.locked_hooks, self.hooks) = (Some(locked), unlocked);
        }
    }

    /// Returns whether policies inspect a response again: hooks, or policies of a bundle that is
    /// not locked, may change it behind them.
    pub fn has_second_pass(&self) -> bool {
        let mut policies = self.policies.iter();
        !self.hooks.is_empty()
            || self.has_locked_policies && policies.any(|policy| !policy.is_locked)
    }

    /// Returns the policies in the order in which they inspect what others changed: those of a
    /// locked bundle last.
    pub(super) fn policies_of_second_pass(&self) -> Vec<Arc<ConfiguredPolicy>> {
        let mut policies = self.policies.clone();
        policies.sort_by_key(|policy| policy.is_locked);
        policies
    }

    /// Makes it the plan of a second pass, before which these policies have inspected the event.
    pub(super) fn set_second_pass(&mut self, first: &[Arc<ConfiguredPolicy>]) {
        let rules = first.iter().map(|policy| policy.rule);
        self.inspected = Some(rules.collect());
    }

    /// Returns the pass in which a policy inspects the event.
    pub(super) fn pass_of(&self, policy: &ConfiguredPolicy) -> InspectionPass {
        match &self.inspected {
            // INVARIANT: it changes no model behind a policy that has inspected it.
            None if self.added.contains(&policy.rule) => InspectionPass::SecondOnly,
            None => InspectionPass::First,
            Some(rules) if rules.contains(&policy.rule) => InspectionPass::Second,
            Some(_) => InspectionPass::SecondOnly,
        }
    }

    /// Returns whether policies and hooks are selected anew after a policy has edited the event.
    pub(super) fn follows_edits(&self, event: EventName) -> bool {
        // Conditions on answers are evaluated once for all chunks.
        self.inspected.is_none() && event != EventName::AfterModel
    }

    /// Takes over the hooks of a later selection, and the policies of which the condition did not
    /// hold before. INVARIANT: a policy that was selected runs.
    pub(super) fn reselect(&mut self, mut selected: Self) {
        selected.set_origin(self.origin);
        let was_skipped = |policy: &Arc<ConfiguredPolicy>| {
            self.skipped.contains(&(policy.rule, SkipReason::Condition))
        };
        let added = selected.policies.into_iter().filter(was_skipped);
        let added: Vec<_> = added.collect();
        self.added.extend(added.iter().map(|policy| policy.rule));
        self.policies.extend(added);
        self.sequential = selected.sequential;
        self.hooks = selected.hooks;
        self.locked_hooks = selected.locked_hooks;
        self.failed_conditions.extend(selected.failed_conditions);
        self.skipped.extend(selected.skipped);
        let policies = self.policies.iter().map(|policy| policy.rule);
        let hooks = self.all_hooks().map(|hook| hook.rule);
        let mut listed: BTreeSet<RuleId> = policies.chain(hooks).collect();
        self.skipped.retain(|(rule, _)| listed.insert(*rule));
    }

    /// Sets the source of the event. Policies that inspect model calls are skipped on derived
    /// events.
    pub(super) fn set_origin(&mut self, origin: EventOrigin) {
        self.origin = origin;
        if origin == EventOrigin::Derived {
            let skipped = self.policies.extract_if(.., |policy| policy.inspects_calls);
            let skipped = skipped.map(|policy| (policy.rule, SkipReason::InspectsCalls));
            self.skipped.extend(skipped);
        }
    }

    fn select_group(
        &mut self,
        group: &MatcherGroup,
        only: Option<&Guard>,
        conditions: &mut ConditionContext<'_>,
    ) {
        let hooks = group.hooks.iter();
        if conditions.is_matched_by(&group.matcher) {
            self.sequential |= group.sequential;
            let hooks = hooks.filter(|hook| only.is_none_or(|guard| guard.is_hook(hook)));
            self.select_hooks(hooks, conditions);
        } else {
            let skipped = hooks.map(|hook| (hook.rule, SkipReason::Matcher));
            self.skipped.extend(skipped);
        }
    }

    fn select_hooks<'a>(
        &mut self,
        hooks: impl Iterator<Item = &'a Arc<Hook>>,
        conditions: &mut ConditionContext<'_>,
    ) {
        for hook in hooks {
            let mut planned = self.hooks.iter_mut();
            // INVARIANT: a hook of another bundle never runs in the place of a locked one.
            let equal = planned.find(|planned| {
                planned.is_locked == hook.is_locked
                    && planned.spec.identity() == hook.spec.identity()
            });
            let skipped = match equal {
                _ if !hook.spec.agents.includes(conditions.is_sub_agent()) => {
                    (hook.rule, SkipReason::Matcher)
                }
                Some(planned) if planned.precedence() >= hook.precedence() => {
                    (hook.rule, SkipReason::Duplicate)
                }
                _ if !conditions.holds(hook.rule, &hook.name, hook.when.as_ref()) => {
                    (hook.rule, SkipReason::Condition)
                }
                // INVARIANT: a verdict is never loosened by another copy of the hook.
                Some(planned) => {
                    let replaced = std::mem::replace(planned, Arc::clone(hook));
                    (replaced.rule, SkipReason::Duplicate)
                }
                None => {
                    self.hooks.push(Arc::clone(hook));
                    continue;
                }
            };
            self.skipped.push(skipped);
        }
    }

    /// Adds a diagnostic to a run whose condition failed.
    pub(super) fn annotate(&self, run: &mut HookRun) {
        let mut failed = self.failed_conditions.iter();
        if let Some((_, error)) = failed.find(|(rule, _)| *rule == run.rule) {
            let diagnostic = DiagnosticCode::Condition.with(error.to_string());
            run.result.diagnostics.insert(0, diagnostic);
        }
    }
}

/// Selects the policies and hooks whose matcher matches and whose condition holds.
/// Of equal hooks of a bundle the strictest is kept, in the place of the first. One sequential group
/// makes the whole plan sequential. With `only`, nothing but this guard is selected. The policies of
/// other callers are no part of the plan: there may be thousands.
pub(super) fn plan(
    policies: &[Arc<ConfiguredPolicy>],
    groups: &[MatcherGroup],
    only: Option<&Guard>,
    mut conditions: ConditionContext<'_>,
) -> Plan {
    let mut plan = Plan {
        started: Some(Instant::now()),
        is_proof: only.is_some(),
        ..Plan::default()
    };
    plan.has_locked_policies = policies.iter().any(|policy| policy.is_locked);
    let caller = conditions.caller();
    let policies = policies.iter().filter(|policy| policy.is_for(caller));
    let policies = policies.filter(|policy| only.is_none_or(|guard| guard.is_policy(policy)));
    for policy in policies {
        if !conditions.is_matched_by(&policy.matcher) {
            plan.skipped.push((policy.rule, SkipReason::Matcher));
        } else if conditions.holds(policy.rule, &policy.name, policy.when.as_ref()) {
            plan.policies.push(Arc::clone(policy));
        } else {
            plan.skipped.push((policy.rule, SkipReason::Condition));
        }
    }
    for group in groups {
        plan.select_group(group, only, &mut conditions);
    }
    plan.failed_conditions = conditions.failed;
    plan.separate_locked_hooks(groups);
    plan
}

#[cfg(test)]
mod tests;
