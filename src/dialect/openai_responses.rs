//! OpenAI Responses API: `POST /responses`.
//!
//! A request is read into the content form that all APIs share, and edits are spliced back
//! into it. A stream is read event by event; what changes is changed in every copy that the
//! stream holds of it.

mod calls;
mod chunk_view;
mod fields;
mod form_fields;
mod marks;
mod methods;
mod preceding;
mod request;
mod response;
mod stream;
mod visible_fields;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use self::{
    chunk_view::ChunkView,
    stream::{EventReader, EventWriter},
};
use crate::{
    dialect::{
        api_dialect::{Dialect, ReadChunks, Unwrapped, WriteChunks},
        call::Call,
        document::Document,
        error::DialectError,
        google::response::document::ResponseDocument,
        method::{Api, Framing, MethodSpec, Operation},
        openai::openai_error,
        openai_responses::fields::{MODEL, field_error},
    },
    model::{ErrorInfo, ModelName},
};

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

    fn versions(&self) -> &'static [&'static str] {
        &["v1"]
    }

    // Agents append a method to their base URL, with or without a version.
    fn default_version(&self) -> Option<&'static str> {
        Some("v1")
    }

    fn parse_request(&self, body: Bytes) -> Result<Document, DialectError> {
        fields::parse(body)
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<Unwrapped, DialectError> {
        call.model = read_model(call, &body)?;
        let document = match call.operation {
            Operation::Embed | Operation::BatchEmbed => {
                let (operation, form) = request::open_texts(&body)?;
                call.operation = operation;
                form
            }
            _ => request::read_request(&body)?,
        };
        if call.operation == Operation::Generate && wants_stream(&body)? {
            call.operation = Operation::Stream(Framing::Sse);
        }
        Ok(Unwrapped {
            document,
            session: body.string(&["prompt_cache_key"])?,
            envelope: Some(body),
        })
    }

    fn close_request(
        &self,
        call: &Call,
        envelope: Option<&Document>,
        document: &Document,
    ) -> Result<Bytes, DialectError> {
        match envelope {
            Some(body) => request::close_request(call, body, document),
            None => Ok(document.to_bytes()),
        }
    }

    fn open_response(&self, body: Bytes) -> Result<ResponseDocument, DialectError> {
        ResponseDocument::from_form(&response::open_response(&body)?, vec![body])
    }

    fn close_response(&self, response: &ResponseDocument) -> Result<Bytes, DialectError> {
        let view = ChunkView::read(response.document())?;
        let original = response.wire().and_then(|wire| wire.events.first());
        response::close_response(original, &view)
    }

    fn chunk_reader(&self) -> Box<dyn ReadChunks> {
        Box::new(EventReader::default())
    }

    fn chunk_writer(&self, _framing: Framing) -> Box<dyn WriteChunks> {
        Box::new(EventWriter::default())
    }

    fn keep_alive(&self) -> &'static [u8] {
        b": keep-alive\n\n"
    }

    // Codex repeats a call after 403, but not after 400.
    fn denial_status(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_body(&self, error: &ErrorInfo) -> Value {
        openai_error(error)
    }
}

fn read_model(call: &Call, body: &Document) -> Result<Option<ModelName>, DialectError> {
    let expected = || field_error("model", "the name of a model");
    match body.string(MODEL)? {
        Some(name) => ModelName::parse(&name).map(Some).ok_or_else(expected),
        None if call.operation == Operation::CountTokens => Ok(None),
        None => Err(expected()),
    }
}

fn wants_stream(body: &Document) -> Result<bool, DialectError> {
    match body.get(&["stream"])? {
        None | Some(Value::Null | Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(_) => Err(field_error("stream", "true or false")),
    }
}
