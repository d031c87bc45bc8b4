//! One line about a call, for lists and the live tail.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    event::{Action, EventName},
    observe::trace::{
        record::{
            CallHead, CallRecord,
            reason_text::ReasonText,
            traced_event::{TracedEvent, TracedRun},
        },
        rule::RulePosition,
    },
};

/// One line about a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallSummary<'a> {
    /// Facts of an exchange, in its record and in lists.
    #[serde(flatten)]
    #[schema(value_type = CallHead)]
    pub head: &'a CallHead,
    /// Time in which policies and hooks ran, in microseconds.
    pub hooks_us: u64,
    /// Policy or hook that decided, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidingRule<'a>>,
    /// Tools that calls and results of the exchange are about, each once.
    pub tools: Vec<&'a str>,
    /// True if the request went upstream other than the agent sent it.
    pub edited_request: bool,
    /// True if the agent received another answer than the model's.
    pub edited_answer: bool,
    /// Tokens of all rounds; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// The policy or hook that decided a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecidingRule<'a> {
    /// Name of the policy or hook.
    pub name: &'a str,
    /// File and line of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<&'a RulePosition>,
    /// Event on which it decided.
    #[schema(value_type = String)]
    pub event: EventName,
    /// Action that its output alone would cause: `deny` if it removed a tool call, `proceed` for
    /// another edit.
    pub action: Action,
    /// Reason of its decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a ReasonText>,
}

impl CallRecord {
    /// Returns one line about the call.
    pub fn summary(&self) -> CallSummary<'_> {
        let detail = self.detail.as_deref();
        CallSummary {
            head: &self.head,
            hooks_us: detail.map_or(0, |detail| detail.times.hooks_us),
            decided_by: self.decided_by(),
            tools: self.tools(),
            edited_request: self.has_edited_request(),
            edited_answer: self.has_edited_answer(),
            tokens: self.tokens.map(|tokens| tokens.total),
        }
    }

    /// Returns the rule with the strictest effect; of several, the first.
    pub fn decided_by(&self) -> Option<DecidingRule<'_>> {
        let mut strictest: Option<DecidingRule<'_>> = None;
        for (event, run) in self.events().iter().flat_map(runs) {
            let acted = run.asked().filter(|detail| detail.has_acted());
            let Some(detail) = acted else {
                continue;
            };
            let action = detail.action_on_calls();
            let is_stricter = strictest.as_ref().is_none_or(|rule| action > rule.action);
            if is_stricter {
                strictest = Some(DecidingRule {
                    name: run.name(),
                    at: run.position(),
                    event: event.event,
                    action,
                    reason: detail.reason.as_ref(),
                });
            }
        }
        strictest
    }

    /// Returns the tools that its events are about, each once.
    pub fn tools(&self) -> Vec<&str> {
        let mut tools: Vec<&str> = Vec::new();
        let subjects = self.events().iter().filter_map(|event| {
            let is_tool = matches!(event.event, EventName::BeforeTool | EventName::AfterTool);
            event.subject.as_deref().filter(|_| is_tool)
        });
        for tool in subjects
            .chain(self.denied_tools())
            .chain(self.would_deny_tools())
        {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        tools
    }

    /// Returns whether a call of a tool was denied: by the verdict on it, or removed from an answer.
    pub fn denies_tool(&self, tool: &str) -> bool {
        let mut events = self.events().iter();
        self.denied_tools().any(|denied| denied == tool)
            || events.any(|event| {
                let is_denied = event.verdict.is_some_and(|verdict| verdict >= Action::Deny);
                let is_call = event.event == EventName::BeforeTool;
                is_call && is_denied && event.subject.as_deref() == Some(tool)
            })
    }

    /// Returns the tools whose calls were removed from an answer.
    pub fn denied_tools(&self) -> impl Iterator<Item = &str> {
        let detail = self.detail.iter();
        detail.flat_map(|detail| detail.denied_tools.iter().map(|tool| &**tool))
    }

    /// Returns the tools whose calls a rule in mode `observe` would have removed.
    pub fn would_deny_tools(&self) -> impl Iterator<Item = &str> {
        let detail = self.detail.iter();
        detail.flat_map(|detail| detail.would_deny_tools.iter().map(|tool| &**tool))
    }

    /// Returns the strictest verdict on an event or on a call of a tool.
    pub fn strictest_verdict(&self) -> Option<Action> {
        let verdicts = self.events().iter().filter_map(|event| event.verdict);
        verdicts
            .chain(self.has_denied_tools().then_some(Action::Deny))
            .max()
    }

    /// Returns whether a call of a tool was removed from an answer.
    pub fn has_denied_tools(&self) -> bool {
        let mut runs = self.events().iter().flat_map(runs);
        self.denied_tools().next().is_some()
            || runs.any(|(_, run)| {
                let detail = run.asked().filter(|detail| detail.would.is_none());
                detail.is_some_and(|detail| detail.refused_calls > 0)
            })
    }
}

fn runs(event: &TracedEvent) -> impl Iterator<Item = (&TracedEvent, &TracedRun)> {
    event.rules.iter().map(move |run| (event, run))
}
