//! OpenAI's Chat Completions API, as OpenAI and many compatible servers have it.
//!
//! Requests and answers are read into the content form, and edits are spliced back: [`request`],
//! [`response`] for whole answers, [`stream`] for events.

mod block;
mod fields;
mod message_parts;
mod request;
mod response;
mod stream;
mod tool_call;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::{
    dialect::{
        api_dialect::{Dialect, OpenedRequest, ReadChunks, WriteChunks},
        call::Call,
        document::Document,
        error::Result,
        google::response::document::ResponseDocument,
        method::{
            Access::{ByName, Open},
            Api, Framing, MethodSpec,
            Operation::{Generate, Other},
            method_table,
        },
        openai::{DENIAL_STATUS, KEEP_ALIVE, openai_error, request_fields::session_in},
    },
    model::ErrorInfo,
};

#[derive(Debug)]
pub struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn api(&self) -> Api {
        Api::OpenAiChat
    }

    fn methods(&self) -> &'static [MethodSpec] {
        METHODS
    }

    fn default_version(&self) -> Option<&'static str> {
        Some("v1")
    }

    fn parse_request(&self, body: Bytes) -> Result<Document> {
        fields::parse(body)
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<OpenedRequest> {
        request::open_request(call, body)
    }

    fn session_in(&self, body: &Document) -> Result<Option<String>> {
        session_in(body)
    }

    fn close_request(&self, call: &Call, original: &Document, form: &Document) -> Result<Bytes> {
        request::close_request(call, original, form)
    }

    fn open_response(&self, body: Bytes) -> Result<ResponseDocument> {
        let document = fields::parse(body.clone())?;
        let form = response::whole_answer::read_whole(&document)?;
        ResponseDocument::from_form(&form, vec![body])
    }

    fn close_response(&self, response: &ResponseDocument) -> Result<Bytes> {
        let after = Document::from_checked(response.to_bytes())?;
        let wire = response.original_events().and_then(|events| events.first());
        let Some(body) = wire else {
            return response::synthetic::synthetic_body(&after, response.merged_end());
        };
        if !response.is_edited() {
            return Ok(body.clone());
        }
        let before = Document::from_checked(response.original_bytes())?;
        response::whole_answer::close_whole(body.clone(), &before, &after)
    }

    fn chunk_reader(&self) -> Box<dyn ReadChunks> {
        Box::new(stream::reader::ChatChunkReader::default())
    }

    fn chunk_writer(&self, _framing: Framing) -> Box<dyn WriteChunks> {
        Box::new(stream::writer::ChatChunkWriter::default())
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

method_table! { OpenAiChat:
    POST "/{version}/chat/completions" "chat.completions.create" Generate, Open;
    GET "/{version}/chat/completions" "chat.completions.list" Other, ByName;
    GET "/{version}/chat/completions/{completion}" "chat.completions.retrieve" Other, ByName;
    POST "/{version}/chat/completions/{completion}" "chat.completions.update" Other, ByName;
    DELETE "/{version}/chat/completions/{completion}" "chat.completions.delete" Other, ByName;
    GET "/{version}/chat/completions/{completion}/messages" "chat.completions.messages.list" Other, ByName;
}
