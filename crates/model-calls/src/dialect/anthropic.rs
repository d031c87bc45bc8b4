//! Anthropic's Messages API.
//!
//! [`request`] reads a body into the content form and splices edits back. [`response`] does the
//! same for messages and for the events of a stream.

mod block_content;
mod block_edit;
mod error_body;
mod fields;
mod media;
mod methods;
mod preceding;
mod request;
mod response;
mod tool_result;
mod tool_use;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    dialect::{
        api_dialect::{Dialect, OpenedRequest, ReadChunks, WriteChunks},
        call::Call,
        content_reference::ContentReference,
        document::Document,
        error::Result,
        google::response::document::ResponseDocument,
        method::{Api, Framing, MethodSpec},
    },
    model::ErrorInfo,
};

/// The Messages API of Anthropic: `/v1/messages`.
#[derive(Debug)]
pub struct Anthropic;

impl Dialect for Anthropic {
    fn api(&self) -> Api {
        Api::Anthropic
    }

    fn methods(&self) -> &'static [MethodSpec] {
        methods::METHODS
    }

    fn parse_request(&self, body: Bytes) -> Result<Document> {
        fields::parse_strict(body)
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<OpenedRequest> {
        let form = request::open_body(call, &body)?;
        Ok(OpenedRequest::from_body(call, form, body))
    }

    fn session_in(&self, body: &Document) -> Result<Option<String>> {
        request::agent_session(body)
    }

    fn close_request(&self, call: &Call, original: &Document, form: &Document) -> Result<Bytes> {
        request::close_body(call, original, form)
    }

    fn open_response(&self, body: Bytes) -> Result<ResponseDocument> {
        response::open_message(body)
    }

    fn close_response(&self, response: &ResponseDocument) -> Result<Bytes> {
        response::close_message(response)
    }

    fn request_references(&self, body: &Document) -> Result<Vec<ContentReference>> {
        request::request_references(body)
    }

    fn response_references(&self, data: &Bytes) -> Vec<ContentReference> {
        request::response_references(data).unwrap_or_default()
    }

    fn body_events(&self, body: &Bytes) -> Result<Vec<Bytes>> {
        response::body_events(body)
    }

    fn chunk_reader(&self) -> Box<dyn ReadChunks> {
        Box::new(response::MessageReader::default())
    }

    fn chunk_writer(&self, _framing: Framing) -> Box<dyn WriteChunks> {
        Box::new(response::MessageWriter::default())
    }

    fn keep_alive(&self) -> &'static [u8] {
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }

    fn error_body(&self, error: &ErrorInfo) -> Value {
        error_body::messages_error(error)
    }
}
