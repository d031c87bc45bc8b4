//! `BeforeModel`: policies and hooks may edit, answer or deny a request.

use std::{
    ops::ControlFlow::{Break, Continue},
    sync::Arc,
};

use super::{
    model_request::ModelRequest,
    reply::{HookReply, StageResult},
    response_filter::Output,
    turn_state::TurnState,
};
use crate::{
    dialect::{self, AllowedFunctions, Detail, ResponseDocument},
    error::{ApiError, ErrorReason},
    event::{AfterModel, BeforeModel, BeforeModelVerdict, EventName, FlowVerdict, HookRun},
    hook::{Plan, conclude_passes, evaluate},
    model::{RequestMutation, ResponseMutation},
    observe::recorder::{ExchangeAction, ExchangeEvent},
    policy::PolicyRequest,
};

/// Fires `BeforeModel`. Breaks if hooks answer the request or deny it. `output` has what earlier
/// requests of the call were answered with.
pub(super) async fn run(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    output: &Output,
) -> StageResult {
    if request.call.retrieves() {
        return Ok(Continue(()));
    }
    let context = turn.context;
    // The model may be asked again, with the request as it was before hooks.
    turn.allowed = AllowedFunctions::default();
    let mut plan = turn.plan(EventName::BeforeModel, request);
    if plan.is_empty() {
        clear_denial(turn, request).await;
        return Ok(Continue(()));
    }
    let mut runs = apply_policies(turn, request, &mut plan)?;
    let needs_second_pass = plan.needs_second_pass(&runs);
    let hooks = turn.run_hooks(&plan, request, |llm_request| BeforeModel { llm_request });
    runs.extend(hooks.await?);
    // Boxed, because most calls have no locked bundle.
    let locked = Box::pin(run_locked_hooks(turn, request, &mut plan, &mut runs));
    let locked_verdict = locked.await?;
    let is_answered_by_unlocked = plan.is_answered_by_unlocked(&runs);
    let mut second = Vec::new();
    let inspected = match (evaluate::<BeforeModel>(&runs), locked_verdict) {
        (BeforeModelVerdict::Proceed(merged), locked)
            if needs_second_pass || !merged.is_empty() =>
        {
            // Behind locked hooks, the edits of the other hooks are written already.
            let unwritten = match locked {
                Some(BeforeModelVerdict::Proceed(of_locked)) => of_locked,
                _ => merged,
            };
            inspect_edits(turn, request, &plan, &unwritten, &mut second)
        }
        _ => Ok(()),
    };
    // An event whose edits cannot be written is recorded, too.
    let (recorder, summary) = (&context.recorder, plan.summary());
    let mut verdict = conclude_passes::<BeforeModel>(recorder, summary, runs, second);
    inspected?;
    if is_answered_by_unlocked && context.snapshot.engine.has_locked_answer_rules() {
        verdict = Box::pin(inspect_answer(turn, request, verdict)).await?;
    }
    apply_verdict(turn, request, verdict, output).await
}

/// Writes edits that are not in the request yet, and lets policies inspect what hooks changed. Adds
/// their runs.
///
/// INVARIANT: policies inspect what hooks changed before it goes upstream.
fn inspect_edits(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    plan: &Plan,
    unwritten: &RequestMutation,
    runs: &mut Vec<HookRun>,
) -> Result<(), ApiError> {
    if !unwritten.is_empty() {
        write_mutation(turn, request, unwritten)?;
    }
    let engine = &turn.context.snapshot.engine;
    let (event, subject) = (EventName::BeforeModel, request.subject());
    let mut second = engine.plan_second_pass(plan, event, turn.scope(), subject);
    runs.extend(apply_policies(turn, request, &mut second)?);
    Ok(())
}

/// Runs the hooks of a locked bundle on what other hooks leave, whose edits it writes into the
/// request. Adds their runs, and returns the verdict on them, whose edits are not written; `None`
/// if there are none.
async fn run_locked_hooks(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    plan: &mut Plan,
    runs: &mut Vec<HookRun>,
) -> Result<Option<BeforeModelVerdict>, ApiError> {
    if !plan.has_locked_hooks() {
        return Ok(None);
    }
    if let BeforeModelVerdict::Proceed(mutation) = evaluate::<BeforeModel>(runs)
        && !mutation.is_empty()
    {
        write_mutation(turn, request, &mutation)?;
    }
    let engine = &turn.context.snapshot.engine;
    let (event, subject) = (EventName::BeforeModel, request.subject());
    let Some(locked) = engine.plan_locked_hooks(plan, event, turn.scope(), subject) else {
        return Ok(None);
    };
    let hooks = turn.run_hooks(&locked, request, |llm_request| BeforeModel { llm_request });
    let locked_runs = hooks.await?;
    let verdict = evaluate::<BeforeModel>(&locked_runs);
    runs.extend(locked_runs);
    Ok(Some(verdict))
}

