//! Responses and chunks as `AfterModel` hooks see and edit them.

use crate::{
    dialect::{
        content_form::has_other_content,
        document::try_any,
        error::Result,
        google::{
            fields::HAS_MEDIA,
            response::{
                candidate::{CandidateDocument, SAFETY_RATINGS},
                document::{ResponseDocument, USAGE},
                text::{CANDIDATE_FIELDS, CONTENT_FIELDS, RATING_FIELDS, RESPONSE_FIELDS},
            },
        },
    },
    model::{Candidate, CandidateMutation, IgnoredEdit, LlmResponse, ResponseMutation},
};

impl ResponseDocument {
    /// Returns whether hooks see it: if it has parts, or content beside them, such as sources,
    /// annotations and images. They do not see a chunk of ids, finish reasons, ratings and token
    /// counts, nor an error of the model API.
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
            || has_other_content(document, RESPONSE_FIELDS)?
            || try_any(&self.candidates, has_content_beside_parts)?)
    }

    /// Returns the stable form for hooks, which read the first part of the first candidate: an
    /// empty text if the response has no part.
    ///
    /// # Errors
    ///
    /// Fails if the response is ambiguous.
    pub fn read_for_hooks(&self) -> Result<LlmResponse> {
        let mut shown = self.read()?;
        if !self.has_content() {
            let count = shown.candidates.len().max(1);
            shown.candidates.resize_with(count, Candidate::default);
            for candidate in &mut shown.candidates {
                candidate.content.parts.push(String::new());
            }
        }
        Ok(shown)
    }

    /// Applies the edits of hooks. Candidates are paired by position.
    pub fn write(&mut self, mutation: &ResponseMutation) -> Result<Vec<IgnoredEdit>> {
        self.make_parsed()?;
        let mut ignored = Vec::new();
        let mut others = mutation.candidates.iter().skip(self.candidates.len());
        if others.any(CandidateMutation::edits_empty_candidate) {
            let reason = "llm_response: more candidates than there are";
            ignored.push(IgnoredEdit::Inapplicable(reason.to_owned()));
        }
        for (candidate, mutation) in self.candidates.iter_mut().zip(&mutation.candidates) {
            candidate.write(mutation)?;
        }
        self.update_candidates()?;
        if let Some(counts) = &mutation.usage_metadata {
            let mut usage = self.document.child(USAGE)?.unwrap_or_default();
            for (key, value) in counts {
                if usage.get(&[key])?.as_ref() != Some(value) {
                    usage.set(&[key], value)?;
                }
            }
            if usage.is_edited() {
                self.document.set_child(USAGE, &usage)?;
            }
        }
        Ok(ignored)
    }
}

fn has_content_beside_parts(candidate: &CandidateDocument) -> Result<bool> {
    let document = &candidate.document;
    let ratings = document.children(SAFETY_RATINGS)?.unwrap_or_default();
    let contents = candidate.content.iter();
    Ok(has_other_content(document, CANDIDATE_FIELDS)?
        || try_any(contents, |content| {
            has_other_content(&content.document, CONTENT_FIELDS)
        })?
        || try_any(&ratings, |rating| has_other_content(rating, RATING_FIELDS))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_shown(json: &'static str) -> bool {
        let response = ResponseDocument::parse(json.into()).unwrap();
        response.is_shown_to_hooks().unwrap()
    }

    #[test]
    fn hooks_see_content_beside_parts_but_no_ids_and_ratings() {
        for json in [
            r#"{"candidates":[{"groundingMetadata":{"webSearchQueries":["q"]}}]}"#,
            r#"{"candidates":[{"content":{"role":"model","unknown":["x"]}}]}"#,
            r#"{"candidates":[{"finishReason":"OTHER","finishMessage":"x"}]}"#,
            r#"{"promptFeedback":{"blockReason":"OTHER","blockReasonMessage":"x"}}"#,
            r#"{"labels":[[],[{"citations":["http://a"]}]]}"#,
            r#"{"hookgateMedia":true}"#,
            r#"{"labels":[[{"error":{"message":"x"}}]]}"#,
        ] {
            assert!(is_shown(json), "{json}");
        }
        for json in [
            r#"{"candidates":[{"finishReason":"STOP","index":0}],"usageMetadata":{"t":["TEXT"]}}"#,
            r#"{"candidates":[{"safetyRatings":[{"category":"A","probability":"LOW"}]}]}"#,
            r#"{"promptFeedback":{"safetyRatings":[{"category":"A","probability":"LOW"}]}}"#,
            r#"{"labels":[[{"p":"abc"},{"x_groq":{"id":"req"}},{"stop_sequence":"END"}]]}"#,
            r#"{"labels":[[{"prompt_filter_results":[{"hate":{"severity":"safe"}}]}]]}"#,
            r#"{"labels":[[{"provider":"A","version":"latest"}]]}"#,
            r#"{"modelStatus":{"modelStage":"STABLE"}}"#,
            r#"{"candidates":[{"citationMetadata":{}}],"responseId":"r","unknown":[""]}"#,
            r#"{"error":{"message":"x"},"unknown":"x"}"#,
        ] {
            assert!(!is_shown(json), "{json}");
        }
    }
}
