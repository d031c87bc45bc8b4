//! Candidates whose texts were edited, and the fields that repeat the model's text.

use std::collections::BTreeSet;

use crate::{
    dialect::{
        document::first_byte,
        error::Result,
        google::{
            fields::LOGPROBS,
            response::{candidate::CandidateDocument, document::ResponseDocument},
        },
    },
    model::{IgnoredEdit, ResponseMutation},
};

/// Fields of a candidate that repeat its text, or refer to places in it.
const COPIES: [&[&str]; 3] = [
    LOGPROBS,
    &["avgLogprobs", "avg_logprobs"],
    &["citationMetadata", "citation_metadata"],
];

const GROUNDING: &[&str] = &["groundingMetadata", "grounding_metadata"];

/// Field of the grounding that repeats passages of the text. Its sources stay.
const SUPPORTS: &[&str] = &["groundingSupports", "grounding_supports"];

/// Indexes of the candidates of one response whose texts hooks or policies have edited.
#[derive(Debug, Default)]
pub struct EditedCandidates(BTreeSet<u64>);

impl EditedCandidates {
    /// Adds the candidate with this index.
    pub fn insert(&mut self, candidate: u64) {
        self.0.insert(candidate);
    }

    /// Applies the edits of hooks to a chunk of the response, or to all of it.
    ///
    /// # Errors
    ///
    /// Fails if the chunk cannot be edited.
    pub fn write(
        &mut self,
        chunk: &mut ResponseDocument,
        edit: &ResponseMutation,
    ) -> Result<Vec<IgnoredEdit>> {
        let before: Vec<Vec<String>> = chunk.make_parsed()?.candidates.iter().map(texts).collect();
        let ignored = chunk.write(edit)?;
        for (candidate, before) in chunk.candidates.iter().zip(before) {
            if texts(candidate) != before {
                self.0.insert(candidate.index);
            }
        }
        Ok(ignored)
    }

    /// Removes the fields of edited candidates that repeat the model's text.
    ///
    /// # Errors
    ///
    /// Fails if the chunk is ambiguous.
    pub fn remove_copies(&self, chunk: &mut ResponseDocument) -> Result<()> {
        // Other APIs have none of the fields.
        if self.0.is_empty() || chunk.original_events().is_some() {
            return Ok(());
        }
        // A text of which no other field is needed may not be parsed yet.
        chunk.make_parsed()?;
        let candidates = chunk.candidates.iter_mut();
        for candidate in candidates.filter(|candidate| self.0.contains(&candidate.index)) {
            let document = &mut candidate.document;
            for field in COPIES {
                document.remove(field)?;
            }
            if first_byte(document, GROUNDING)? == Some(b'{') {
                document.edit_child(GROUNDING, |grounding| grounding.remove(SUPPORTS))?;
            }
        }
        chunk.update_candidates()
    }
}

fn texts(candidate: &CandidateDocument) -> Vec<String> {
    let parts = candidate.parts().iter();
    parts.filter_map(|part| part.text.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{
        api_dialect::ReadChunks,
        google::response::{chunk_reader::ChunkReader, envelope::ResponseEnvelope},
    };

    fn candidate(index: u64, text: &str) -> Value {
        let metadata = json!({
            "groundingChunks": [{ "web": { "uri": "u" } }],
            "groundingSupports": [{ "segment": { "text": text } }],
        });
        json!({
            "content": { "role": "model", "parts": [{ "text": text }] },
            "index": index,
            "avgLogprobs": -0.1,
            "logprobsResult": { "chosenCandidates": [{ "token": text }] },
            "citationMetadata": { "citations": [{ "startIndex": 0 }] },
            "groundingMetadata": metadata,
        })
    }

    fn parse(candidates: &Value) -> ResponseDocument {
        let response = json!({ "candidates": candidates });
        ResponseDocument::parse(response.to_string().into()).unwrap()
    }

    fn candidates(response: &ResponseDocument) -> Value {
        let response: Value = serde_json::from_slice(&response.to_bytes()).unwrap();
        response["candidates"].clone()
    }

    #[test]
    fn no_later_text_has_the_probability_of_the_models() {
        let chunk = |text: &str| {
            let content = json!({ "role": "model", "parts": [{ "text": text }] });
            json!({ "candidates": [{ "content": content, "avgLogprobs": -0.1 }] }).to_string()
        };
        let mut reader = ChunkReader::new(ResponseEnvelope::None);
        let mut first = reader.read(chunk("a").into()).unwrap().unwrap();
        let mut second = reader.read(chunk("b").into()).unwrap().unwrap();
        assert!(second.is_text());
        let mut edited = EditedCandidates::default();
        let edit = ResponseMutation::read(&json!({ "text": "[x]" })).unwrap();

        edited.write(&mut first, &edit).unwrap();
        edited.remove_copies(&mut second).unwrap();

        let content = json!({ "role": "model", "parts": [{ "text": "b" }] });
        assert_eq!(candidates(&second), json!([{ "content": content }]));
    }

    #[test]
    fn a_text_of_another_api_is_not_parsed() {
        let event = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
        let mut reader = crate::dialect::of(crate::dialect::Api::OpenAiChat).chunk_reader();
        reader.read(event.into()).unwrap();
        let mut chunk = reader.read(event.into()).unwrap().unwrap();
        assert!(chunk.is_text());

        EditedCandidates([0].into())
            .remove_copies(&mut chunk)
            .unwrap();

        assert!(chunk.is_text());
    }

    #[test]
    fn nothing_repeats_the_text_of_an_edited_candidate() {
        let mut edited = EditedCandidates::default();
        let unedited = json!([candidate(0, "secret"), candidate(1, "b")]);
        let mut first = parse(&unedited);
        let echo = ResponseMutation::read(&json!({ "text": "secret" })).unwrap();
        edited.write(&mut first, &echo).unwrap();
        edited.remove_copies(&mut first).unwrap();
        assert_eq!(candidates(&first), unedited);

        let edit = ResponseMutation::read(&json!({ "text": "[x]" })).unwrap();
        edited.write(&mut first, &edit).unwrap();
        edited.remove_copies(&mut first).unwrap();

        let sent = json!({
            "content": { "role": "model", "parts": [{ "text": "[x]" }] },
            "index": 0,
            "groundingMetadata": { "groundingChunks": [{ "web": { "uri": "u" } }] },
        });
        assert_eq!(candidates(&first), json!([sent, candidate(1, "b")]));
        // A later chunk repeats the texts of those before it.
        let mut last = parse(&json!([candidate(0, "secret")]));
        edited.remove_copies(&mut last).unwrap();
        let last = candidates(&last)[0]["groundingMetadata"].clone();
        assert_eq!(last, sent["groundingMetadata"]);
    }
}
