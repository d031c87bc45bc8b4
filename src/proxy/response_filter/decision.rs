//! The decision at the end of a response.

use bytes::Bytes;

use super::response_buffer::ResponseBuffer;
use crate::{
    dialect::{self, Document},
    error::ApiError,
    event::Reason,
    proxy::turn_state::TurnState,
};

/// The decision at the end of a response.
#[derive(Debug)]
pub enum AnswerDecision {
    /// The response is complete.
    Accept,
    /// The turn ends with this text after the response.
    End(Reason),
    /// This text replaces the rest of the response.
    CutOff(Reason),
    /// The model is asked again with this request.
    AskAgain(Document),
}

impl AnswerDecision {
    /// Asks the model again, with `contents` at the end of the request's history.
    pub fn ask_again(
        turn: &mut TurnState,
        buffer: &ResponseBuffer,
        contents: &[Bytes],
    ) -> Result<Self, ApiError> {
        turn.has_emitted_text |= !buffer.text.is_empty();
        let Some(mut document) = turn.retry_base.take() else {
            return Ok(Self::Accept);
        };
        dialect::append_contents(&mut document, contents)?;
        Ok(Self::AskAgain(document))
    }
}
