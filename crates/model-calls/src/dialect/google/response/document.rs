//! A response, or one chunk of it.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use crate::{
    dialect::{
        document::{Document, integer, is_set, parse_document, try_any},
        error::{DialectError, Result},
        google::{
            canonical_items::{CanonicalItem, ContentItems, ItemKind},
            fields::{CANDIDATES, FINISH_REASON, PAUSED, RESPONSE},
            part::Part,
            response::{
                candidate::{CandidateDocument, INDEX},
                envelope::{ResponseEnvelope, replace_response, unwrap_response},
                text_chunk::TextChunk,
            },
        },
        text_edit::TextEnd,
    },
    model::{Candidate, LlmResponse, Role, UsageMetadata},
};

const MODEL_VERSION: &[&str] = &["modelVersion", "model_version"];

const PROMPT_TOKENS: &[&str] = &["promptTokenCount", "prompt_token_count"];
const ANSWER_TOKENS: &[&str] = &["candidatesTokenCount", "candidates_token_count"];
const THOUGHT_TOKENS: &[&str] = &["thoughtsTokenCount", "thoughts_token_count"];
const TOTAL_TOKENS: &[&str] = &["totalTokenCount", "total_token_count"];
pub const USAGE: &[&str] = &["usageMetadata", "usage_metadata"];

/// A response, or one chunk of it.
///
/// A chunk of text is not parsed until a method needs more than its text, its model and its
/// token counts.
#[derive(Debug, Clone, Default)]
pub struct ResponseDocument {
    /// Set until the chunk is parsed. The fields below are empty then, which agrees with a
    /// chunk that holds neither calls nor the end of a candidate.
    pub(super) text: Option<TextChunk>,
    pub(super) document: Document,
    pub(crate) candidates: Vec<CandidateDocument>,
    pub(super) envelope: Option<Box<Document>>,
    /// Original body or events, if the API does not use the content form.
    pub(crate) wire: Option<Vec<Bytes>>,
    pub(crate) text_end: TextEnd,
    /// Original body or events of the last chunk, if it was merged from several ones.
    pub(super) merged_end: Option<Vec<Bytes>>,
}

impl ResponseDocument {
    /// Memory of a parsed document beside the bytes that it was read from: its fields, and the
    /// least that these allocate.
    pub const PARSED_BYTES: usize = 4 * size_of::<Self>();

