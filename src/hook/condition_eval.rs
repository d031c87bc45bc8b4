//! Conditions of hooks and policies: built with the config, evaluated on events.

use std::collections::BTreeMap;

use super::tool_matcher::ToolMatcher;
use crate::{
    condition::{self, Condition, EvalError, Facts, RequestFacts, StaticResult},
    config::{Format, Problem, When},
    dialect::{self, Call, DialectError, Document, Operation},
    event::{Context, Event, EventName, MatcherSubject, RuleId},
};

/// Schema format of a condition.
pub(super) const FORMAT: Format = Format {
    name: "condition",
    check: |text| match condition::compile(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is not a valid condition: {error}")),
    },
};

/// Source from which the facts of a condition are read.
#[derive(Debug, Clone, Copy)]
pub enum ConditionSubject<'a> {
    /// A model call in its current form.
    Call {
        /// Method and model of the request.
        call: &'a Call,
        /// Body of the request.
        document: &'a Document,
    },
    /// An event with its own fields.
    Event(Event<'a>),
}

/// Builds a condition for hooks on these events.
///
/// # Errors
///
/// Fails if the condition does not compile, cannot be true on any of the events, or excludes the
/// model calls that a policy inspects.
pub(super) fn build(when: &When, events: &[EventName]) -> Result<Condition, Problem> {
    let problem = |message: String| Problem::at(&when.span, format!("`when` {message}"));
    let condition = condition::compile(&when.text)
        .map_err(|error| problem(format!("is not a valid condition: {error}")))?;
    let results = || {
        events
            .iter()
            .map(|event| condition::analyze(&condition, *event))
    };
    if results().all(|result| result == StaticResult::False) {
        let names = joined_names(events, " or ");
        return Err(problem(format!("is always false on {names}")));
    }
    if !results().any(|result| matches!(result, StaticResult::Dynamic | StaticResult::True)) {
        return Err(problem(describe_absent(&absent_facts(&condition, events))));
    }
    match event_without_calls(&condition, events) {
        Some(event) => Err(problem(format!(
            "is always false on model calls, so the policy inspects none; use a hook of `type: builtin` on {event}"
        ))),
        None => Ok(condition),
    }
}

/// Returns the facts that decide a condition although some of these events do not have them, each
/// with these events.
pub(super) fn absent_facts(
    condition: &Condition,
    events: &[EventName],
) -> BTreeMap<String, Vec<EventName>> {
    let mut absent: BTreeMap<String, Vec<EventName>> = BTreeMap::new();
    for event in events {
        if let StaticResult::Absent(fact) = condition::analyze(condition, *event) {
            absent.entry(fact).or_default().push(*event);
        }
    }
    absent
}

/// Describes the facts of a condition that has all of them on no event.
fn describe_absent(absent: &BTreeMap<String, Vec<EventName>>) -> String {
    let facts: Vec<String> = absent.keys().map(|fact| format!("`{fact}`")).collect();
    let facts = facts.join(" and ");
    match absent.values().collect::<Vec<_>>().as_slice() {
        [events] => {
            let names = joined_names(events, " or ");
            format!("refers to {facts}, which {names} does not have")
        }
        _ => format!("refers to {facts}, which no event has together"),
    }
}

/// Returns the names of events in one text.
pub(super) fn joined_names(events: &[EventName], separator: &str) -> String {
    let names: Vec<&str> = events.iter().map(|event| event.as_str()).collect();
    names.join(separator)
}

/// Returns an event on which a policy may run, if it never runs on the model calls that it
/// inspects. It does not run on derived events, so it would guard none of these calls.
fn event_without_calls(condition: &Condition, events: &[EventName]) -> Option<EventName> {
    let is_false = |event: &EventName| condition::analyze(condition, *event) == StaticResult::False;
    let (calls, others): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.is_model_call());
    if calls.is_empty() || !calls.into_iter().all(is_false) {
        return None;
    }
    others.into_iter().copied().find(|event| !is_false(event))
}

