//! OpenAI Responses API: `POST /responses`.
//!
//! A request is read into the content form that all APIs share, and edits are spliced back
//! into it. A stream is read event by event; what changes is changed in every copy that the
//! stream holds of it.

mod calls;
mod chunk_view;
mod fields;
mod hosted_shell;
mod methods;
mod preceding;
mod references;
mod request;
mod response;
mod stream;
mod visible_fields;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

pub use self::hosted_shell::{may_have_hosted_shell, refuse_hosted_shell};
use self::{
    chunk_view::ChunkView,
    stream::{EventReader, EventWriter},
};
use crate::{
    dialect::{
        api_dialect::{Dialect, OpenedRequest, ReadChunks, WriteChunks},
        call::Call,
        content_reference::ContentReference,
        document::{Document, check_length},
        error::Result,
        google::response::document::ResponseDocument,
        method::{Api, Framing, MethodSpec, Operation},
        openai::{
            DENIAL_STATUS, KEEP_ALIVE, openai_error,
            request_fields::{no_model, read_model, session_in},
        },
    },
    model::ErrorInfo,
};

/// Method that chooses a model for requests that name none.
const MODERATIONS: &str = "moderations.create";

/// The Responses API, and the methods of OpenAI's API that are no conversation.
#[derive(Debug)]
pub struct OpenAiResponses;

impl Dialect for OpenAiResponses {
    fn api(&self) -> Api {
        Api::OpenAiResponses
    }

    fn methods(&self) -> &'static [MethodSpec] {
        methods::METHODS
    }

    // Agents append a method to their base URL, with or without a version.
    fn default_version(&self) -> Option<&'static str> {
        Some("v1")
    }

    fn parse_request(&self, body: Bytes) -> Result<Document> {
        fields::parse(body)
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<OpenedRequest> {
        call.model = read_model(&body)?;
        let has_default = call.method.name == MODERATIONS;
        if call.model.is_none() && call.operation != Operation::CountTokens && !has_default {
            return Err(no_model());
        }
        let document = match call.operation {
            Operation::Embed | Operation::BatchEmbed => {
                let (operation, form) = request::open_texts(&body)?;
                call.operation = operation;
                form
            }
            _ => {
                check_length(&body, fields::INPUT, 3)?;
                request::refuse_references(&body, call.allowed_fields)?;
                request::read_content_form(&body)?
            }
        };
        call.read_stream(&body)?;
        Ok(OpenedRequest::from_body(call, document, body))
    }

    fn session_in(&self, body: &Document) -> Result<Option<String>> {
        session_in(body)
    }

    fn close_request(&self, call: &Call, original: &Document, form: &Document) -> Result<Bytes> {
        request::close_request(call, original, form)
    }

    fn open_response(&self, body: Bytes) -> Result<ResponseDocument> {
        ResponseDocument::from_form(&response::open_response(&body)?, vec![body])
    }

    fn close_response(&self, response: &ResponseDocument) -> Result<Bytes> {
        let view = ChunkView::of(response)?;
        let original = response.original_events().and_then(|events| events.first());
        response::close_response(original, &view)
    }

    fn request_references(&self, body: &Document) -> Result<Vec<ContentReference>> {
        references::of_request(body)
    }

    fn response_references(&self, data: &Bytes) -> Vec<ContentReference> {
        references::of_response(data).unwrap_or_default()
    }

    fn body_events(&self, body: &Bytes) -> Result<Vec<Bytes>> {
        stream::body_events(body)
    }

    fn chunk_reader(&self) -> Box<dyn ReadChunks> {
        Box::new(EventReader::default())
    }

    fn chunk_writer(&self, _framing: Framing) -> Box<dyn WriteChunks> {
        Box::new(EventWriter::default())
    }

    fn keep_alive(&self) -> &'static [u8] {
        KEEP_ALIVE
    }

    fn denial_status(&self) -> StatusCode {
        DENIAL_STATUS
    }

    fn error_body(&self, error: &ErrorInfo) -> Value {
        openai_error(error)
    }
}
