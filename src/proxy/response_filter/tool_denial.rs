//! Denied function calls: the model is asked again with the denials in its history.
//!
//! The agent never receives a denied call, nor the calls beside it.

use bytes::Bytes;

use super::{decision::AnswerDecision, response_buffer::ResponseBuffer};
use crate::{
    dialect::{self, ProposedCall},
    error::ApiError,
    event::Reason,
    observe::recorder::{ExchangeAction, ExchangeEvent},
    proxy::{request_context::RequestContext, turn_state::TurnState},
};

/// Maximum number of different calls per turn whose denials are counted. Beyond it, counting
/// starts again.
const MAX_COUNTED_CALLS: usize = 256;

/// Decides about a response with denied calls; `reason` is the first denial's. Asks the model
/// again, unless it repeats denied calls too often.
pub fn decide(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &ResponseBuffer,
    reason: &Reason,
) -> Result<AnswerDecision, ApiError> {
    context
        .recorder
        .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
    for call in denied(&buffer.calls) {
        let tool = call.name.as_str();
        context
            .recorder
            .record(&ExchangeEvent::ToolCallDenied { tool });
    }
    let repeats = count_denials(turn, &buffer.calls);
    let limits = &context.snapshot.config.events;
    if repeats >= limits.max_same_denials || turn.denied_rounds >= limits.max_denied_rounds {
        context
            .recorder
            .record(&ExchangeEvent::ActionTaken(ExchangeAction::Deny));
        return Ok(AnswerDecision::End(reason.clone()));
    }
    hide(turn, &dialect::denied_step("", &buffer.calls)?);
    turn.denied_rounds += 1;
    let contents = dialect::denied_step(&buffer.text, &buffer.calls)?;
    AnswerDecision::ask_again(turn, buffer, &contents)
}

/// Remembers contents that the agent does not receive, and adds them to later requests.
fn hide(turn: &mut TurnState, contents: &[Bytes]) {
    let is_first = turn.denied_rounds == 0;
    let Some((session, item)) = turn.last_item() else {
        return;
    };
    let note = session.note_mut(&item);
    if is_first {
        note.hidden_contents.clear();
    }
    let texts = contents
        .iter()
        .map(|content| String::from_utf8_lossy(content).into_owned());
    note.hidden_contents.extend(texts);
}

/// Counts the denied calls. Returns how often the most frequent of them was denied in this turn.
fn count_denials(turn: &mut TurnState, calls: &[ProposedCall]) -> u32 {
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