/// Evaluates conditions on one event. Its facts are collected once, for the first
/// condition.
pub(super) struct ConditionContext<'a> {
    event: EventName,
    context: &'a Context,
    subject: ConditionSubject<'a>,
    facts: Option<Facts<'a>>,
    /// True if the facts lack those of the request, because it cannot be read.
    is_unreadable: bool,
    /// Hooks and policies whose condition failed.
    pub(super) failed: Vec<(RuleId, EvalError)>,
}

impl<'a> ConditionContext<'a> {
    pub(super) const fn new(
        event: EventName,
        context: &'a Context,
        subject: ConditionSubject<'a>,
    ) -> Self {
        Self {
            event,
            context,
            subject,
            facts: None,
            is_unreadable: false,
            failed: Vec::new(),
        }
    }

    /// Returns whether a matcher matches the subject of the event, or the toolset of its tool.
    pub(super) fn is_matched_by(&self, matcher: &ToolMatcher) -> bool {
        let (subject, toolset) = match self.subject {
            ConditionSubject::Call { .. } => (MatcherSubject::None, None),
            ConditionSubject::Event(event) => (event.subject(), event.toolset()),
        };
        matcher.matches(subject)
            || toolset.is_some_and(|name| matcher.matches(MatcherSubject::Tool(name)))
    }

    /// Returns the name of the caller; empty without authentication.
    pub(super) fn caller(&self) -> &'a str {
        &self.context.caller.name
    }

    /// Returns whether the event is of a sub-agent.
    pub(super) const fn is_sub_agent(&self) -> bool {
        self.context.sub_agent.is_some()
    }

    /// Returns whether a hook or policy runs. INVARIANT: it runs if its condition
    /// cannot be evaluated.
    pub(super) fn holds(
        &mut self,
        rule: RuleId,
        name: &str,
        condition: Option<&Condition>,
    ) -> bool {
        let Some(condition) = condition else {
            return true;
        };
        let (event, context, subject) = (self.event, self.context, self.subject);
        let is_unreadable = &mut self.is_unreadable;
        let facts = self.facts.get_or_insert_with(|| {
            let request = request_of(subject);
            *is_unreadable = request.is_err();
            Facts {
                event,
                context,
                request: request.unwrap_or_default(),
                source: match subject {
                    ConditionSubject::Call { .. } => None,
                    ConditionSubject::Event(event) => Some(event),
                },
            }
        });
        let result = if *is_unreadable && condition.uses("request") {
            Err(EvalError::Unreadable)
        } else {
            condition.evaluate(facts)
        };
        result.unwrap_or_else(|error| {
            tracing::warn!(
                request.id = context.request_id,
                hook.name = name,
                event = event.as_str(),
                %error,
                "condition evaluation failed; the hook runs"
            );
            self.failed.push((rule, error));
            true
        })
    }
}

/// Returns the facts of the model call of an event, if it has one.
fn request_of(subject: ConditionSubject<'_>) -> Result<Option<RequestFacts>, DialectError> {
    match subject {
        ConditionSubject::Call { call, document } => request_facts(call, document).map(Some),
        ConditionSubject::Event(event) => {
            let Some(llm_request) = event.llm_request() else {
                return Ok(None);
            };
            let (call, document) = dialect::build_request(llm_request)?;
            Ok(Some(RequestFacts {
                // As reported, even if it is not a valid model name.
                model: llm_request.model.clone(),
                ..request_facts(&call, &document)?
            }))
        }
    }
}

fn request_facts(call: &Call, document: &Document) -> Result<RequestFacts, DialectError> {
    let summary = dialect::summarize_request(call, document)?;
    Ok(RequestFacts {
        model: call.model_name().to_owned(),
        operation: call.operation.as_str(),
        stream: matches!(call.operation, Operation::Stream(_)),
        bytes: call.body_bytes(document),
        contents: summary.contents,
        tools: summary.functions,
        max_output_tokens: summary.max_output_tokens,
    })
}
