//! Synthetic responses, and those of APIs with another form.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    dialect::{
        call::Call,
        document::{insert, to_document},
        error::Result,
        google::{
            fields::FINISH_REASON,
            part::Part,
            response::{
                candidate::CandidateDocument, document::ResponseDocument, text_chunk::TextChunk,
            },
        },
        text_edit::TextEnd,
    },
    model::{CandidateMutation, LlmResponse, ResponseMutation},
};

/// White space between a text and the one before it.
pub(super) const PARAGRAPH: &str = "\n\n";

impl ResponseDocument {
    /// Creates a response or chunk in the content form, which was read from `events`.
    ///
    /// # Errors
    ///
    /// Fails if `form` is not in the content form.
    pub fn from_form(form: &Value, events: Vec<Bytes>) -> Result<Self> {
        Self::from_form_bytes(form.to_string().into(), events)
    }

    /// Creates a response or chunk from the bytes of its content form.
    ///
    /// # Errors
    ///
    /// Fails if `form` is not in the content form.
    pub fn from_form_bytes(form: Bytes, events: Vec<Bytes>) -> Result<Self> {
        let mut document = Self::parse(form)?;
        document.wire = Some(events);
        Ok(document)
    }

    /// Creates a chunk in the content form, which was read from a whole body and is written anew.
    ///
    /// # Errors
    ///
    /// Fails if `form` is not in the content form.
    pub fn from_whole(form: &Value, body: Bytes) -> Result<Self> {
        let mut document = Self::parse(form.to_string().into())?;
        document.merged_end = Some(vec![body]);
        Ok(document)
    }

    /// Creates an unparsed chunk of text, which was read from one event.
    pub(crate) fn from_text_event(text: TextChunk, event: Bytes) -> Self {
        let mut document = Self::from_text(text);
        document.wire = Some(vec![event]);
        document
    }

    /// Marks that a text of the first candidate ends with this chunk, so that nothing of it
    /// is held back.
    #[must_use]
    pub const fn with_text_end(mut self, end: TextEnd) -> Self {
        self.text_end = end;
        self
    }

    /// Returns whether a text of the first candidate ends with this chunk.
    pub const fn text_end(&self) -> TextEnd {
        self.text_end
    }

    /// Notes that a secret may begin in the text that ends with this chunk, and end in the next.
    pub fn join_text(&mut self) {
        if self.text_end == TextEnd::Possible {
            self.text_end = TextEnd::Joined;
        }
    }

    /// Returns whether texts in front of it and behind it may be one: it holds no thought, no call
    /// and no end.
    pub fn continues_texts(&self) -> Result<bool> {
        let mut parts = self.candidates.iter().flat_map(CandidateDocument::parts);
        let is_thought = |part: &Part| {
            part.is_thought && part.text.as_ref().is_some_and(|text| !text.is_empty())
        };
        let has_thought = self.is_text() && self.plain_texts().next().is_none();
        let is_end = self.text_end == TextEnd::Certain || self.has_finish_reason();
        Ok(!is_end
            && !has_thought
            && !parts.any(is_thought)
            && self.calls()?.is_empty()
            && !self.has_error()?)
    }

    /// Ends the texts of the candidates with a finish reason, unless the next chunk with a text
    /// continues them: some models set a finish reason in every chunk.
    pub fn end_candidates(&mut self, next: Option<&Self>) {
        for candidate in &mut self.candidates {
            let continues = next.is_some_and(|next| next.has_filled_part_of(candidate.index));
            candidate.is_ended = candidate.document.has(FINISH_REASON) && !continues;
        }
    }

    /// Updates the indexes of the candidates beside the first one that have no finish reason yet.
    pub fn note_alternatives(&self, open: &mut BTreeSet<u64>) {
        for candidate in &self.candidates {
            if candidate.index == 0 || candidate.document.has(FINISH_REASON) {
                open.remove(&candidate.index);
            } else {
                open.insert(candidate.index);
            }
        }
    }

    /// Inserts white space in front of the first text of `candidates`, since it follows another
    /// text, unless it has that already. A refusal is a text of its own. Removes the indexes of
    /// candidates with a text.
    pub fn start_paragraphs(&mut self, candidates: &mut BTreeSet<u64>) -> Result<()> {
        if candidates.is_empty() {
            return Ok(());
        }
        self.make_parsed()?;
        for candidate in &mut self.candidates {
            let mut parts = candidate.parts().to_vec();
            let has_text =
                |part: &&mut Part| part.plain_text().is_some_and(|text| !text.is_empty());
            let Some(first) = parts.iter_mut().find(has_text) else {
                continue;
            };
            let text = first.plain_text().unwrap_or_default();
            if candidates.remove(&candidate.index) && !text.starts_with(PARAGRAPH) {
                *first = if first.is_refusal() {
                    first.as_next_refusal()?
                } else {
                    first.with_text(&format!("{PARAGRAPH}{text}"))?
                };
                candidate.set_parts(parts)?;
            }
        }
        self.update_candidates()
    }

    /// Ends other candidates than the first one, without another text.
    ///
    /// # Errors
    ///
    /// Fails if the response cannot be edited.
    pub fn end_alternatives(&mut self, open: &BTreeSet<u64>) -> Result<()> {
        let ends = open.iter().map(|index| {
            let content = json!({ "role": "model", "parts": [{ "text": "" }] });
            let end = json!({ "content": content, "finishReason": "STOP", "index": index });
            CandidateDocument::read(*index, to_document(&end)?)
        });
        self.append_candidates(ends.collect::<Result<_>>()?)
    }

