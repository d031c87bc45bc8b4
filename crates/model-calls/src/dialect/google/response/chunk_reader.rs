//! Reads the chunks of one response.

use std::sync::Arc;

use bytes::Bytes;

use crate::dialect::{
    api_dialect::ReadChunks,
    content_form::refuse_private_fields,
    document::Document,
    error::Result,
    google::{
        part::{TEXT, THOUGHT},
        response::{
            candidate::SAFETY_RATINGS,
            document::{ResponseDocument, USAGE},
            envelope::{ENVELOPE_FIELDS, ResponseEnvelope},
            text::{CANDIDATE_FIELDS, CONTENT_FIELDS, RATING_FIELDS, RESPONSE_FIELDS, stream_of},
            text_chunk::{TextChunk, TextChunkTemplate, place_in},
        },
    },
};

/// Fields of a part that holds a text and nothing else to inspect.
const TEXT_FIELDS: &[&str] = &["text", "thought", "thoughtSignature", "thought_signature"];

/// Reads the chunks of one response. A chunk that differs from those before it in its text
/// and its token counts only stays unparsed.
#[derive(Debug)]
pub struct ChunkReader {
    envelope: ResponseEnvelope,
    /// The latest parsed chunk, if it is one of text. A chunk behind another part is parsed, since
    /// texts in front of that part have ended.
    template: Option<Arc<TextChunkTemplate>>,
    /// True if an error ended the response. What follows is not read.
    has_failed: bool,
}

impl ChunkReader {
    /// Creates a reader of chunks in such envelopes.
    pub const fn new(envelope: ResponseEnvelope) -> Self {
        Self {
            envelope,
            template: None,
            has_failed: false,
        }
    }

    /// Returns the template of a chunk; `None` if it holds anything but one text, the model's
    /// name and token counts.
    fn new_template(&self, bytes: Bytes, chunk: &ResponseDocument) -> Option<TextChunkTemplate> {
        let [candidate] = chunk.candidates.as_slice() else {
            return None;
        };
        let (Some(content), [part]) = (&candidate.content, candidate.parts()) else {
            return None;
        };
        let is_plain = candidate.index == 0
            && !chunk.has_finish_reason()
            && part.text.as_ref().is_some_and(|text| !text.is_empty())
            && (part.is_thought || !part.document.has(THOUGHT))
            && chunk.document().has_only(RESPONSE_FIELDS)
            && has_known_fields(chunk.envelope())
            && candidate.document.has_only(CANDIDATE_FIELDS)
            && content.document.has_only(CONTENT_FIELDS)
            && has_known_ratings(&candidate.document)
            && part.document.has_only(TEXT_FIELDS);
        let response = place_in(&bytes, &chunk.document().to_bytes())?;
        let text = place_in(&bytes, &part.document.bytes_of(TEXT).ok()??)?;
        let usage = match chunk.document().child(USAGE).ok()? {
            Some(usage) => place_in(&bytes, &usage.to_bytes())?,
            None => bytes.len()..bytes.len(),
        };
        let model = chunk.model().ok()?.map(Into::into);
        (is_plain && text.end <= usage.start).then_some(TextChunkTemplate {
            envelope: self.envelope,
            response,
            text,
            usage,
            stream: stream_of(part),
            model,
            bytes,
        })
    }
}

impl ReadChunks for ChunkReader {
    fn read(&mut self, bytes: Bytes) -> Result<Option<ResponseDocument>> {
        if self.has_failed {
            return Ok(None);
        }
        let template = self.template.as_ref();
        if let Some(text) = template.and_then(|template| TextChunk::read(template, &bytes)) {
            return Ok(Some(ResponseDocument::from_text(text)));
        }
        let chunk = open_response(bytes.clone(), self.envelope)?;
        self.has_failed = chunk.has_error()?;
        self.template = self.new_template(bytes, &chunk).map(Arc::new);
        Ok(Some(chunk))
    }
}

fn has_known_fields(envelope: Option<&Document>) -> bool {
    envelope.is_none_or(|envelope| envelope.has_only(ENVELOPE_FIELDS))
}

fn has_known_ratings(candidate: &Document) -> bool {
    let ratings = candidate
        .children(SAFETY_RATINGS)
        .map(Option::unwrap_or_default);
    ratings.is_ok_and(|ratings| ratings.iter().all(|rating| rating.has_only(RATING_FIELDS)))
}

/// Parses a response or a chunk of the model API.
///
/// # Errors
///
/// Fails like [`ResponseDocument::open`], and for fields that hooks would not see.
pub fn open_response(bytes: Bytes, envelope: ResponseEnvelope) -> Result<ResponseDocument> {
    let response = ResponseDocument::open(bytes, envelope)?;
    refuse_private_fields(response.document())?;
    Ok(response)
}

#[cfg(test)]
mod tests;
