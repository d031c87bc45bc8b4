//! Writes a stream's chunks in the framing that the agent asked for.

use bytes::{Bytes, BytesMut};

use crate::{dialect::Framing, upstream::sse};

/// Encodes chunks as server-sent events, or as elements of one JSON array.
#[derive(Debug)]
pub(super) struct StreamEncoder {
    pub(super) framing: Framing,
    /// Bytes before the next element of an array.
    separator: &'static [u8],
}

impl StreamEncoder {
    pub(super) const fn new(framing: Framing) -> Self {
        let separator = b"[";
        Self { framing, separator }
    }

    /// Encodes a stream of one chunk.
    pub(super) fn encode_single(framing: Framing, json: &[u8]) -> Bytes {
        let mut encoder = Self::new(framing);
        let mut out = BytesMut::new();
        encoder.write(&mut out, json);
        encoder.write_end(&mut out);
        out.freeze()
    }

    pub(super) fn write(&mut self, out: &mut BytesMut, json: &[u8]) {
        match self.framing {
            Framing::Sse => sse::write_event(out, json),
            Framing::Array => {
                let separator = std::mem::replace(&mut self.separator, b",\r\n");
                out.extend_from_slice(separator);
                out.extend_from_slice(json);
            }
        }
    }

    pub(super) fn write_end(&self, out: &mut BytesMut) {
        match (self.framing, self.separator) {
            (Framing::Sse, _) => (),
            (Framing::Array, b"[") => out.extend_from_slice(b"[]"),
            (Framing::Array, _) => out.extend_from_slice(b"]"),
        }
    }
}

/// Returns the media type of a stream.
pub(super) const fn media_type(framing: Framing) -> &'static str {
    match framing {
        Framing::Sse => "text/event-stream",
        Framing::Array => "application/json; charset=UTF-8",
    }
}
