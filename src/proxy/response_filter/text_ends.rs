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
        if self.waiting == 0 && !may_end_text(&chunk) {
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
        }
        let is_behind = self.waiting > 0 && self.is_between(&chunk)?;
        if !is_behind {
            self.end_candidates(Some(&chunk));
            self.waiting = 0;
        }
        let waits = is_behind || may_end_text(&chunk) && is_held(&chunk, filter);
        self.waiting = if waits { self.waiting + 1 } else { 0 };
        self.chunks.push_back(chunk);
        Ok(())
    }

    /// Ends the text of the chunks that wait.
    pub fn end(&mut self) {
        self.end_candidates(None);
        self.waiting = 0;
    }

    /// Returns whether a text behind a chunk may continue that of the chunks that wait.
    fn is_between(&self, chunk: &ResponseDocument) -> Result<bool, ApiError> {
        let is_text_end = |chunk: &ResponseDocument| chunk.text_end() == TextEnd::Possible;
        let is_between = if self.chunks.iter().any(is_text_end) {
            chunk.is_between_texts()
        } else {
            let has_error = chunk.has_error();
            has_error.map(|has_error| !has_error && !chunk.has_filled_part())
        };
        Ok(is_between.map_err(unreadable_response)? && self.waiting < MAX_WAITING_CHUNKS)
    }

    fn end_candidates(&mut self, next: Option<&ResponseDocument>) {
        let chunks = self.chunks.iter_mut();
        chunks.for_each(|chunk| chunk.end_candidates(next));
    }

    /// Returns whether no chunk is left.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
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

/// Returns whether a text may end with a chunk. Some models set a finish reason in every chunk.
fn may_end_text(chunk: &ResponseDocument) -> bool {
    chunk.text_end() == TextEnd::Possible || chunk.has_finish_reason()
}

/// Returns whether policies hold text back, or may do so with the text of a chunk.
fn is_held(chunk: &ResponseDocument, filter: &ResponseFilter<'_>) -> bool {
    let has_text = match chunk.text_end() {
        TextEnd::Possible => !text_of(chunk).is_empty(),
        TextEnd::None | TextEnd::Certain => chunk.has_filled_part(),
    };
    filter.held_bytes() > 0 || has_text && filter.has_policies()
}
