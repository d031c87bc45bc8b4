//! The decision at the end of a response: tool calls that were denied, then `AfterAgent`.
//!
//! If function calls are denied, the model is asked again with the denials in its history. The
//! agent never receives a denied call, nor the calls beside it.

use std::ops::ControlFlow::{self, Break, Continue};

use bytes::Bytes;
use serde_json::Value;

use super::response_buffer::{ResponseBuffer, TurnEffect};
use crate::{
    dialect::{self, DialectError, Document, ProposedCall, ResponseFormat},
    error::ApiError,
    event::{AfterAgent, EventName, FlowVerdict, HookRun, Reason},
    model::Role,
    observe::recorder::{ExchangeAction, ExchangeEvent},
    proxy::{transcript, turn_state::TurnState},
};

/// Maximum number of different calls per turn whose denials are counted. Beyond it, counting
/// starts again.
const MAX_COUNTED_CALLS: usize = 256;

/// The decision at the end of a response. Breaks with the reason that ends the turn, behind what is
/// left of the response, or with `None` if the response is complete. Continues with the request
/// with which the model must be asked again.
pub type AnswerDecision = ControlFlow<Option<Reason>, Document>;

/// Decides at the end of a response to `request`, of which another one is made. Drops a response
/// in whose place another text comes.
pub async fn decide(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    request: Document,
) -> Result<AnswerDecision, ApiError> {
    let refusal = denied(&buffer.calls).find_map(|call| call.refusal.as_deref());
    if let Some(refusal) = refusal {
        turn.context.record_action(ExchangeAction::Edit);
        if buffer.turn_effect == TurnEffect::Fails {
            return Ok(Break(None));
        }
        if !buffer.has_alternatives {
            let reason = Reason::new(Some(refusal));
            return decide_denied(turn, buffer, reason, request).await;
        }
    }
    transcript::record_response(turn, buffer).await;
    if buffer.turn_effect == TurnEffect::Ends && turn.derives(EventName::AfterAgent) {
        return fire_after_agent(turn, buffer, request).await;
    }
    Ok(Break(None))
}

/// Decides about a response with denied calls; `reason` is the first denial's. Asks the model
/// again, unless it repeats denied calls too often.
async fn decide_denied(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    reason: Reason,
    mut request: Document,
) -> Result<AnswerDecision, ApiError> {
    let context = turn.context;
    for call in denied(&buffer.calls) {
        context.record(&ExchangeEvent::ToolCallDenied { tool: &call.name });
    }
    let repeats = count_denials(turn, &buffer.calls);
    hide(turn, &hidden_contents(&buffer.calls)?);
    let max_same_denials = context.snapshot.config.events.max_same_denials;
    if repeats >= max_same_denials || turn.denied_rounds >= turn.max_denied_rounds {
        context.record_action(ExchangeAction::Deny);
        return Ok(Break(Some(reason)));
    }
    turn.denied_rounds += 1;
    // The agent may disconnect before the next response ends.
    turn.save_session().await;
    let contents = dialect::denied_step(&buffer.step, &buffer.calls)?;
    dialect::append_contents(&mut request, &contents)?;
    buffer.step.write_container(&mut request)?;
    turn.steps.end_round(Some("tool_denied"));
    if turn.expectation.format == ResponseFormat::Json {
        // Two answers in one text are no JSON.
        buffer.discard();
    }
    Ok(Continue(request))
}

/// Returns the contents that the agent does not receive of a denied step. Calls that a hosted call
/// has made are not among them: later requests have that call behind them, or not at all.
fn hidden_contents(calls: &[ProposedCall]) -> Result<Vec<Bytes>, DialectError> {
    for call in calls {
        if call.is_of_hosted_call()? {
            return Ok(Vec::new());
        }
    }
    Ok(dialect::denied_calls(calls)?.into())
}

