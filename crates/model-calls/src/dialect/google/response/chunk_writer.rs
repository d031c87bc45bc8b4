//! Writes the chunks of one response.

use std::mem;

use bytes::BytesMut;

use crate::dialect::{
    api_dialect::WriteChunks,
    error::Result,
    google::response::{document::ResponseDocument, envelope::ResponseEnvelope},
    method::Framing,
    sse_event::write_event,
};

/// Writes chunks as server-sent events, or as elements of one JSON array.
#[derive(Debug)]
pub struct ChunkWriter {
    framing: Framing,
    envelope: ResponseEnvelope,
    /// Bytes before the next element of an array.
    separator: &'static [u8],
    out: BytesMut,
}

impl ChunkWriter {
    /// Creates a writer of chunks in such envelopes.
    pub fn new(framing: Framing, envelope: ResponseEnvelope) -> Self {
        Self {
            framing,
            envelope,
            separator: b"[",
            out: BytesMut::new(),
        }
    }

    fn write_one(&mut self, chunk: &ResponseDocument) {
        let json = chunk.to_wire(self.envelope);
        match self.framing {
            Framing::Sse => write_event(&mut self.out, &json),
            Framing::Array => {
                let separator = mem::replace(&mut self.separator, b",\r\n");
                self.out.extend_from_slice(separator);
                self.out.extend_from_slice(&json);
            }
        }
    }
}

impl WriteChunks for ChunkWriter {
    fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    fn write(&mut self, chunk: &ResponseDocument) -> Result<()> {
        // Clients that raise an error do not read the content beside it.
        match chunk.split_error()? {
            Some(chunks) => chunks.iter().for_each(|chunk| self.write_one(chunk)),
            None => self.write_one(chunk),
        }
        Ok(())
    }

    fn write_end(&mut self) -> Result<()> {
        match (self.framing, self.separator) {
            (Framing::Sse, _) => (),
            (Framing::Array, b"[") => self.out.extend_from_slice(b"[]"),
            (Framing::Array, _) => self.out.extend_from_slice(b"]"),
        }
        Ok(())
    }
}
