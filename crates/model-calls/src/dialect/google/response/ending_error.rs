//! Errors of the model API that end a response.

use crate::dialect::{
    document::try_any,
    error::Result,
    google::response::{candidate::CandidateDocument, document::ResponseDocument},
};

const ERROR: &[&str] = &["error"];

impl ResponseDocument {
    /// Returns whether an error of the model API ends the response here.
    ///
    /// # Errors
    ///
    /// Fails if the error is ambiguous.
    pub fn has_error(&self) -> Result<bool> {
        let documents = [Some(self.document()), self.envelope()];
        try_any(documents.into_iter().flatten(), |document| {
            let error = document.bytes_of(ERROR)?;
            Ok(error.is_some_and(|error| is_error(&error)))
        })
    }

    /// Splits a chunk with content and an error into one of each. Returns `None` for others, and
    /// for those that the model API sent so.
    ///
    /// # Errors
    ///
    /// Fails if the error is ambiguous.
    pub fn split_error(&self) -> Result<Option<[Self; 2]>> {
        let is_own = self.is_edited() || self.merged_end.is_some();
        if !is_own || !self.has_filled_part() || !self.has_error()? {
            return Ok(None);
        }
        let (mut content, mut error) = (self.clone(), Self::parse("{}".into())?);
        error.envelope.clone_from(&self.envelope);
        if let Some(json) = content.document().bytes_of(ERROR)? {
            content.document.remove(ERROR)?;
            error.document.set_bytes(ERROR, json)?;
        }
        if let Some(envelope) = &mut content.envelope {
            envelope.remove(ERROR)?;
        }
        Ok(Some([content, error]))
    }

    /// Returns whether any part is left that is not an empty text.
    pub fn has_filled_part(&self) -> bool {
        let mut candidates = self.candidates.iter();
        self.unparsed_text().is_some_and(|text| !text.is_empty())
            || candidates.any(CandidateDocument::has_filled_part)
    }
}

/// Returns whether the JSON in a field for errors is one: an object, or a text.
pub fn is_error(json: &[u8]) -> bool {
    json.starts_with(b"{") || json.starts_with(b"\"") && json != b"\"\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::google::response::envelope::ResponseEnvelope;

    #[test]
    fn an_error_in_an_envelope_ends_the_response() {
        let has_error = |json: &'static str, envelope: ResponseEnvelope| {
            let response = ResponseDocument::open(json.into(), envelope).unwrap();
            response.has_error().unwrap()
        };
        let (bare, wrapped) = (ResponseEnvelope::None, ResponseEnvelope::ResponseField);
        for json in [r#"{"error":{"code":500}}"#, r#"{"error":"boom"}"#] {
            assert!(has_error(json, bare), "{json}");
            assert!(has_error(json, wrapped), "{json}");
        }
        assert!(has_error(r#"{"response":{"error":{}}}"#, wrapped));
        for json in ["{}", r#"{"error":null}"#, r#"{"error":""}"#] {
            assert!(!has_error(json, bare), "{json}");
        }
    }

    #[test]
    fn an_edited_chunk_is_split_into_content_and_error() {
        let split = |json: &'static str, envelope: ResponseEnvelope| {
            let mut chunk = ResponseDocument::open(json.into(), envelope).unwrap();
            assert!(chunk.split_error().unwrap().is_none(), "{json}");
            chunk.start_paragraphs(&mut [0].into()).unwrap();
            let split = chunk.split_error().unwrap().unwrap();
            split.map(|chunk| String::from_utf8(chunk.to_wire(envelope).to_vec()).unwrap())
        };
        let (bare, wrapped) = (ResponseEnvelope::None, ResponseEnvelope::ResponseField);
        let [content, error] = split(
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"error":{"code":500}}"#,
            bare,
        );
        let candidates = r#""candidates":[{"content":{"parts":[{"text":"\n\na"}]}}]"#;
        assert_eq!(content, format!("{{{candidates}}}"));
        assert_eq!(error, r#"{"error":{"code":500}}"#);
        let [content, error] = split(
            r#"{"response":{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},"error":"boom"}"#,
            wrapped,
        );
        assert_eq!(content, format!(r#"{{"response":{{{candidates}}}}}"#));
        assert_eq!(error, r#"{"response":{},"error":"boom"}"#);
    }
}
