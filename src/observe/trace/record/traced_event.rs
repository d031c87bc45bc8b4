//! One hook event of an exchange, with every policy and hook: asked, or why not.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    event::{Action, EventName, HookStatus, RuleId, SkipReason},
    observe::trace::{
        record::{output_fields::OutputFields, reason_text::ReasonText},
        rule::{RulePosition, TracedRule},
    },
};

/// One hook event. Times are microseconds since the exchange's begin.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TracedEvent {
    /// Name of the event.
    #[schema(value_type = String)]
    pub event: EventName,
    /// Source of the event: `call`, `derived` or `reported`.
    pub origin: &'static str,
    /// Text that matchers compare, such as a tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<str>>,
    /// Time at which its policies and hooks were selected.
    pub at_us: u32,
    /// Time at which it was decided.
    pub ended_us: u32,
    /// Number of the request to the model API that it belongs to; 0 before the first.
    pub round: u32,
    /// True if hooks ran one after the other.
    pub sequential: bool,
    /// Policies, then hooks, then those that did not run.
    #[schema(value_type = Vec<RunReport<'_>>)]
    pub rules: Vec<TracedRun>,
    /// Verdict on the event; absent in a dry run, and if the event was not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Action>,
    /// Reason of a verdict that denies, stops or asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonText>,
    /// Number of chunks that were inspected, for responses in chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
}

/// One policy or hook on one event.
#[derive(Debug, Clone)]
pub struct TracedRun {
    /// Number of the rule in the config.
    pub id: RuleId,
    /// The rule; `None` if the trace has no memory for it.
    pub rule: Option<Arc<TracedRule>>,
    /// Its run, or why there is none.
    pub outcome: RunOutcome,
}

/// The run of a policy or hook, or why there is none.
#[derive(Debug, Clone)]
pub enum RunOutcome {
    /// It did not run.
    NotAsked(SkipReason),
    /// It ran, perhaps several times.
    Asked(RunDetail),
}

/// The runs of one policy or hook on one event. A response in chunks has many.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct RunDetail {
    /// Worst status of its runs: `ok`, `block` or `failed`.
    #[schema(value_type = String)]
    pub status: HookStatus,
    /// Sum of the durations of its runs.
    pub duration_us: u32,
    /// Number of its runs.
    pub runs: u64,
    /// Action that its output alone would cause.
    pub action: Action,
    /// Action that the output would have caused, in mode `observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Action>,
    /// Reason of its decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonText>,
    /// Names of the fields of its output.
    #[schema(value_type = Vec<String>)]
    pub fields: OutputFields,
    /// True if a policy edited the document, or would have.
    pub edited: bool,
    /// Number of calls that it removed from the response, or would have.
    pub refused_calls: u32,
    /// Codes of ignored parts of the output and of failures.
    pub diagnostics: Vec<&'static str>,
}

impl TracedEvent {
    /// Returns whether a policy or hook decided or edited something.
    pub fn has_acted(&self) -> bool {
        let mut details = self.rules.iter().filter_map(TracedRun::asked);
        details.any(RunDetail::has_acted)
    }

    /// Returns the verdict on the event, or on calls that were removed from a response.
    pub(crate) fn verdict_on_calls(&self) -> Option<Action> {
        let runs = self.rules.iter().filter_map(TracedRun::asked);
        let enforced = runs.filter(|run| run.would.is_none() && run.refused_calls > 0);
        let on_calls = enforced.map(RunDetail::action_on_calls).max();
        self.verdict
            .map(|verdict| on_calls.unwrap_or(verdict).max(verdict))
    }

    /// Returns whether a policy or hook edited or added something.
    pub(crate) fn has_edit(&self) -> bool {
        let mut details = self.rules.iter().filter_map(TracedRun::asked);
        details.any(|run| run.would.is_none() && (run.edited || run.fields.has_edit()))
    }

    /// Returns the rules that did not run, with the reasons; without those of a dry run, in which
    /// no rule runs.
    pub fn skipped_rules(&self) -> impl Iterator<Item = (&TracedRun, SkipReason)> {
        self.rules.iter().filter_map(|rule| match rule.outcome {
            RunOutcome::Asked(_) | RunOutcome::NotAsked(SkipReason::DryRun) => None,
            RunOutcome::NotAsked(reason) => Some((rule, reason)),
        })
    }

