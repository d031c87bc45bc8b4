//! Errors of the model API that end a response.

use crate::dialect::{
    error::DialectError,
    google::{
        part::Part,
        response::{candidate::CandidateDocument, document::ResponseDocument},
    },
};

const ERROR: &[&str] = &["error"];

impl ResponseDocument {
    /// Returns whether an error of the model API ends the response here.
    ///
    /// # Errors
    ///
    /// Fails if the error is ambiguous.
    pub fn has_error(&self) -> Result<bool, DialectError> {
        let documents = [Some(self.document()), self.envelope.as_deref()];
        for document in documents.into_iter().flatten() {
            if document
                .bytes_of(ERROR)?
                .is_some_and(|error| is_error(&error))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether any part is left that is not an empty text.
    pub fn has_filled_part(&self) -> bool {
        let mut parts = self.candidates.iter().flat_map(CandidateDocument::parts);
        let is_filled = |part: &Part| part.text.as_ref().is_none_or(|text| !text.is_empty());
        parts.any(is_filled)
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
}