    /// Parses a response without envelope.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of it: for wrong types and ambiguous fields.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let document = parse_document(bytes)?;
        if is_set(&document, RESPONSE)? {
            // Clients of Code Assist read the candidates in it.
            return Err(DialectError::Ambiguous("response".to_owned()));
        }
        let listed = document.children(CANDIDATES)?.unwrap_or_default();
        let indexes = listed.iter().map(|candidate| candidate.get(INDEX));
        let indexes: Vec<Option<Value>> = indexes.collect::<Result<_, _>>()?;
        let indexes: Vec<Option<u64>> = indexes.into_iter().map(|index| index?.as_u64()).collect();
        // An API that sends indexes may omit a zero.
        let is_unnumbered = indexes.iter().all(Option::is_none);
        let candidates = (0..).zip(indexes).zip(listed);
        let candidates = candidates.map(|((position, index), candidate)| {
            let index = index.unwrap_or(if is_unnumbered { position } else { 0 });
            CandidateDocument::read(index, candidate)
        });
        Ok(Self {
            candidates: candidates.collect::<Result<_, _>>()?,
            document,
            ..Self::default()
        })
    }

    /// Parses a response in its envelope.
    ///
    /// # Errors
    ///
    /// Fails like [`ResponseDocument::parse`], and if the envelope holds candidates itself.
    pub fn open(bytes: Bytes, envelope: ResponseEnvelope) -> Result<Self> {
        match envelope {
            ResponseEnvelope::None => Self::parse(bytes),
            ResponseEnvelope::ResponseField => {
                let envelope = parse_document(bytes)?;
                let response = Self::parse(unwrap_response(&envelope)?)?;
                Ok(Self {
                    envelope: Some(Box::new(envelope)),
                    ..response
                })
            }
        }
    }

    /// Creates an unparsed chunk of text.
    pub(crate) fn from_text(text: TextChunk) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }

    /// Returns whether it is an unparsed chunk of text.
    pub fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the text of an unparsed chunk, which may be a thought.
    pub fn unparsed_text(&self) -> Option<&str> {
        self.text.as_ref().map(TextChunk::text)
    }

    /// Parses the chunk, if it is not parsed yet.
    pub(crate) fn make_parsed(&mut self) -> Result<&mut Self> {
        if let Some(text) = &self.text {
            let mut parsed = Self::open(text.original_bytes(), text.envelope())?;
            if let Some(new) = text.edited_text() {
                parsed.replace_text(new)?;
            }
            *self = Self {
                wire: self.wire.take(),
                text_end: self.text_end,
                ..parsed
            };
        }
        Ok(self)
    }

    fn to_parsed(&self) -> Result<Cow<'_, Self>> {
        match &self.text {
            Some(text) => Self::open(text.to_bytes(), text.envelope()).map(Cow::Owned),
            None => Ok(Cow::Borrowed(self)),
        }
    }

    /// Returns the document of a parsed response.
    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    /// Returns whether any part is left.
    pub fn has_content(&self) -> bool {
        let mut candidates = self.candidates.iter();
        self.is_text() || candidates.any(|candidate| !candidate.parts().is_empty())
    }

    /// Returns whether it was edited.
    pub fn is_edited(&self) -> bool {
        match &self.text {
            Some(text) => text.is_edited(),
            None => self.document.is_edited() || self.has_edited_envelope(),
        }
    }

    /// Returns the envelope of a parsed response.
    pub fn envelope(&self) -> Option<&Document> {
        self.envelope.as_deref()
    }

    /// Returns whether anything beside the response in its envelope was edited.
    pub fn has_edited_envelope(&self) -> bool {
        self.envelope().is_some_and(Document::is_edited)
    }

    /// Returns the bytes that it was read from, without envelope.
    pub fn original_bytes(&self) -> Bytes {
        match &self.text {
            Some(text) => text.response_in(&text.original_bytes()),
            None => self.document.original_bytes(),
        }
    }

    /// Returns the response without envelope: the original bytes with the edits.
    pub fn to_bytes(&self) -> Bytes {
        match &self.text {
            Some(text) => text.response_in(&text.to_bytes()),
            None => self.document.to_bytes(),
        }
    }

    /// Returns the response as the agent receives it. A synthetic one gets a new envelope.
    pub fn to_wire(&self, envelope: ResponseEnvelope) -> Bytes {
        if let Some(text) = &self.text {
            return text.to_bytes();
        }
        let response = self.without_replaced();
        let original = self.envelope();
        original
            .and_then(|original| replace_response(original, &response).ok())
            .unwrap_or_else(|| envelope.wrap(response))
    }

    /// Returns the edited response for hooks that receive it whole.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        self.to_parsed().ok()?.document.to_raw()
    }

    /// Returns the token counts as JSON.
    pub fn usage(&self) -> Result<Option<Bytes>> {
        match &self.text {
            Some(text) => Ok(text.usage()),
            None => Ok(self.document.child(USAGE)?.map(|usage| usage.to_bytes())),
        }
    }

    /// Replaces the token counts of a synthetic response, if it has any, by those of the model API.
    ///
    /// # Errors
    ///
    /// Fails if the response cannot be edited.
    pub fn replace_usage(&mut self, usage: &Bytes) -> Result<()> {
        if self.document.has(USAGE) {
            self.document.set_bytes(USAGE, usage.clone())?;
        }
        Ok(())
    }

    /// Returns the number of tokens of request and response so far; the sum of the counts if there
    /// is no total.
    pub fn total_tokens(&self) -> Result<Option<u64>> {
        let usage = match &self.text {
            Some(text) => text.usage().map(Document::from_checked).transpose()?,
            None => self.document.child(USAGE)?,
        };
        let Some(usage) = usage else {
            return Ok(None);
        };
        if let Some(total) = integer(&usage, TOTAL_TOKENS)?.filter(|total| *total > 0) {
            return Ok(Some(total));
        }
        let counts = [PROMPT_TOKENS, ANSWER_TOKENS, THOUGHT_TOKENS];
        let counts = counts.map(|field| integer(&usage, field));
        let counts: Vec<Option<u64>> = counts.into_iter().collect::<Result<_, _>>()?;
        Ok(counts.into_iter().flatten().reduce(u64::saturating_add))
    }

    /// Returns the name of the model that answered.
    pub fn model(&self) -> Result<Option<Cow<'_, str>>> {
        match &self.text {
            Some(text) => Ok(text.model().map(Cow::Borrowed)),
            None => Ok(self.document.string(MODEL_VERSION)?.map(Cow::Owned)),
        }
    }

    /// Returns the texts of the first candidate, without thoughts.
    pub fn plain_texts(&self) -> impl Iterator<Item = &str> {
        let text = self.text.as_ref().and_then(TextChunk::plain_text);
        text.into_iter()
            .chain(self.first_parts().filter_map(Part::plain_text))
    }

    /// Returns the texts of all candidates with their indexes, without thoughts.
    pub fn candidate_texts(&self) -> impl Iterator<Item = (u64, &str)> {
        let text = self.text.as_ref().and_then(TextChunk::plain_text);
        let parsed = self.candidates.iter().flat_map(|candidate| {
            let texts = candidate.parts().iter().filter_map(Part::plain_text);
            texts.map(|text| (candidate.index, text))
        });
        text.map(|text| (0, text)).into_iter().chain(parsed)
    }

    /// Returns the items of the first candidate, without partial calls.
    pub fn canonical_items(&self) -> Result<Vec<CanonicalItem>> {
        if let Some(text) = &self.text {
            let text = text.plain_text().filter(|text| !text.is_empty());
            let item = text.map(|text| CanonicalItem {
                part: 0,
                kind: ItemKind::Text,
                by_model: true,
                text: text.to_owned(),
                id: None,
            });
            return Ok(item.into_iter().collect());
        }
        let mut complete = Vec::new();
        for part in self.first_parts() {
            if !part.call()?.is_some_and(|call| call.is_partial) {
                complete.push(part);
            }
        }
        Ok(ContentItems::read(complete, Role::Model)?.items)
    }

    /// Returns whether the first candidate has partial calls.
    pub fn has_partial_calls(&self) -> Result<bool> {
        try_any(self.first_parts(), |part| {
            Ok(part.call()?.is_some_and(|call| call.is_partial))
        })
    }

    /// Returns whether any candidate has a finish reason.
    pub fn has_finish_reason(&self) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|candidate| candidate.document.has(FINISH_REASON))
    }

    /// Returns whether the first candidate ends here, and was not cut off.
    pub fn is_complete(&self) -> Result<bool> {
        self.finishes_with("STOP")
    }

    /// Returns whether the model continues the answer when the agent has sent it back, or a token
    /// for it.
    pub fn is_paused(&self) -> Result<bool> {
        Ok(self.finishes_with(PAUSED)? || self.finishes_with("CONTINUATION")?)
    }

    fn finishes_with(&self, reason: &str) -> Result<bool> {
        let Some(first) = self.first_candidate() else {
            return Ok(false);
        };
        Ok(first.document.string(FINISH_REASON)?.as_deref() == Some(reason))
    }

    /// Returns whether it holds other candidates than the first.
    pub fn has_alternatives(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.index != 0)
    }

    /// Returns the stable form.
    pub fn read(&self) -> Result<LlmResponse> {
        let parsed = self.to_parsed()?;
        let candidates = parsed.candidates.iter().map(CandidateDocument::to_model);
        let candidates: Vec<Candidate> = candidates.collect::<Result<_, _>>()?;
        let usage = parsed.document.child(USAGE)?;
        let first = candidates.first();
        Ok(LlmResponse {
            text: first.map_or_else(String::new, |first| first.content.plain_text()),
            candidates,
            usage_metadata: usage.as_ref().map(read_usage).transpose()?,
        })
    }

    pub(crate) fn first_candidate(&self) -> Option<&CandidateDocument> {
        let mut candidates = self.candidates.iter();
        candidates.find(|candidate| candidate.index == 0)
    }

    fn first_parts(&self) -> impl Iterator<Item = &Part> {
        let first = self.first_candidate().into_iter();
        first.flat_map(CandidateDocument::parts)
    }

    /// Appends candidates, if there are any, to those of the document.
    pub(crate) fn append_candidates(&mut self, new: Vec<CandidateDocument>) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        self.candidates.extend(new);
        let documents = self.candidates.iter().map(|candidate| &candidate.document);
        self.document.set_children(CANDIDATES, documents)
    }

    /// Writes edited candidates to the document.
    pub(crate) fn update_candidates(&mut self) -> Result<()> {
        let documents = self.candidates.iter().map(|candidate| &candidate.document);
        if !documents.clone().any(Document::is_edited) {
            return Ok(());
        }
        self.document.set_children(CANDIDATES, documents)
    }
}

