//! Policies and hooks with their statistics, and what is remarkable about each.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    config::{FailureMode, HookMode},
    event::EventName,
    observe::trace::{RuleIdentity, RuleSummary},
    proof::GuardStatus,
    state::{App, Snapshot},
};

/// One policy or hook of the config in use, or of the one that is rolled out.
#[derive(Debug, Serialize, ToSchema)]
pub struct RuleView {
    /// The rule and its statistics since the start of the process.
    #[serde(flatten)]
    pub summary: RuleSummary,
    /// True if only the config that is rolled out has the rule.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub candidate: bool,
    /// Last proof, if the config has cases for the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<GuardStatus>,
    /// Remarks about the rule, worst first.
    pub remarks: Vec<RuleRemark>,
}

named_enum! {
    /// A remark about a policy or hook.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum RuleRemark {
        /// Its last proof failed.
        NotProven = "not proven",
        /// Some of its runs in the last 24 hours failed.
        Failing = "failing",
        /// It could deny something but lets it pass when it fails.
        FailsOpen = "fails open",
        /// It fails closed, and the config has no case that proves it.
        WithoutProof = "without a proof",
        /// It has not run since the start of the process.
        NeverAsked = "never run",
        /// It ran, but never decided or edited anything.
        NeverActed = "never acted",
        /// Its mode is `observe`.
        Observes = "only observes",
        /// A switch of the config disables it.
        Disabled = "disabled",
        /// Its last proof succeeded.
        Proven = "proven",
    }
}

/// Returns the policies and hooks in the order in which they run, and then those that only the
/// config of a rollout has.
pub fn rules(app: &App) -> Vec<RuleView> {
    let snapshot = app.snapshot();
    let mut views = rules_of(&snapshot);
    let candidate = snapshot.active_candidate();
    for view in candidate.map(rules_of).unwrap_or_default() {
        let mut known = views.iter();
        if !known.any(|known| known.summary.rule == view.summary.rule) {
            views.push(RuleView {
                candidate: true,
                ..view
            });
        }
    }
    views
}

fn rules_of(snapshot: &Snapshot) -> Vec<RuleView> {
    let views = snapshot.trace.rules().map(|(rule, summary)| {
        let proof = snapshot.guard_status(rule);
        RuleView {
            candidate: false,
            remarks: remarks(&summary, proof.as_ref()),
            proof,
            summary,
        }
    });
    views.collect()
}

fn remarks(summary: &RuleSummary, proof: Option<&GuardStatus>) -> Vec<RuleRemark> {
    let (rule, counts) = (&summary.rule, &summary.counts);
    let is_asked = counts.asked > 0;
    let has_acted = counts.acted > 0 || counts.would_have > 0;
    let is_proven = proof.map(|proof| proof.proven);
    let found = [
        (is_proven == Some(false)).then_some(RuleRemark::NotProven),
        (summary.last_day.failed > 0).then_some(RuleRemark::Failing),
        guard_remark(rule, proof),
        (!is_asked && !rule.disabled).then_some(RuleRemark::NeverAsked),
        (is_asked && !has_acted).then_some(RuleRemark::NeverActed),
        (rule.mode == HookMode::Observe).then_some(RuleRemark::Observes),
        rule.disabled.then_some(RuleRemark::Disabled),
        (is_proven == Some(true)).then_some(RuleRemark::Proven),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the remark about the failures of a hook that could deny something, or exclude tools.
fn guard_remark(rule: &RuleIdentity, proof: Option<&GuardStatus>) -> Option<RuleRemark> {
    let has_event = |holds: fn(EventName) -> bool| rule.events.iter().copied().any(holds);
    let is_enforced = rule.mode == HookMode::Enforce && !rule.disabled;
    let is_guard = is_enforced && has_event(EventName::can_fail_closed);
    match rule.on_failure.filter(|_| is_guard)? {
        FailureMode::Open => Some(RuleRemark::FailsOpen),
        FailureMode::Closed => {
            let is_provable = has_event(EventName::is_provable);
            (is_provable && proof.is_none()).then_some(RuleRemark::WithoutProof)
        }
    }
}