    /// Returns whether it holds a part of a candidate other than an empty text.
    fn has_filled_part_of(&self, index: u64) -> bool {
        let mut candidates = self.candidates.iter();
        index == 0 && self.is_text()
            || candidates.any(|candidate| candidate.index == index && candidate.has_filled_part())
    }

    /// Returns the whole body or the data of each event that it was read from, if the API has
    /// another form.
    pub fn original_events(&self) -> Option<&[Bytes]> {
        self.wire.as_deref()
    }

    /// Returns the body or the events of the last of the chunks that it was merged from, if the API
    /// has another form.
    pub fn merged_end(&self) -> &[Bytes] {
        self.merged_end.as_deref().unwrap_or_default()
    }

    /// Ends the answer of the model in `last`, if it is of another API: the ids and other fields
    /// of the answer stay.
    pub fn end_answer(&mut self, last: &Self) -> Result<()> {
        let end = last.wire.as_ref().or(last.merged_end.as_ref());
        let Some(end) = end.filter(|end| !end.is_empty()) else {
            return Ok(());
        };
        if last.has_error()? {
            return Ok(());
        }
        for field in [&["modelVersion"], &["responseId"]] {
            if let Some(value) = last.document.bytes_of(field)? {
                self.document.set_bytes(field, value)?;
            }
        }
        self.merged_end = Some(end.clone());
        Ok(())
    }

    /// Returns the number of bytes that it was read from, with its envelope.
    pub fn wire_len(&self) -> usize {
        match (self.original_events(), &self.text) {
            (Some(events), _) => events.iter().map(Bytes::len).sum(),
            (None, Some(text)) => text.original_bytes().len(),
            (None, None) => {
                // The merged envelope of chunks does not hold their response.
                let envelope = self.envelope().filter(|_| self.merged_end.is_none());
                envelope.unwrap_or(&self.document).original_bytes().len()
            }
        }
    }

    /// Builds a document from the stable form, for agents that report no more.
    pub fn from_model(llm_response: &LlmResponse) -> Result<Self> {
        let candidates = llm_response.candidates.iter().map(|candidate| {
            let parts = candidate.content.typed_parts();
            let parts = parts.map(|(text, is_thought)| {
                if is_thought {
                    json!({ "text": text, "thought": true })
                } else {
                    json!({ "text": text })
                }
            });
            json!({
                "content": { "role": "model", "parts": parts.collect::<Vec<_>>() },
                "finishReason": candidate.finish_reason,
                "index": candidate.index,
                "safetyRatings": candidate.safety_ratings,
            })
        });
        let mut response = json!({ "candidates": candidates.collect::<Vec<_>>() });
        if let Some(usage) = &llm_response.usage_metadata {
            insert(&mut response, "usageMetadata", json!(usage));
        }
        Self::parse(response.to_string().into())
    }
}

/// Builds a response from a hook's. `finishReason` defaults to `STOP`, `index` to the position
/// and token counts to zero, unless the agent expects none.
pub fn build_response(call: &Call, response: &ResponseMutation, response_id: &str) -> Value {
    let candidates = response.candidates.iter().enumerate();
    let candidates = candidates.map(|(position, candidate)| build_candidate(position, candidate));
    let mut built = json!({ "candidates": candidates.collect::<Vec<_>>() });
    if response.usage_metadata.is_some() || !call.omits_usage {
        let mut usage = json!({
            "promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0,
        });
        for (field, count) in response.usage_metadata.iter().flatten() {
            insert(&mut usage, field, count.clone());
        }
        insert(&mut built, "usageMetadata", usage);
    }
    insert(&mut built, "modelVersion", call.model_name());
    insert(&mut built, "responseId", response_id);
    built
}

/// Builds a response with one text.
pub fn build_text_response(call: &Call, text: &str, response_id: &str) -> Value {
    let response = ResponseMutation {
        candidates: vec![CandidateMutation {
            parts: Some(vec![text.to_owned()]),
            ..CandidateMutation::default()
        }],
        usage_metadata: None,
    };
    build_response(call, &response, response_id)
}

fn build_candidate(position: usize, candidate: &CandidateMutation) -> Value {
    let texts = candidate.parts.iter().flatten();
    let parts: Vec<Value> = texts.map(|text| json!({ "text": text })).collect();
    let mut built = json!({
        "content": { "role": "model", "parts": parts },
        "finishReason": candidate.finish_reason.as_deref().unwrap_or("STOP"),
        "index": candidate.index.clone().unwrap_or_else(|| json!(position)),
    });
    if let Some(ratings) = &candidate.safety_ratings {
        insert(&mut built, "safetyRatings", ratings.clone());
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_that_a_reply_cuts_off_are_ended() {
        let parse = |candidates: Value| {
            let chunk = json!({ "candidates": candidates });
            ResponseDocument::parse(chunk.to_string().into()).unwrap()
        };
        let mut open = BTreeSet::new();
        for candidates in [
            json!([{ "index": 0 }, { "index": 1 }, { "index": 2 }]),
            json!([{ "index": 2, "finishReason": "STOP" }]),
        ] {
            parse(candidates).note_alternatives(&mut open);
        }
        let mut reply = parse(json!([{ "index": 0, "finishReason": "STOP" }]));

        reply.end_alternatives(&open).unwrap();

        let reply: Value = serde_json::from_slice(&reply.to_bytes()).unwrap();
        let ended = &reply["candidates"][1];
        assert_eq!(reply["candidates"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&ended["index"], &ended["finishReason"]),
            (&json!(1), &json!("STOP"))
        );
    }
}
