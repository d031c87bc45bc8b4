//! A response or chunk of the content form, as writers read it.

use bytes::Bytes;

use crate::dialect::{
    content_form::{AnswerLabels, parts_in},
    document::Document,
    error::Result,
    google::{
        fields::{CANDIDATES, FINISH_REASON},
        part::Part,
    },
    openai_responses::fields::{CONTENT, ERROR},
};

/// A response or chunk of the content form.
#[derive(Debug, Default)]
pub struct ChunkView {
    /// Parts of the first candidate.
    pub parts: Vec<Part>,
    pub finish_reason: Option<String>,
    /// True if the finish reason was edited.
    pub has_new_end: bool,
    pub usage: Option<Document>,
    /// Name of the model that answered.
    pub model: Option<String>,
    pub response_id: Option<String>,
    pub labels: AnswerLabels,
    /// Error of the model API that ends the answer.
    pub error: Option<Document>,
    /// True if it was edited since it was read.
    pub is_edited: bool,
}

impl ChunkView {
    /// Reads a response or chunk of the content form.
    pub fn read(form: &Document) -> Result<Self> {
        let candidates = form.children(CANDIDATES)?.unwrap_or_default();
        let mut view = Self {
            usage: form.child(&["usageMetadata"])?,
            model: form.string(&["modelVersion"])?,
            response_id: form.string(&["responseId"])?,
            labels: AnswerLabels::of_form(form)?,
            error: form.child(ERROR)?,
            is_edited: form.is_edited(),
            ..Self::default()
        };
        view.finish_reason = finish_reason(&candidates)?;
        if view.is_edited && view.finish_reason.is_some() {
            let original = Document::from_checked(form.original_bytes())?;
            let candidates = original.children(CANDIDATES)?.unwrap_or_default();
            view.has_new_end = finish_reason(&candidates)? != view.finish_reason;
        }
        // The API has one candidate. Further ones hold text that policies held back.
        for candidate in candidates {
            let parts = parts_in(&candidate, CONTENT)?.into_iter().map(Part::read);
            view.parts.extend(parts.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(view)
    }

    /// Returns the bytes of all parts, to compare them.
    pub fn part_bytes(&self) -> Vec<Bytes> {
        let parts = self.parts.iter();
        parts.map(|part| part.document.to_bytes()).collect()
    }
}

/// Returns the first finish reason.
fn finish_reason(candidates: &[Document]) -> Result<Option<String>> {
    for candidate in candidates {
        if let Some(reason) = candidate.string(FINISH_REASON)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}
