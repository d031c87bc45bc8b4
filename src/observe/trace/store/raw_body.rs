//! Bodies of a call in flight, before they are masked.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use stream_redact::Mask;

use crate::observe::trace::store::masking::{MaskedBody, mask_body};

/// The body of a request, or its size alone.
#[derive(Debug)]
pub(crate) struct RawRequest {
    /// The body; `None` if it is too large, or there is no memory for it.
    body: Option<Bytes>,
    /// Size of the body in bytes.
    bytes: usize,
}

/// Chunks of an answer.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    /// The chunks; `None` once they are too large, or there is no memory for them.
    chunks: Option<Vec<Bytes>>,
    /// Size of all chunks.
    pub(crate) bytes: usize,
    /// Hash of all chunks.
    hash: DefaultHasher,
}

impl RawRequest {
    pub(crate) const fn new(bytes: usize, kept: Option<Bytes>) -> Self {
        Self { body: kept, bytes }
    }

    /// Returns whether this body is kept.
    pub(crate) fn keeps(&self, body: &Bytes) -> bool {
        self.body.as_ref() == Some(body)
    }

    pub(crate) fn masked(&self, mask: Option<&Mask>) -> MaskedBody {
        match &self.body {
            Some(body) => mask_body(mask, body),
            None => MaskedBody::omitted(self.bytes),
        }
    }
}

impl Default for RawAnswer {
    fn default() -> Self {
        Self {
            chunks: Some(Vec::new()),
            bytes: 0,
            hash: DefaultHasher::new(),
        }
    }
}

impl RawAnswer {
    /// Adds a chunk, and drops all of them if it is not kept.
    pub(crate) fn add(&mut self, chunk: &Bytes, kept: Option<Bytes>) {
        self.bytes += chunk.len();
        chunk.hash(&mut self.hash);
        match (&mut self.chunks, kept) {
            (Some(chunks), Some(kept)) => chunks.push(kept),
            (chunks, _) => *chunks = None,
        }
    }

    /// Returns the number of chunks that are kept.
    pub(crate) fn kept_chunks(&self) -> usize {
        self.chunks.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether the chunks differ, kept or not.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        self.hash.finish() != other.hash.finish()
    }

    /// Masks the chunks as one JSON array.
    pub(crate) fn masked(&self, mask: Option<&Mask>) -> MaskedBody {
        match &self.chunks {
            Some(chunks) => mask_body(mask, &join_array(chunks)),
            None => MaskedBody::omitted(self.bytes),
        }
    }
}

/// Joins chunks into one JSON array.
fn join_array(bodies: &[Bytes]) -> Vec<u8> {
    let mut joined = vec![b'['];
    joined.extend(bodies.join(&b','));
    joined.push(b']');
    joined
}
