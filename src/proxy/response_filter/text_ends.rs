//! Ends of texts in a stream. Each waits for the next text, because a secret may begin in the one
//! and end in the other.

use std::collections::VecDeque;

use super::filter::ResponseFilter;
use crate::{
    dialect::{ResponseDocument, TextEnd},
    error::ApiError,
    proxy::reply::unreadable_response,
};

/// Maximum number of chunks that wait.
const MAX_WAITING_CHUNKS: usize = 32;

/// Chunks in front of the filter.
#[derive(Debug, Default)]
pub struct TextEnds {
    chunks: VecDeque<ResponseDocument>,
    /// Number of the last of `chunks` that wait for the next text.
    waiting: usize,
}

impl TextEnds {
    /// Adds the next chunk. It decides whether the text of those that wait ends with them, or goes
    /// on so that policies search both as one.
    pub fn push(
        &mut self,
        chunk: ResponseDocument,
        filter: &ResponseFilter<'_>,
    ) -> Result<(), ApiError> {
        if self.waiting == 0 && chunk.text_end() == TextEnd::None {
            self.chunks.push_back(chunk);
            return Ok(());
        }
        let text = text_of(&chunk);
        if self.waiting > 0 && !text.is_empty() {
            let has_unfiltered = self.chunks.iter().any(|chunk| !text_of(chunk).is_empty());
            if has_unfiltered || filter.joins_text(&text) {
                self.chunks
                    .iter_mut()
                    .for_each(ResponseDocument::continue_text);
            }
            self.waiting = 0;
        }
        let waits = if self.waiting > 0 {
            let is_between = chunk.is_between_texts().map_err(unreadable_response)?;
            is_between && self.waiting < MAX_WAITING_CHUNKS
        } else {
            let is_held = || filter.held_bytes() > 0 || !text.is_empty() && filter.has_policies();
            chunk.text_end() == TextEnd::Possible && is_held()
        };
        self.waiting = if waits { self.waiting + 1 } else { 0 };
        self.chunks.push_back(chunk);
        Ok(())
    }

    /// Ends the text of the chunks that wait.
    pub const fn end(&mut self) {
        self.waiting = 0;
    }

    /// Returns the next chunk that does not wait.
    pub fn pop(&mut self) -> Option<ResponseDocument> {
        let is_ready = self.chunks.len() > self.waiting;
        is_ready.then(|| self.chunks.pop_front()).flatten()
    }
}

/// Returns the text of the first candidate, without thoughts.
fn text_of(chunk: &ResponseDocument) -> String {
    chunk.plain_texts().collect()
}
