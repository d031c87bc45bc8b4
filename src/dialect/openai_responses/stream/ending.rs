//! The end of an answer.

use crate::dialect::{
    document::Document,
    openai_responses::{chunk_view::ChunkView, stream::event::StreamEvent},
};

/// The end of the answer, which is written when nothing can follow any more.
#[derive(Debug)]
pub struct Ending {
    /// Upstream's last event; `None` for an end of our own.
    pub event: Option<StreamEvent>,
    pub finish_reason: Option<String>,
    pub usage: Option<Document>,
    /// Error of the model API, for an end of our own.
    pub error: Option<Document>,
}

impl Ending {
    /// Creates the end that upstream sent, with the edits of a chunk.
    pub fn of_upstream(event: StreamEvent, view: &ChunkView) -> Self {
        Self {
            event: Some(event),
            finish_reason: view.finish_reason.clone(),
            usage: view.usage.clone(),
            error: None,
        }
    }

    /// Creates an end of our own.
    pub fn of_view(view: &ChunkView) -> Self {
        Self {
            event: None,
            finish_reason: view.finish_reason.clone(),
            usage: view.usage.clone(),
            error: view.error.clone(),
        }
    }
}
