//! The bodies that all APIs of this family have in common.

/// Implements the request's end and responses of an API of this family.
macro_rules! google_bodies {
    ($envelope:expr) => {
        fn close_request(
            &self,
            call: &Call,
            envelope: Option<&Document>,
            document: &Document,
        ) -> Result<bytes::Bytes, DialectError> {
            request::close_request(call, envelope, document)
        }

        fn open_response(
            &self,
            body: bytes::Bytes,
        ) -> Result<response::ResponseDocument, DialectError> {
            response::open_response(body, $envelope)
        }

        fn close_response(
            &self,
            response: &response::ResponseDocument,
        ) -> Result<bytes::Bytes, DialectError> {
            Ok(response.to_wire($envelope))
        }

        fn chunk_reader(&self) -> Box<dyn ReadChunks> {
            Box::new(response::ChunkReader::new($envelope))
        }

        fn chunk_writer(&self, framing: Framing) -> Box<dyn WriteChunks> {
            Box::new(response::ChunkWriter::new(framing, $envelope))
        }
    };
}
pub(crate) use google_bodies;
