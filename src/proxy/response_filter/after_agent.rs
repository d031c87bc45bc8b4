//! `AfterAgent`: hooks accept the final text of a turn, ask for another one, or end the turn.

use serde_json::Value;

use super::{decision::AnswerDecision, response_buffer::ResponseBuffer};
use crate::{
    dialect,
    error::ApiError,
    event::{AfterAgent, EventName, EventOrigin, FlowVerdict, HookStatus, Reason},
    model::Role,
    observe::recorder::ExchangeEvent,
    proxy::{request_context::RequestContext, turn_state::TurnState},
};

/// Fires `AfterAgent` for a final text.
pub async fn decide(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &ResponseBuffer,
) -> Result<AnswerDecision, ApiError> {
    if !turn.derives(context, EventName::AfterAgent) {
        return Ok(AnswerDecision::Accept);
    }
    let event = AfterAgent {
        prompt: turn.prompt.clone(),
        prompt_response: buffer.text.clone(),
        stop_hook_active: turn.answer_retries > 0,
    };
    let engine = &context.snapshot.engine;
    let outcome = engine
        .fire(turn.scope(context), event, EventOrigin::Derived)
        .await;
    match outcome.verdict {
        FlowVerdict::Proceed(()) => Ok(AnswerDecision::Accept),
        FlowVerdict::Stop(reason) => {
            turn.stop_session(reason.as_str());
            Ok(AnswerDecision::End(reason))
        }
        // Another answer would not repair the hook.
        FlowVerdict::Deny(reason)
            if outcome
                .runs
                .iter()
                .any(|run| run.status() == HookStatus::Failed) =>
        {
            Ok(AnswerDecision::End(reason))
        }
        // The last answer is accepted, denied or not: an agent without one would ask for ever.
        FlowVerdict::Deny(_)
            if turn.answer_retries >= context.snapshot.config.events.max_answer_retries =>
        {
            context.recorder.record(&ExchangeEvent::RetriesExhausted);
            Ok(AnswerDecision::Accept)
        }
        FlowVerdict::Deny(reason) => {
            turn.answer_retries += 1;
            if outcome.output.specific("clearContext") == Some(&Value::Bool(true)) {
                return ask_without_history(turn, buffer, &reason);
            }
            let denied = dialect::text_content(Role::Model, &buffer.text);
            let prompt = dialect::text_content(Role::User, reason.as_str());
            AnswerDecision::ask_again(turn, buffer, &[denied, prompt])
        }
    }
}

/// Asks again without the history, which a hook cleared.
fn ask_without_history(
    turn: &mut TurnState,
    buffer: &ResponseBuffer,
    reason: &Reason,
) -> Result<AnswerDecision, ApiError> {
    let session = turn.session.as_ref();
    let session_context = session.and_then(|session| session.state.context.as_deref());
    let texts: Vec<&str> = session_context
        .into_iter()
        .chain([reason.as_str()])
        .collect();
    if let Some(document) = &mut turn.retry_base {
        dialect::replace_contents(document, &texts)?;
    }
    AnswerDecision::ask_again(turn, buffer, &[])
}
