//! Events of tools, agents and sessions, reported by the agent or derived from its
//! model calls: policies, hooks, policies again.
//!
//! A reported model call is known in its stable form only. Policies work on
//! documents, so they get one made from the stable form, and their edits are read
//! back as the output of a hook.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    condition_eval::ConditionSubject,
    configured_policy::ConfiguredPolicy,
    engine::Engine,
    outcome::{EventOutcome, merge, merge_runs},
    plan::Plan,
    run::{EventScope, finish_run, run_hooks},
};
use crate::{
    dialect::{self, Detail, DialectError, ResponseDocument},
    event::{
        Action, AfterModel, Event, EventKind, EventOrigin, HookOutput, HookRun, HookStatus,
        MatcherSubject, SkipReason, Verdict,
    },
    model::{LlmRequest, Role},
    observe::recorder::{EventDecision, ExchangeEvent, SinkNeed},
    policy::{ChunkPosition, InspectionPass, Policy, PolicyContext, PolicyRequest},
};

impl Engine {
    /// Runs policies and hooks on an event, and policies again if hooks changed
    /// anything.
    pub async fn fire<E: EventKind>(
        &self,
        scope: EventScope<'_>,
        mut event: E,
        origin: EventOrigin,
    ) -> EventOutcome<E::Verdict> {
        let subject = match event.subject() {
            MatcherSubject::None => None,
            MatcherSubject::Tool(name) | MatcherSubject::Keyword(name) => Some(name.to_owned()),
        };
        let wants_input = scope.recorder.needs(SinkNeed::Inputs);
        let input = wants_input.then(|| serde_json::to_vec(&event).unwrap_or_default());
        let mut plan = self.plan(E::NAME, scope, ConditionSubject::Event(event.as_event()));
        let is_selected = |policy: &ConfiguredPolicy| match origin {
            EventOrigin::Reported => true,
            EventOrigin::Derived | EventOrigin::ModelCall => !policy.inspects_calls,
        };
        plan.retain_policies(SkipReason::InspectsCalls, is_selected);
        let mut runs = self.run_policies(&plan, scope, InspectionPass::First, &mut event);
        let policy_runs = runs.len();
        runs.extend(run_hooks(&plan, scope, &mut event, None).await);
        let has_output = |run: &HookRun| run.is_enforced() && run.has_output();
        let hooks_changed = runs.iter().skip(policy_runs).any(has_output);
        let (output, _) = merge_runs::<E>(&runs);
        // A refusal is final; policies would only repeat theirs.
        let is_refused = matches!(E::evaluate(&output).action(), Action::Deny | Action::Stop);
        if !is_refused && (hooks_changed || plan.needs_last_look(&runs)) {
            if hooks_changed && !plan.sequential {
                event.apply(&output);
            }
            let subject = ConditionSubject::Event(event.as_event());
            let mut plan = self.plan_second_pass(E::NAME, scope, subject);
            plan.policies.retain(|policy| is_selected(policy));
            runs.extend(self.run_policies(&plan, scope, InspectionPass::Second, &mut event));
        }
        let outcome = merge::<E>(runs);
        let decision = EventDecision {
            subject: subject.as_deref(),
            input: input.as_deref(),
            plan: Some(plan.summary()),
            ..outcome.decision(E::NAME, origin)
        };
        scope
            .recorder
            .record(&ExchangeEvent::EventDecided(&decision));
        outcome
    }

    /// Runs policies in order. Each sees the edits of those before it.
    fn run_policies<E: EventKind>(
        &self,
        plan: &Plan,
        scope: EventScope<'_>,
        pass: InspectionPass,
        event: &mut E,
    ) -> Vec<HookRun> {
        let mut runs = Vec::new();
        for policy in &plan.policies {
            let context = self.policy_context(policy, scope, "", pass);
            let mut run = run_policy(policy, &context, event);
            run.result.output.mark_following();
            finish_run(plan, scope, E::NAME, &mut run);
            if run.is_enforced() && run.status() == HookStatus::Ok {
                event.apply(&run.result.output);
            }
            runs.push(run);
        }
        runs
    }
}

/// Runs a policy on an event. An event that cannot be read is denied.
fn run_policy<E: EventKind>(
    policy: &ConfiguredPolicy,
    context: &PolicyContext<'_>,
    event: &E,
) -> HookRun {
    let started = Instant::now();
    let inspected = match event.as_event() {
        Event::BeforeModel(event) => inspect_request(&*policy.policy, context, &event.llm_request),
        Event::AfterModel(event) => inspect_response(&*policy.policy, context, event),
        other => Ok(policy.policy.event(context, other)),
    };
    let output = inspected
        .unwrap_or_else(|error| HookOutput::denial(format!("The event cannot be read: {error}.")));
    policy.run::<E>(output, started.elapsed())
}

fn inspect_request(
    policy: &dyn Policy,
    context: &PolicyContext<'_>,
    llm_request: &LlmRequest,
) -> Result<HookOutput, DialectError> {
    let (call, document) = dialect::build_request(llm_request)?;
    let before = dialect::read_stable_form(&call, &document, Detail::Texts)?;
    let mut request = PolicyRequest::new(call, document);
    let model = request.call.model_name().to_owned();
    let context = PolicyContext {
        model: &model,
        ..*context
    };
    let mut output = policy.request(&context, &mut request)?;
    if request.edited {
        let after = dialect::read_stable_form(&request.call, &request.document, Detail::Texts)?;
        let edit = edit_between(&before, &after, llm_request);
        if !edit.is_empty() {
            output.set_specific("llm_request", Value::Object(edit));
        }
    }
    Ok(output)
}

fn inspect_response(
    policy: &dyn Policy,
    context: &PolicyContext<'_>,
    event: &AfterModel,
) -> Result<HookOutput, DialectError> {
    let context = PolicyContext {
        model: &event.llm_request.model,
        ..*context
    };
    let Some(mut policy) = policy.response(&context) else {
        return Ok(HookOutput::default());
    };
    let mut document = ResponseDocument::from_model(&event.llm_response)?;
    let before = document.to_bytes();
    let mut output = policy.chunk(&mut document, ChunkPosition::Last)?;
    if document.to_bytes() != before {
        // A struct of strings and numbers always becomes JSON.
        let llm_response = serde_json::to_value(document.read()?).unwrap_or_default();
        output.set_specific("llm_response", llm_response);
    }
    Ok(output)
}

/// Returns the fields of the stable form that differ. It does not contain the system instruction,
/// unless as a message, as the `reported` request may.
fn edit_between(
    before: &LlmRequest,
    after: &LlmRequest,
    reported: &LlmRequest,
) -> Map<String, Value> {
    let fields = |request: &LlmRequest| match serde_json::to_value(request) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut edit = fields(after);
    let old = fields(before);
    edit.retain(|key, value| old.get(key) != Some(value));
    let is_system_edited = before.system != after.system;
    let mut messages = reported.messages.iter();
    if messages.any(|message| message.role == Role::System) {
        if is_system_edited || edit.contains_key("messages") {
            let messages = after.with_system_message().messages;
            edit.insert("messages".to_owned(), json!(messages));
        }
    } else if is_system_edited {
        edit.insert("systemInstruction".to_owned(), json!(after.system));
    }
    edit
}
