//! Texts and media of a response beside its parts.

use crate::dialect::{
    content_form::has_other_texts,
    document::try_any,
    error::Result,
    google::{
        fields::HAS_MEDIA,
        response::{
            candidate::{CandidateDocument, SAFETY_RATINGS},
            document::ResponseDocument,
            text::{CANDIDATE_FIELDS, CONTENT_FIELDS, RATING_FIELDS, RESPONSE_FIELDS},
        },
    },
};

impl ResponseDocument {
    /// Returns whether `AfterModel` hooks run for it: if it has parts, or texts or media beside
    /// them, such as sources and annotations. They do not run for a chunk of ids, finish reasons
    /// and token counts, nor for an error of the model API.
    ///
    /// # Errors
    ///
    /// Fails if the response is ambiguous.
    pub fn is_shown_to_hooks(&self) -> Result<bool> {
        if self.has_content() {
            return Ok(true);
        }
        if self.has_error()? {
            return Ok(false);
        }
        let document = self.document();
        Ok(document.has(&[HAS_MEDIA])
            || has_other_texts(document, RESPONSE_FIELDS)?
            || try_any(&self.candidates, has_texts_beside_parts)?)
    }
}

fn has_texts_beside_parts(candidate: &CandidateDocument) -> Result<bool> {
    let document = &candidate.document;
    let ratings = document.children(SAFETY_RATINGS)?.unwrap_or_default();
    let contents = candidate.content.iter();
    Ok(has_other_texts(document, CANDIDATE_FIELDS)?
        || try_any(contents, |content| {
            has_other_texts(&content.document, CONTENT_FIELDS)
        })?
        || try_any(&ratings, |rating| has_other_texts(rating, RATING_FIELDS))?)
}
