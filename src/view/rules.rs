//! Policies and hooks with their statistics, and what is remarkable about each.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    config::{HookMode, HookSpec},
    observe::trace::RuleSummary,
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

/// A remark about a policy or hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleRemark {
    /// Its last proof failed.
    NotProven,
    /// Some of its runs in the last 24 hours failed.
    Failing,
    /// It could deny something but lets it pass when it fails.
    FailsOpen,
    /// It fails closed, and the config has no case that proves it.
    WithoutProof,
    /// It has not run since the start of the process.
    NeverAsked,
    /// It ran, but never decided or edited anything.
    NeverActed,
    /// Its mode is `observe`.
    Observes,
    /// A switch of the config disables it.
    Disabled,
    /// Its last proof succeeded.
    Proven,
}

impl RuleRemark {
    /// Returns the remark in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotProven => "not proven",
            Self::Failing => "failing",
            Self::FailsOpen => "fails open",
            Self::WithoutProof => "without a proof",
            Self::NeverAsked => "never run",
            Self::NeverActed => "never acted",
            Self::Observes => "only observes",
            Self::Disabled => "disabled",
            Self::Proven => "proven",
        }
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
    let open = snapshot.config.guards_that_fail_open();
    let open: Vec<HookPlace> = open.map(|(_, hook)| place(hook)).collect();
    let unproven = snapshot.config.guards_without_proof();
    let unproven: Vec<HookPlace> = unproven.map(|(_, hook)| place(hook)).collect();
    let views = snapshot.trace.rules().map(|(rule, summary)| {
        let proof = snapshot.proofs.of_rule(rule);
        let of_config = [
            (is_among(&open, &summary), RuleRemark::FailsOpen),
            (is_among(&unproven, &summary), RuleRemark::WithoutProof),
        ];
        RuleView {
            candidate: false,
            remarks: remarks(&summary, of_config, proof.as_ref()),
            proof,
            summary,
        }
    });
    views.collect()
}

/// Name, file and line of a hook.
type HookPlace = (String, String, u64);

fn place(hook: &HookSpec) -> HookPlace {
    let file = hook.span.file.display().to_string();
    (hook.label().to_owned(), file, hook.span.line)
}

fn is_among(hooks: &[HookPlace], summary: &RuleSummary) -> bool {
    let (name, at) = (&summary.rule.name, &summary.rule.at);
    let mut hooks = hooks.iter();
    hooks.any(|(hook, file, line)| (hook, file, *line) == (name, &at.file, at.line))
}

/// Returns the remarks about a rule. `of_config` are those that follow from the config.
fn remarks(
    summary: &RuleSummary,
    of_config: [(bool, RuleRemark); 2],
    proof: Option<&GuardStatus>,
) -> Vec<RuleRemark> {
    let (rule, counts) = (&summary.rule, &summary.counts);
    let [fails_open, without_proof] = of_config;
    let is_asked = counts.asked > 0;
    let has_acted = counts.acted > 0 || counts.would_have > 0;
    let is_proven = proof.map(|proof| proof.proven);
    let found = [
        (is_proven == Some(false), RuleRemark::NotProven),
        (summary.last_day.failed > 0, RuleRemark::Failing),
        fails_open,
        without_proof,
        (!is_asked && !rule.disabled, RuleRemark::NeverAsked),
        (is_asked && !has_acted, RuleRemark::NeverActed),
        (rule.mode == HookMode::Observe, RuleRemark::Observes),
        (rule.disabled, RuleRemark::Disabled),
        (is_proven == Some(true), RuleRemark::Proven),
    ];
    let found = found.into_iter().filter(|(holds, _)| *holds);
    found.map(|(_, state)| state).collect()
}
