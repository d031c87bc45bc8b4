//! Ends of texts in a stream. Each waits for the next text, because a secret may begin in the one
//! and end in the other.

use std::collections::VecDeque;

use stream_redact::NextText;

use super::filter::ResponseFilter;
use crate::{
    dialect::{ResponseDocument, TextEnd},
    error::ApiError,
    proxy::reply::unreadable_response,
};

/// Maximum number of chunks that wait behind the end of a text.
const MAX_WAITING_CHUNKS: usize = 32;

/// Chunks in front of the filter.
#[derive(Debug, Default)]
pub struct TextEnds {
    chunks: VecDeque<ResponseDocument>,
    /// True if no text behind the chunks continues theirs.
    is_closed: bool,
}

impl TextEnds {
    /// Adds the next chunk.
    pub fn push(&mut self, chunk: ResponseDocument) {
        self.is_closed = false;
        self.chunks.push_back(chunk);
    }

    /// Ends the text of the chunks that wait.
    pub fn end(&mut self) {
        self.is_closed = true;
    }

    /// Returns whether no chunk is left.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the next chunk; `None` if it waits. If a secret may begin in the text that ends with
    /// it and end in the next text, policies search both as one.
    pub fn pop(
        &mut self,
        filter: &ResponseFilter<'_>,
    ) -> Result<Option<ResponseDocument>, ApiError> {
        let Some(mut chunk) = self.chunks.pop_front() else {
            return Ok(None);
        };
        if !may_end_text(&chunk) || !is_held(&chunk, filter) {
            return Ok(Some(chunk));
        }
        let is_decided = if chunk.text_end() == TextEnd::Possible {
            let joins = self.joins_text(&chunk, filter)?;
            if joins == Some(true) {
                chunk.join_text();
            }
            joins.is_some()
        } else {
            self.end_candidates(&mut chunk)?
        };
        if !is_decided {
            self.chunks.push_front(chunk);
            return Ok(None);
        }
        Ok(Some(chunk))
    }

    /// Returns whether policies search the text that ends with a chunk and the next one as one;
    /// `None` if a later chunk decides it.
    fn joins_text(
        &self,
        chunk: &ResponseDocument,
        filter: &ResponseFilter<'_>,
    ) -> Result<Option<bool>, ApiError> {
        let (mut text, mut is_complete) = (String::new(), self.is_closed);
        for next in &self.chunks {
            text.extend(next.plain_texts());
            if !next.continues_texts().map_err(unreadable_response)? {
                is_complete = true;
                break;
            }
        }
        let is_full = self.chunks.len() >= MAX_WAITING_CHUNKS;
        if text.is_empty() {
            return Ok((is_complete || is_full).then_some(false));
        }
        let text = &text;
        let joins = filter.joins_text(&text_of(chunk), NextText { text, is_complete });
        Ok(joins.or(is_full.then_some(true)))
    }

    /// Ends the candidates of a chunk, unless the next one with a text continues them. Returns
    /// false if a later chunk decides it.
    fn end_candidates(&self, chunk: &mut ResponseDocument) -> Result<bool, ApiError> {
        let mut next = None;
        for behind in &self.chunks {
            if behind.has_filled_part() || behind.has_error().map_err(unreadable_response)? {
                next = Some(behind);
                break;
            }
        }
        if next.is_none() && !self.is_closed && self.chunks.len() < MAX_WAITING_CHUNKS {
            return Ok(false);
        }
        chunk.end_candidates(next);
        Ok(true)
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
        TextEnd::None | TextEnd::Joined | TextEnd::Certain => chunk.has_filled_part(),
    };
    filter.held_bytes() > 0 || has_text && filter.has_policies()
}