fn read_usage(usage: &Document) -> Result<UsageMetadata> {
    Ok(UsageMetadata {
        prompt_token_count: usage.get(PROMPT_TOKENS)?,
        candidates_token_count: usage.get(ANSWER_TOKENS)?,
        total_token_count: usage.get(TOTAL_TOKENS)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ResponseMutation;

    fn parse(parts: &str) -> ResponseDocument {
        let text = format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}},"n":1E5}}]}}"#
        );
        ResponseDocument::parse(text.into()).unwrap()
    }

    #[track_caller]
    fn check(old: &str, llm_response: &Value, new: &str) {
        let mut document = parse(old);
        let mutation = ResponseMutation::read(llm_response).unwrap();
        document.write(&mutation).unwrap();
        assert_eq!(document.to_bytes(), parse(new).to_bytes());
    }

    #[test]
    fn other_numbers_of_texts_replace_all_old_texts() {
        check(
            r#"[{"inlineData":{}},{"text":"secret","thought":true},{"functionCall":{"args":{"n":1.0e1}}},{"text":"secret"}]"#,
            &json!({"text": "[x]"}),
            r#"[{"inlineData":{}},{"text":"[x]"},{"functionCall":{"args":{"n":1.0e1}}}]"#,
        );
    }

    #[test]
    fn equal_numbers_of_texts_keep_their_parts() {
        check(
            r#"[{"text":"a","thought":true,"thoughtSignature":"s"},{"functionCall":{}},{"text":"b"}]"#,
            &json!({"candidates": [{"content": {"parts": ["A", {"text": "B"}]}}]}),
            r#"[{"text":"A","thought":true,"thoughtSignature":"s"},{"functionCall":{}},{"text":"B"}]"#,
        );
    }

    #[test]
    fn an_edit_of_the_stable_form_is_that_of_the_document() {
        let old = r#"[{"text":"a","thought":true},{"functionCall":{}},{"text":"b"}]"#;
        for llm_response in [
            json!({"candidates": [{"content": {"parts": ["A", "B"]}, "finishReason": "STOP"}]}),
            json!({"candidates": [{"index": 3}, {"content": {"parts": ["dropped"]}}]}),
            json!({"candidates": [{"content": {"parts": []}}]}),
            json!({"text": "one"}),
            json!({"usageMetadata": {"totalTokenCount": 7}}),
        ] {
            let edit = ResponseMutation::read(&llm_response).unwrap();
            let mut document = parse(old);
            let mut shown = document.read().unwrap();

            document.write(&edit).unwrap();
            shown.apply(&edit);

            assert_eq!(
                json!(shown),
                json!(document.read().unwrap()),
                "{llm_response}"
            );
        }
    }

    #[test]
    fn an_empty_list_removes_texts_and_keeps_calls() {
        check(
            r#"[{"text":"secret"},{"functionCall":{"name":"f"}}]"#,
            &json!({"candidates": [{"content": {"parts": []}}]}),
            r#"[{"functionCall":{"name":"f"}}]"#,
        );
    }
}
