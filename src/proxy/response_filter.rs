//! Between upstream's response and the agent: policies, `AfterModel`, `BeforeTool`, `AfterAgent`.
//!
//! [`run`] filters one response and decides at its end. The filter itself, for one response or
//! one chunk, is [`filter`]; a denied function call is decided in
//! [`filter::ResponseFilter::decide_tool`], and [`answer_decision`] asks the model again.

mod answer_decision;
pub mod channel;
pub mod chunk_source;
mod filter;
pub mod hosted_calls;
mod output;
mod refusal;
pub mod response_buffer;
mod stream;
mod text_ends;

use std::ops::ControlFlow::{self, Break, Continue};

use self::{chunk_source::read_json, refusal::Refusal, response_buffer::ResponseBuffer};
pub(super) use self::{filter::ResponseFilter, output::Output};
use super::{
    earlier_responses,
    reply::{HookReply, unreadable_response},
    turn_state::TurnState,
};
use crate::{
    dialect::Document, error::ApiError, observe::recorder::ExchangeEvent,
    upstream::UpstreamResponse,
};

/// Filters a response into `output`. Breaks with the reply that takes the place of the response
/// or of the rest of it, or with `None` if that is complete. Continues with the request with which
/// the model must be asked again, which is made of `asked`: the request before `BeforeModel`.
pub(super) async fn run<'a>(
    turn: &mut TurnState<'a>,
    filter: ResponseFilter<'a>,
    answer: UpstreamResponse,
    output: &mut Output,
    asked: Document,
) -> Result<ControlFlow<Option<HookReply>, Document>, ApiError> {
    let mut buffer = ResponseBuffer::new(filter, turn);
    output.start(&answer);
    let filtered = if output.is_stream() {
        stream::filter(turn, &mut buffer, answer, output).await?
    } else {
        filter_whole(turn, &mut buffer, answer).await?
    };
    output.usage.clone_from(&buffer.usage);
    if let Break(refusal) = filtered {
        return Ok(Break(Some(refuse(turn, buffer, output, refusal)?)));
    }
    let decision = Box::pin(answer_decision::decide(turn, &mut buffer, asked)).await?;
    if decision.is_break() {
        turn.steps.end_round(None);
    }
    match decision {
        Break(None) => {
            Box::pin(accept(turn, buffer, output)).await?;
            Ok(Break(None))
        }
        Break(Some(reason)) => {
            let reply = HookReply::Denied(reason);
            // If nothing is sent, an error takes the place of the answer.
            if !output.is_error(&reply) {
                output.write(turn, buffer.release_open()?)?;
                turn.sent_texts.append(&mut buffer.sent_texts);
            }
            Ok(Break(Some(reply)))
        }
        Continue(document) => {
            output.write(turn, buffer.release_open()?)?;
            turn.hosted_calls = std::mem::take(&mut buffer.hosted_calls);
            turn.sent_texts.append(&mut buffer.sent_texts);
            Ok(Continue(document))
        }
    }
}

/// Writes what may pass of a refused response, and returns the reply that ends it.
fn refuse(
    turn: &mut TurnState<'_>,
    mut buffer: ResponseBuffer<'_>,
    output: &mut Output,
    refusal: Refusal,
) -> Result<HookReply, ApiError> {
    if refusal.stops_session {
        turn.stop_session(refusal.reason.as_str());
    }
    turn.steps.end_round(None);
    let reply = HookReply::Denied(refusal.reason);
    // If nothing is sent, an error takes the place of the response.
    if let Some(chunk) = refusal.passed
        && !output.is_error(&reply)
    {
        output.write(turn, buffer.release_with(*chunk)?)?;
    }
    turn.sent_texts.append(&mut buffer.sent_texts);
    Ok(reply)
}

/// Writes what is held back of an accepted response.
///
/// INVARIANT: a decision is in a durable log before the agent receives it.
async fn accept(
    turn: &mut TurnState<'_>,
    mut buffer: ResponseBuffer<'_>,
    output: &mut Output,
) -> Result<(), ApiError> {
    let is_decided = buffer.holds_decisions();
    let released = buffer.release(turn)?;
    output.write(turn, released)?;
    // Records the last chunks.
    drop(buffer);
    if is_decided {
        let recorder = &turn.context.recorder;
        recorder.record_durably(&ExchangeEvent::Replying).await?;
    }
    Ok(())
}

/// Filters a response that is one JSON document, and holds back all of it.
async fn filter_whole(
    turn: &TurnState<'_>,
    buffer: &mut ResponseBuffer<'_>,
    answer: UpstreamResponse,
) -> Result<ControlFlow<Refusal>, ApiError> {
    let context = turn.context;
    let body = read_json(context, answer).await?;
    earlier_responses::record(context, &body);
    let response = context.dialect.open_response(body);
    let response = response.map_err(unreadable_response)?;
    buffer.push_whole(response).await
}
