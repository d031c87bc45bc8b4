//! Events of tools, agents and sessions, reported by the agent or derived from its
//! model calls: policies, hooks, policies again. Hooks of a locked bundle run last.
//! The stages `before_model`, `tool_selection` and `response_filter` of the pipeline have the
//! same order in their own form: between its steps they write edits into a document, and a
//! stream keeps its policies and its plan for all chunks.
//!
//! A reported model call is known in its stable form only. Policies work on
//! documents, so they get one made from the stable form, and their edits are read
//! back as the output of a hook.

use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    condition_eval::ConditionSubject,
    configured_policy::ConfiguredPolicy,
    engine::Engine,
    outcome::{EventOutcome, conclude, decision, merge, merge_runs},
    plan::Plan,
    run::{EventScope, finish_run, run_hooks},
};
use crate::{
    config::HookMode,
    dialect::{self, Detail, DialectError, ResponseDocument},
    event::{
        Action, AfterModel, Event, EventKind, EventName, EventOrigin, FlowVerdict, HookOutput,
        HookRun, HookStatus,
    },
    model::{LlmRequest, ResponseMutation, Role},
    observe::{
        recorder::{EventDecision, ExchangeEvent, SinkNeed},
        trace::OutputFields,
    },
    policy::{ChunkPosition, Policy, PolicyContext, PolicyRequest},
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
        let subject = event.subject().text().map(str::to_owned);
        let wants_input = scope.recorder.needs(SinkNeed::Inputs);
        let input = wants_input.then(|| serde_json::to_vec(&event).unwrap_or_default());
        let mut plan = self.plan(E::NAME, scope, ConditionSubject::Event(event.as_event()));
        plan.set_origin(origin);
        let mut runs = self.run_policies(&mut plan, scope, &mut event);
        let policy_runs = runs.len();
        let before_hooks = event.clone();
        runs.extend(self.run_layers(&mut plan, scope, &mut event).await);
        let has_output = |run: &HookRun| run.is_enforced() && run.has_output();
        let hooks_changed = runs.iter().skip(policy_runs).any(has_output);
        let (output, _) = merge_runs::<E>(&runs);
        // A refusal is final; policies would only repeat theirs.
        let is_refused = matches!(E::action(&output), Action::Deny | Action::Stop);
        if hooks_changed || !is_refused && plan.needs_second_pass(&runs) {
            let subject = ConditionSubject::Event(event.as_event());
            let mut plan = self.plan_second_pass(&plan, E::NAME, scope, subject);
            // A refusal may have texts for the conversation, too.
            let edited = mask_added(&plan, E::NAME, &mut runs);
            if !is_refused {
                if edited.contains(&true) {
                    // The event has the added texts without their masks.
                    event = before_hooks;
                    let hook_runs = runs.get(policy_runs..).unwrap_or_default();
                    event.apply(&merge_runs::<E>(hook_runs).0);
                }
                let last = self.run_policies(&mut plan, scope, &mut event);
                runs.extend(last.into_iter().zip(edited).map(|(run, edited)| HookRun {
                    edited: run.edited || edited,
                    ..run
                }));
            }
        }
        let mut outcome = merge::<E>(runs);
        if origin == EventOrigin::Reported {
            outcome.stop_failed_turn::<E>();
        }
        let decision = EventDecision {
            subject: subject.as_deref(),
            input: input.as_deref(),
            ..decision::<E>(&outcome, origin, plan.summary())
        };
        scope
            .recorder
            .record(&ExchangeEvent::EventDecided(&decision));
        outcome
    }

    /// Lets a locked bundle inspect an answer that a policy or hook of another one gives in the
    /// place of the model, and edit it.
    pub async fn inspect_answer(
        &self,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
        event: &mut AfterModel,
        document: Option<&RawValue>,
    ) -> FlowVerdict<Option<ResponseMutation>> {
        let mut plan = self.select(EventName::AfterModel, scope, subject);
        plan.keep_locked();
        if plan.is_empty() {
            return FlowVerdict::Proceed(None);
        }
        let mut plan = self.record_plan(EventName::AfterModel, scope, plan);
        let mut runs = self.run_policies(&mut plan, scope, event);
        let hook_runs = run_hooks(&plan, scope, event, document).await;
        apply_edits(&plan, &hook_runs, event);
        runs.extend(hook_runs);
        if !plan.hooks.is_empty() {
            let first = plan.policies.clone();
            plan.set_second_pass(&first);
            runs.extend(self.run_policies(&mut plan, scope, event));
        }
        conclude::<AfterModel>(scope.recorder, plan.summary(), runs)
    }

    /// Runs the hooks of a plan, and applies their edits to the event. Those of a locked
    /// bundle run last, on what the others leave.
    async fn run_layers<E: EventKind>(
        &self,
        plan: &mut Plan,
        scope: EventScope<'_>,
        event: &mut E,
    ) -> Vec<HookRun> {
        let mut runs = run_hooks(plan, scope, event, None).await;
        apply_edits(plan, &runs, event);
        let subject = ConditionSubject::Event(event.as_event());
        if let Some(locked) = self.plan_locked_hooks(plan, E::NAME, scope, subject) {
            let locked_runs = run_hooks(&locked, scope, event, None).await;
            apply_edits(&locked, &locked_runs, event);
            runs.extend(locked_runs);
        }
        runs
    }

    /// Runs policies in order. Each sees the edits of those before it. After an edit, the plan has
    /// the policies and hooks that see it.
    fn run_policies<E: EventKind>(
        &self,
        plan: &mut Plan,
        scope: EventScope<'_>,
        event: &mut E,
    ) -> Vec<HookRun> {
        let mut runs = Vec::new();
        while let Some(policy) = plan.policies.get(runs.len()).cloned() {
            let context = self.policy_context(&policy, scope, "", plan.pass_of(&policy));
            let mut run = run_policy(&policy, &context, event);
            run.result.output.mark_following();
            run.edited = OutputFields::of(&run.result.output).has_edit();
            finish_run(plan, scope, E::NAME, &mut run);
            if run.is_enforced() && run.status() == HookStatus::Ok {
                event.apply(&run.result.output);
                if run.has_output() {
                    let subject = ConditionSubject::Event(event.as_event());
                    self.follow_edit(plan, E::NAME, scope, subject);
                }
            }
            runs.push(run);
        }
        runs
    }
}

/// Applies the edits of a plan's hooks to the event. In sequence, each has been applied already.
fn apply_edits<E: EventKind>(plan: &Plan, runs: &[HookRun], event: &mut E) {
    let mut enforced = runs.iter().filter(|run| run.is_enforced());
    if !plan.sequential && enforced.any(HookRun::has_output) {
        let (output, _) = merge_runs::<E>(runs);
        event.apply(&output);
    }
}

/// Lets each policy of a plan mask the texts that runs add to the conversation. Returns which
/// policies did.
fn mask_added(plan: &Plan, event: EventName, runs: &mut [HookRun]) -> Vec<bool> {
    let policies = plan.policies.iter();
    let masks = policies.map(|configured| {
        let mask = |text: &str| configured.policy.mask_added(event, text);
        let mut is_edited = false;
        if configured.mode == HookMode::Enforce {
            for run in runs.iter_mut() {
                is_edited |= run.result.output.edit_added(mask);
            }
        }
        is_edited
    });
    masks.collect()
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
