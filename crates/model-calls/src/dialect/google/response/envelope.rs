//! Envelopes of responses: the object of Code Assist with the response in a field, or none.

use bytes::Bytes;

use crate::dialect::{
    document::Document,
    error::{DialectError, Result},
    google::fields::{CANDIDATES, RESPONSE},
};

/// Fields of an envelope that hold no text, or are edited otherwise.
pub const ENVELOPE_FIELDS: &[&str] = &["response", "traceId", "trace_id"];

/// Envelope around a response and around each chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnvelope {
    /// The response itself, without envelope.
    None,
    /// An object with the response in its field `response`.
    ResponseField,
}

impl ResponseEnvelope {
    /// Wraps a synthetic response.
    pub fn wrap(self, response: Bytes) -> Bytes {
        match self {
            Self::None => response,
            Self::ResponseField => [b"{\"response\":", &*response, b"}"].concat().into(),
        }
    }
}

/// Returns the response in an envelope; an empty one if it has none.
///
/// # Errors
///
/// Fails if the envelope holds candidates itself, which hooks would not see.
pub fn unwrap_response(envelope: &Document) -> Result<Bytes> {
    if envelope.has(CANDIDATES) {
        return Err(DialectError::Ambiguous("candidates".to_owned()));
    }
    Ok(envelope.child(RESPONSE)?.unwrap_or_default().to_bytes())
}

/// Returns the original envelope with an edited response.
pub fn replace_response(envelope: &Document, response: &Bytes) -> Result<Bytes> {
    let original = envelope.bytes_of(RESPONSE)?;
    let is_absent = envelope.child(RESPONSE)?.is_none();
    if original.as_ref() == Some(response) || is_absent && **response == *b"{}" {
        return Ok(envelope.to_bytes());
    }
    let mut envelope = envelope.clone();
    envelope.set_bytes(RESPONSE, response.clone())?;
    Ok(envelope.to_bytes())
}