/// Stores contents that the agent does not receive, and adds them to later requests.
fn hide(turn: &mut TurnState<'_>, contents: &[Bytes]) {
    let is_first = turn.denied_rounds == 0;
    let Some((session, item)) = turn.last_item() else {
        return;
    };
    let note = session.note_mut(&item);
    if is_first {
        note.hidden_contents.clear();
        note.hidden_before.clear();
    }
    let texts = contents
        .iter()
        .map(|content| String::from_utf8_lossy(content).into_owned());
    note.hidden_contents.extend(texts);
}

/// Counts the denied calls. Returns how often the most frequent of them was denied in this turn.
fn count_denials(turn: &mut TurnState<'_>, calls: &[ProposedCall]) -> u32 {
    let Some(session) = &mut turn.session else {
        return 0;
    };
    let Some(item) = session.item(turn.prompt_item).cloned() else {
        return 0;
    };
    let fingerprint =
        |call: &ProposedCall| session.fingerprint(&(&call.name, call.arguments.to_string()));
    let fingerprints: Vec<u64> = denied(calls).map(fingerprint).collect();
    let counts = &mut session.note_mut(&item).denied_calls;
    if counts.len() > MAX_COUNTED_CALLS {
        counts.clear();
    }
    let mut max = 0;
    for fingerprint in fingerprints {
        let count = counts.entry(fingerprint).or_default();
        *count = count.saturating_add(1);
        max = max.max(*count);
    }
    max
}

fn denied(calls: &[ProposedCall]) -> impl Iterator<Item = &ProposedCall> {
    calls.iter().filter(|call| call.refusal.is_some())
}

/// Fires `AfterAgent` for a final text, if there is any: hooks accept it, ask for another one, or
/// end the turn.
async fn fire_after_agent(
    turn: &mut TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    mut request: Document,
) -> Result<AnswerDecision, ApiError> {
    let text = buffer.texts.without_calls();
    if text.is_empty() {
        return Ok(Break(None));
    }
    let event = AfterAgent {
        prompt: turn.prompt.clone(),
        prompt_response: text,
        stop_hook_active: turn.answer_retries > 0,
    };
    let outcome = turn.fire(event).await;
    let has_failed = outcome.runs.iter().any(HookRun::fails_closed);
    let reason = match outcome.verdict {
        FlowVerdict::Proceed(()) => return Ok(Break(None)),
        FlowVerdict::Stop(reason, _) => {
            turn.context.record_action(ExchangeAction::Stop);
            turn.stop_session(reason.as_str());
            if !has_failed {
                return Ok(Break(Some(reason)));
            }
            reason
        }
        FlowVerdict::Deny(reason) => reason,
    };
    if has_failed || buffer.texts.has_calls() {
        // Another answer would not repair the hook, nor have the calls of another candidate.
        turn.context.record_action(ExchangeAction::Deny);
        buffer.discard();
        return Ok(Break(Some(reason)));
    }
    if turn.answer_retries >= turn.context.snapshot.config.events.max_answer_retries {
        // The last answer is accepted, denied or not: an agent without one would ask for ever.
        turn.context.record(&ExchangeEvent::RetriesExhausted);
        return Ok(Break(None));
    }
    turn.answer_retries += 1;
    turn.context.record_action(ExchangeAction::Edit);
    if outcome.output.specific("clearContext") == Some(&Value::Bool(true)) {
        let session = turn.session.as_ref();
        let context = session.and_then(|session| session.state.context.as_deref());
        let texts: Vec<&str> = context.into_iter().chain([reason.as_str()]).collect();
        dialect::replace_contents(&mut request, &texts)?;
    } else {
        let denied = dialect::text_content(Role::Model, &buffer.texts.without_calls());
        let prompt = dialect::text_content(Role::User, reason.as_str());
        dialect::append_contents(&mut request, &[denied, prompt])?;
    }
    turn.steps.end_round(Some("answer_denied"));
    buffer.discard();
    Ok(Continue(request))
}