    /// Removes the texts of reasons that may be about content.
    pub(crate) fn remove_content(&mut self) {
        let runs = self
            .rules
            .iter_mut()
            .filter_map(|run| match &mut run.outcome {
                RunOutcome::Asked(detail) => detail.reason.as_mut(),
                RunOutcome::NotAsked(_) => None,
            });
        for reason in runs.chain(&mut self.reason) {
            reason.remove_content();
        }
    }

    /// Returns the size in memory, with everything that it owns.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes()
    }

    /// Returns the bytes that it owns outside of itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.subject.as_ref().map_or(0, |subject| subject.len())
            + self.rules.capacity() * size_of::<TracedRun>()
            + self.rules.iter().map(TracedRun::heap_bytes).sum::<usize>()
            + self.reason.as_ref().map_or(0, ReasonText::heap_bytes)
    }
}

impl TracedRun {
    /// Returns the run, if the rule ran.
    pub const fn asked(&self) -> Option<&RunDetail> {
        match &self.outcome {
            RunOutcome::Asked(run) => Some(run),
            RunOutcome::NotAsked(_) => None,
        }
    }

    /// Returns the name of the rule; empty if the trace has no memory for it.
    pub fn name(&self) -> &str {
        self.rule.as_ref().map_or("", |rule| &rule.identity.name)
    }

    /// Returns the line of the config; `None` if the trace has no memory for the rule.
    pub fn position(&self) -> Option<&RulePosition> {
        self.rule.as_ref().map(|rule| &rule.identity.at)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.asked().map_or(0, RunDetail::heap_bytes)
    }
}

impl RunDetail {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.reason.as_ref().map_or(0, ReasonText::heap_bytes)
            + self.diagnostics.capacity() * size_of::<&str>()
    }

    /// Returns the action that it alone would cause, on the event or on calls of tools.
    pub(crate) fn action_on_calls(&self) -> Action {
        if self.refused_calls > 0 {
            self.action.max(Action::Deny)
        } else {
            self.action
        }
    }

    /// Returns whether it decided or edited something, and not only observes.
    pub const fn has_acted(&self) -> bool {
        self.would.is_none() && self.has_effect()
    }

    /// Returns whether it decided or edited something, or would have.
    pub const fn has_effect(&self) -> bool {
        !matches!(self.action, Action::Proceed)
            || self.edited
            || self.refused_calls > 0
            || self.fields.has_edit()
    }
}

/// One policy or hook on one event, as JSON.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunReport<'a> {
    /// Name of the policy or hook.
    name: &'a str,
    /// Type of the hook, such as `command`; `builtin` for policies.
    r#type: &'a str,
    /// Kind of the policy, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// File and line of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a RulePosition>,
    /// True if it ran.
    asked: bool,
    /// Facts of its runs, or why there are none.
    #[serde(flatten)]
    #[schema(inline)]
    outcome: OutcomeReport<'a>,
}

/// The runs of a policy or hook, or why there are none, as JSON.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OutcomeReport<'a> {
    /// The facts of its runs.
    Asked(&'a RunDetail),
    /// The reason why it did not run.
    NotAsked {
        /// Reason for skipping the rule.
        because: SkipReason,
        /// The reason as the end of a sentence.
        explanation: &'static str,
    },
}

impl Serialize for TracedRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let identity = self.rule.as_ref().map(|rule| &rule.identity);
        let outcome = match &self.outcome {
            RunOutcome::Asked(run) => OutcomeReport::Asked(run),
            RunOutcome::NotAsked(reason) => OutcomeReport::NotAsked {
                because: *reason,
                explanation: reason.explanation(),
            },
        };
        let report = RunReport {
            name: self.name(),
            r#type: identity.map_or("", |rule| &rule.kind),
            policy: identity.and_then(|rule| rule.policy.as_deref()),
            at: self.position(),
            asked: self.asked().is_some(),
            outcome,
        };
        report.serialize(serializer)
    }
}
