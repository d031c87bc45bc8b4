//! Between upstream's response and the agent: policies, `AfterModel`, `BeforeTool`, `AfterAgent`.
//!
//! [`run`] filters one response and decides at its end. The filter itself, for one response or
//! one chunk, is [`filter`]; a denied function call is decided in
//! [`filter::ResponseFilter::fire_before_tool`], and [`tool_denial`] asks the model again.

mod after_agent;
pub mod channel;
pub mod chunk_source;
mod decision;
mod filter;
mod filter_plan;
mod output;
pub mod response_buffer;
mod stream;
mod tool_denial;
mod unary;

use std::ops::ControlFlow::{Break, Continue};

use self::{decision::AnswerDecision, filter::ResponseFilter, response_buffer::ResponseBuffer};
pub(super) use self::{filter_plan::FilterPlan, output::Output};
use super::{reply::Reply, request_context::RequestContext, transcript, turn_state::TurnState};
use crate::{dialect::Document, error::ApiError, event::Reason, upstream::UpstreamResponse};

/// The outcome of one filtered response.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The response is complete.
    Complete,
    /// A reply takes the place of the response, or of the rest of it.
    Replaced(Reply),
    /// The model must be asked again with this request.
    AskAgain(Document),
}

/// Filters a response into `output`.
pub(super) async fn run(
    context: &RequestContext,
    turn: &mut TurnState,
    filter: ResponseFilter,
    answer: UpstreamResponse,
    output: &mut Output,
) -> Result<Outcome, ApiError> {
    let mut buffer = ResponseBuffer::new(filter, context, turn);
    output.start(&answer);
    let filtered = match output {
        Output::Whole(_) => unary::filter(context, &mut buffer, answer).await?,
        Output::Stream(stream) => {
            stream::filter(context, turn, &mut buffer, answer, stream).await?
        }
    };
    let decision = match filtered {
        Continue(()) => Box::pin(decide(context, turn, &buffer)).await?,
        Break(refusal) => {
            if refusal.stops_session {
                turn.stop_session(refusal.reason.as_str());
            }
            AnswerDecision::CutOff(refusal.reason)
        }
    };
    match decision {
        AnswerDecision::Accept => {
            output.write(context, turn, buffer.release()?)?;
            Ok(Outcome::Complete)
        }
        AnswerDecision::End(reason) => {
            output.write(context, turn, buffer.release_open()?)?;
            let has_text = turn.has_emitted_text || !buffer.text.is_empty();
            let reason = if has_text {
                as_paragraph(&reason)
            } else {
                reason
            };
            Ok(Outcome::Replaced(Reply::Denied(reason)))
        }
        AnswerDecision::CutOff(reason) => Ok(Outcome::Replaced(Reply::Denied(reason))),
        AnswerDecision::AskAgain(document) => {
            output.write(context, turn, buffer.release_open()?)?;
            Ok(Outcome::AskAgain(document))
        }
    }
}

/// Decides at the end of a response.
async fn decide(
    context: &RequestContext,
    turn: &mut TurnState,
    buffer: &ResponseBuffer,
) -> Result<AnswerDecision, ApiError> {
    let denial = buffer.calls.iter().find_map(|call| call.refusal.as_deref());
    if let Some(reason) = denial {
        if buffer.has_alternatives {
            return Ok(AnswerDecision::Accept);
        }
        return tool_denial::decide(context, turn, buffer, &Reason::new(Some(reason)));
    }
    transcript::record_response(context, turn, buffer).await;
    if buffer.calls.is_empty() && !buffer.text.is_empty() {
        return after_agent::decide(context, turn, buffer).await;
    }
    Ok(AnswerDecision::Accept)
}

/// Separates a text from the text that the agent has received before.
fn as_paragraph(reason: &Reason) -> Reason {
    Reason::new(Some(&format!("\n\n{}", reason.as_str())))
}
