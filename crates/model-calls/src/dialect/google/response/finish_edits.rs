//! Finish reasons that hooks set in chunks in front of the end of an answer.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    dialect::{
        error::Result,
        google::{fields::FINISH_REASON, response::document::ResponseDocument},
    },
    model::ResponseMutation,
};

/// Finish reasons for the ends of the candidates of one stream, by index.
#[derive(Debug, Default)]
pub struct FinishEdits(BTreeMap<u64, String>);

impl FinishEdits {
    /// Takes the finish reasons from an edit of a chunk that has no field for them. Chunks of
    /// Google's APIs have one.
    ///
    /// # Errors
    ///
    /// Fails if the chunk cannot be parsed.
    pub fn take(
        &mut self,
        chunk: &mut ResponseDocument,
        edit: &mut ResponseMutation,
    ) -> Result<()> {
        if chunk.original_events().is_none() {
            return Ok(());
        }
        let candidates = chunk.make_parsed()?.candidates.iter();
        for (candidate, edit) in candidates.zip(&mut edit.candidates) {
            if !candidate.document.has(FINISH_REASON)
                && let Some(reason) = edit.finish_reason.take()
            {
                self.0.insert(candidate.index, reason);
            }
        }
        Ok(())
    }

    /// Sets the finish reasons of a chunk without parts that ends candidates, unless an error ends
    /// them.
    ///
    /// # Errors
    ///
    /// Fails if the chunk is ambiguous.
    pub fn write(&self, chunk: &mut ResponseDocument) -> Result<()> {
        if self.0.is_empty() || chunk.has_content() || chunk.has_error()? {
            return Ok(());
        }
        for candidate in &mut chunk.candidates {
            if candidate.document.has(FINISH_REASON)
                && let Some(reason) = self.0.get(&candidate.index)
            {
                candidate.document.set(FINISH_REASON, &json!(reason))?;
            }
        }
        chunk.update_candidates()
    }
}
