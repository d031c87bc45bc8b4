//! A response or chunk of the content form, as writers read it.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{AnswerLabels, first_candidates, parts_in, remove_labels},
    document::Document,
    error::Result,
    google::{fields::FINISH_REASON, part::Part, response::document::ResponseDocument},
    openai_responses::{
        fields::{CONTENT, ERROR, ID, OUTPUT, OUTPUT_TEXT, TYPE, parse},
        response::response_labels::visit_response,
    },
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
    /// Response of the model with which it ends, if it is merged from several chunks or answers;
    /// without items, error and labels, which hooks see elsewhere and may have edited there.
    pub end: Option<Document>,
}

impl ChunkView {
    /// Reads a response or chunk, with the end of those that it is merged from.
    pub fn of(response: &ResponseDocument) -> Result<Self> {
        Ok(Self {
            end: last_response(response.merged_end())?,
            ..Self::read(response.document())?
        })
    }

    /// Reads a response or chunk of the content form.
    pub fn read(form: &Document) -> Result<Self> {
        let candidates = first_candidates(form)?;
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
            let candidates = first_candidates(&original)?;
            view.has_new_end = finish_reason(&candidates)? != view.finish_reason;
        }
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

/// Returns the response in a body, or in the last of the events that end a stream.
fn last_response(end: &[Bytes]) -> Result<Option<Document>> {
    let Some(data) = end.last() else {
        return Ok(None);
    };
    let last = parse(data.clone())?;
    // The event of an error may have no type.
    let response = if last.has(TYPE) || !last.has(ID) {
        last.child(&["response"])?
    } else {
        Some(last)
    };
    let Some(mut response) = response else {
        return Ok(None);
    };
    response.set(OUTPUT, &json!([]))?;
    response.set(ERROR, &Value::Null)?;
    response.remove(OUTPUT_TEXT)?;
    visit_response(&mut response, &mut remove_labels)?;
    Ok(Some(response))
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
