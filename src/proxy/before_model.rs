//! `BeforeModel`: policies and hooks may edit, answer or deny a request.

use std::ops::ControlFlow::{self, Break, Continue};

use super::{
    model_request::ModelRequest, reply::Reply, request_context::RequestContext,
    turn_state::TurnState,
};
use crate::{
    dialect,
    error::{ApiError, ErrorReason},
    event::{BeforeModel, BeforeModelVerdict, EventName, HookRun},
    hook::Plan,
    model::RequestMutation,
    observe::recorder::{ExchangeAction, ExchangeEvent},
    policy::{InspectionPass, PolicyRequest},
};

/// Fires `BeforeModel`. Breaks if hooks answer the request or deny it.
pub(super) async fn run(
    context: &RequestContext,
    turn: &mut TurnState,
    request: &mut ModelRequest,
) -> Result<ControlFlow<Reply>, ApiError> {
    let engine = &context.snapshot.engine;
    let subject = request.subject();
    let plan = engine.plan(EventName::BeforeModel, turn.scope(context), subject);
    if plan.is_empty() {
        clear_denial(turn).await;
        return Ok(Continue(()));
    }
    let mut runs = apply_policies(context, turn, request, &plan, InspectionPass::First)?;
    runs.extend(run_hooks(context, turn, request, &plan).await?);
    let outcome = engine.conclude::<BeforeModel>(&context.recorder, runs);
    let verdict = match outcome.verdict {
        BeforeModelVerdict::Proceed(mutation) if !mutation.is_empty() => {
            write_mutation(context, turn, request, &mutation)?;
            // INVARIANT: policies inspect what hooks changed before it goes upstream.
            let subject = request.subject();
            let plan =
                engine.plan_second_pass(EventName::BeforeModel, turn.scope(context), subject);
            let runs = apply_policies(context, turn, request, &plan, InspectionPass::Second)?;
            let outcome = engine.conclude::<BeforeModel>(&context.recorder, runs);
            outcome.verdict
        }
        verdict => verdict,
    };
    apply_verdict(context, turn, request, verdict).await
}

/// Lets policies inspect and edit the request.
fn apply_policies(
    context: &RequestContext,
    turn: &TurnState,
    request: &mut ModelRequest,
    plan: &Plan,
    pass: InspectionPass,
) -> Result<Vec<HookRun>, ApiError> {
    let mut edited = PolicyRequest {
        call: request.call.clone(),
        document: request.document.clone(),
        edited: false,
    };
    let engine = &context.snapshot.engine;
    let runs = engine.inspect_request(plan, turn.scope(context), &mut edited, pass)?;
    if edited.edited {
        context
            .recorder
            .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
        context
            .recorder
            .record(&ExchangeEvent::ModelChanged(edited.call.model_name()));
        request.call = edited.call;
        request.document = edited.document;
    }
    Ok(runs)
}

async fn run_hooks(
    context: &RequestContext,
    turn: &TurnState,
    request: &ModelRequest,
    plan: &Plan,
) -> Result<Vec<HookRun>, ApiError> {
    if plan.hooks.is_empty() {
        return Ok(Vec::new());
    }
    let llm_request = request.stable_form(plan.detail())?;
    let document = request.document_for(plan);
    let mut event = BeforeModel { llm_request };
    let engine = &context.snapshot.engine;
    let runs = engine.run_hooks(plan, turn.scope(context), &mut event, document.as_deref());
    Ok(runs.await)
}

/// Writes what hooks changed into the request.
fn write_mutation(
    context: &RequestContext,
    turn: &mut TurnState,
    request: &mut ModelRequest,
    mutation: &RequestMutation,
) -> Result<(), ApiError> {
    let document = request.document.clone();
    let edited = dialect::write_request(&request.call, document, mutation)?;
    context
        .recorder
        .record(&ExchangeEvent::OutputIgnored(&edited.diagnostics));
    if edited.document.is_edited() || edited.model.is_some() {
        context
            .recorder
            .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
    }
    if let Some(model) = edited.model {
        context
            .recorder
            .record(&ExchangeEvent::ModelChanged(model.as_str()));
        request.call.model = Some(model);
    }
    turn.selected = edited.selection;
    request.document = edited.document;
    Ok(())
}

async fn apply_verdict(
    context: &RequestContext,
    turn: &mut TurnState,
    request: &ModelRequest,
    verdict: BeforeModelVerdict,
) -> Result<ControlFlow<Reply>, ApiError> {
    let generates = request.call.operation.generates();
    let (action, reply) = match verdict {
        BeforeModelVerdict::Proceed(_) => {
            clear_denial(turn).await;
            return Ok(Continue(()));
        }
        BeforeModelVerdict::Respond(answer) if generates => {
            (ExchangeAction::Respond, Reply::Answered(answer))
        }
        BeforeModelVerdict::Respond(_) => {
            let message = "a hook answered a call that cannot return text";
            return Err(ApiError::new(ErrorReason::PolicyDenied, message));
        }
        BeforeModelVerdict::Deny {
            response: Some(answer),
            ..
        } if generates => (ExchangeAction::Deny, Reply::Answered(answer)),
        BeforeModelVerdict::Deny { reason, .. } => (ExchangeAction::Deny, Reply::Denied(reason)),
        BeforeModelVerdict::Stop(reason) => (ExchangeAction::Stop, Reply::Denied(reason)),
    };
    context.recorder.record(&ExchangeEvent::ActionTaken(action));
    match &reply {
        Reply::Denied(reason) => record_denial(turn, action, generates, reason.as_str()).await,
        Reply::Answered(answer) if action == ExchangeAction::Deny => {
            record_denial(turn, action, generates, &answer.text()).await;
        }
        Reply::Answered(_) | Reply::Upstream(_) => clear_denial(turn).await,
    }
    Ok(Break(reply))
}

/// Clears an earlier denial of the same request, so that it stays in later histories.
async fn clear_denial(turn: &mut TurnState) {
    if let Some((session, item)) = turn.last_item()
        && session
            .note(&item)
            .is_some_and(|note| note.denied.is_some())
    {
        session.note_mut(&item).denied = None;
        session.save().await;
    }
}

/// Records a denial and the text the agent receives for it. Only calls that generate a response
/// become part of a conversation.
async fn record_denial(turn: &mut TurnState, action: ExchangeAction, generates: bool, text: &str) {
    if generates && let Some((session, item)) = turn.last_item() {
        session.note_mut(&item).denied = Some(text.to_owned());
    }
    if action == ExchangeAction::Stop {
        turn.stop_session(text);
    }
    if let Some(session) = &mut turn.session {
        session.save().await;
    }
}
