//! Reads the chunks of one response.

use bytes::Bytes;

use crate::dialect::{
    error::DialectError,
    google::response::{
        document::ResponseDocument,
        envelope::ResponseEnvelope,
        text_chunk::{TextChunk, TextChunkTemplate},
    },
};

/// Reads the chunks of one response. A chunk of text stays unparsed.
#[derive(Debug)]
pub struct ChunkReader {
    envelope: ResponseEnvelope,
    /// The latest chunk of text that was read from its layout.
    template: Option<TextChunkTemplate>,
}

impl ChunkReader {
    /// Creates a reader of chunks in such envelopes.
    pub const fn new(envelope: ResponseEnvelope) -> Self {
        Self {
            envelope,
            template: None,
        }
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of it: for invalid JSON, wrong types and ambiguous
    /// fields.
    pub fn read(&mut self, bytes: Bytes) -> Result<ResponseDocument, DialectError> {
        let template = self.template.as_ref();
        if let Some(text) = template.and_then(|template| template.read(&bytes, self.envelope)) {
            return Ok(ResponseDocument::from_text(text));
        }
        if let Some(text) = TextChunk::read(&bytes, self.envelope) {
            self.template = text.template();
            return Ok(ResponseDocument::from_text(text));
        }
        ResponseDocument::open(bytes, self.envelope)
    }
}

#[cfg(test)]
mod tests;