/// Lets the locked bundle inspect an answer that a policy or hook of another one gives in the place
/// of the model.
async fn inspect_answer(
    turn: &TurnState<'_>,
    request: &ModelRequest,
    mut verdict: BeforeModelVerdict,
) -> Result<BeforeModelVerdict, ApiError> {
    let (BeforeModelVerdict::Respond(answer)
    | BeforeModelVerdict::Deny {
        response: Some(answer),
        ..
    }) = &mut verdict
    else {
        return Ok(verdict);
    };
    if !request.call.operation.generates() {
        return Ok(verdict);
    }
    let built = dialect::build_response(&request.call, answer, "hookgate");
    let chunk = ResponseDocument::parse(built.to_string().into())?;
    let mut event = AfterModel {
        llm_request: Arc::new(request.stable_form(Detail::Whole)?.into()),
        llm_response: chunk.read()?,
    };
    let document = chunk.to_raw().and_then(dialect::shown_to_hooks);
    let engine = &turn.context.snapshot.engine;
    let inspected = engine.inspect_answer(
        turn.scope(),
        request.subject(),
        &mut event,
        document.as_deref(),
    );
    match inspected.await {
        FlowVerdict::Proceed(None) => (),
        FlowVerdict::Proceed(Some(_)) => {
            // Serialization of strings and numbers cannot fail.
            let edited = serde_json::to_value(&event.llm_response).unwrap_or_default();
            *answer = ResponseMutation::read(&edited).unwrap_or_default();
        }
        FlowVerdict::Deny(reason) => {
            verdict = BeforeModelVerdict::Deny {
                reason,
                response: None,
            };
        }
        FlowVerdict::Stop(reason, _) => verdict = BeforeModelVerdict::Stop(reason),
    }
    Ok(verdict)
}

/// Lets policies inspect and edit the request.
fn apply_policies(
    turn: &TurnState<'_>,
    request: &mut ModelRequest,
    plan: &mut Plan,
) -> Result<Vec<HookRun>, ApiError> {
    let mut edited = PolicyRequest::new(request.call.clone(), request.document.clone());
    let engine = &turn.context.snapshot.engine;
    let runs = engine.inspect_request(plan, turn.scope(), &mut edited)?;
    if edited.edited {
        turn.context.record_action(ExchangeAction::Edit);
        request.call = edited.call;
        request.document = edited.document;
    }
    Ok(runs)
}

/// Writes what hooks changed into the request.
fn write_mutation(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    mutation: &RequestMutation,
) -> Result<(), ApiError> {
    let document = request.document.clone();
    let edited = dialect::write_request(&request.call, document, mutation, &turn.allowed)?;
    let context = turn.context;
    context.record(&ExchangeEvent::EditsIgnored(&edited.ignored));
    if edited.document.is_edited() || edited.model.is_some() {
        context.record_action(ExchangeAction::Edit);
    }
    if let Some(model) = edited.model {
        request.call.model = Some(model);
    }
    if let Some(allowed) = edited.allowed {
        turn.allowed = allowed;
    }
    request.document = edited.document;
    Ok(())
}

/// Clears an earlier denial if the request proceeds; otherwise ends the call with the verdict.
///
/// INVARIANT: a denial is in a durable decision log before the agent receives it, also as an error.
async fn apply_verdict(
    turn: &mut TurnState<'_>,
    request: &ModelRequest,
    verdict: BeforeModelVerdict,
    output: &Output,
) -> StageResult {
    let generates = request.call.operation.generates();
    let (action, reply) = match verdict {
        BeforeModelVerdict::Proceed(_) => {
            clear_denial(turn, request).await;
            return Ok(Continue(()));
        }
        BeforeModelVerdict::Respond(answer) if generates => {
            (ExchangeAction::Respond, HookReply::Answered(answer))
        }
        BeforeModelVerdict::Respond(_) => {
            let recorder = &turn.context.recorder;
            recorder.record_durably(&ExchangeEvent::Replying).await?;
            let message = "a hook answered a call that cannot return text";
            return Err(ApiError::new(ErrorReason::PolicyDenied, message));
        }
        BeforeModelVerdict::Deny {
            response: Some(answer),
            ..
        } if generates => (ExchangeAction::Deny, HookReply::Answered(answer)),
        BeforeModelVerdict::Deny { reason, .. } => {
            (ExchangeAction::Deny, HookReply::Denied(reason))
        }
        BeforeModelVerdict::Stop(reason) => (ExchangeAction::Stop, HookReply::Denied(reason)),
    };
    turn.context.record_action(action);
    // Behind text of an earlier answer, a denial is the end of that answer: the prompt stays.
    let is_unanswered = generates && (turn.sent_texts.is_empty() || output.is_error(&reply));
    match &reply {
        HookReply::Denied(reason) => {
            record_denial(turn, action, is_unanswered, reason.as_str());
        }
        HookReply::Answered(answer) if action == ExchangeAction::Deny => {
            record_denial(turn, action, is_unanswered, &answer.text());
        }
        HookReply::Answered(_) => clear_denial(turn, request).await,
    }
    Ok(Break(reply))
}

/// Clears an earlier denial of the same request, so that it stays in later histories. A call that
/// counts its tokens is not an answer to it.
async fn clear_denial(turn: &mut TurnState<'_>, request: &ModelRequest) {
    if request.call.operation.generates()
        && let Some((session, item)) = turn.last_item()
        && session
            .note(&item)
            .is_some_and(|note| note.denied.is_some())
    {
        session.note_mut(&item).denied = None;
        session.save().await;
    }
}

/// Records a denial in the session, which is saved with the reply. `text` is what the agent
/// receives for it, and takes the place of an answer if `is_unanswered`. Only calls that generate a
/// response become part of a conversation.
fn record_denial(
    turn: &mut TurnState<'_>,
    action: ExchangeAction,
    is_unanswered: bool,
    text: &str,
) {
    if is_unanswered && let Some((session, item)) = turn.last_item() {
        session.note_mut(&item).denied = Some(text.to_owned());
    }
    if action == ExchangeAction::Stop {
        turn.stop_session(text);
    }
}
