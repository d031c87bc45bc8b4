//! The [`Dialect`] trait.
//!
//! The rest of hookgate uses one form of requests and responses, that of the Gemini API: the
//! *content form*. A dialect reads it from what an API sends, and splices edits of it back, so
//! that everything else keeps its bytes.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde_json::Value;

use crate::{
    dialect::{
        call::Call,
        content_reference::ContentReference,
        document::{Document, elements, parse_document},
        error::Result,
        google::{error_body::google_error, response::document::ResponseDocument},
        method::{Api, Framing, MethodSpec},
    },
    model::ErrorInfo,
};

/// The differences between model APIs: paths, and the form of requests, responses, streams
/// and errors.
pub trait Dialect: Debug + Send + Sync {
    /// Returns the API that it implements.
    fn api(&self) -> Api;

    /// Returns the API's part of the method table.
    fn methods(&self) -> &'static [MethodSpec];

    /// Returns the versions that a path may begin with.
    fn versions(&self) -> &'static [&'static str] {
        &["v1"]
    }

    /// Returns the version of a path that names none, if a path may do so.
    fn default_version(&self) -> Option<&'static str> {
        None
    }

    /// Parses a request body.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no JSON object, or parsers could disagree about them.
    fn parse_request(&self, body: Bytes) -> Result<Document> {
        parse_document(body)
    }

    /// Reads the content form of a request. Sets the model and the framing of `call` if only
    /// the body names them.
    ///
    /// # Errors
    ///
    /// Fails if the body names no model, or another one than the path, and for fields that
    /// hooks cannot see through.
    fn open_request(&self, call: &mut Call, body: Document) -> Result<OpenedRequest>;

    /// Returns the name that a request body gives its session, if the API has a field for it.
    ///
    /// # Errors
    ///
    /// Fails if the name is no text.
    fn session_in(&self, _body: &Document) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns the body for upstream: `original` with the edits of `form`. Unedited parts
    /// keep their bytes.
    ///
    /// # Errors
    ///
    /// Fails if an edit cannot be written.
    fn close_request(&self, call: &Call, original: &Document, form: &Document) -> Result<Bytes>;

    /// Reads a whole response.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of it.
    fn open_response(&self, body: Bytes) -> Result<ResponseDocument>;

    /// Returns a whole response as the agent receives it.
    ///
    /// # Errors
    ///
    /// Fails if an edit cannot be written.
    fn close_response(&self, response: &ResponseDocument) -> Result<Bytes>;

    /// Returns what a request body refers to of earlier responses.
    ///
    /// # Errors
    ///
    /// Fails if a reference is ambiguous.
    fn request_references(&self, _body: &Document) -> Result<Vec<ContentReference>> {
        Ok(Vec::new())
    }

    /// Returns what a whole response, or one event of it, leaves for later requests to refer
    /// to. What cannot be parsed leaves nothing.
    fn response_references(&self, _data: &Bytes) -> Vec<ContentReference> {
        Vec::new()
    }

    /// Returns the events of a stream that a server sent as one JSON body: the elements of a
    /// list, or else the body itself.
    ///
    /// # Errors
    ///
    /// Fails for JSON that parsers could disagree about.
    fn body_events(&self, body: &Bytes) -> Result<Vec<Bytes>> {
        elements(body)
    }

    /// Returns a reader of one stream.
    fn chunk_reader(&self) -> Box<dyn ReadChunks>;

    /// Returns a writer of one stream.
    fn chunk_writer(&self, framing: Framing) -> Box<dyn WriteChunks>;

    /// Returns what an idle stream is kept alive with. Clients of Google's APIs fail on
    /// comments.
    fn keep_alive(&self) -> &'static [u8] {
        b"\r\n"
    }

    /// Returns the status of a denied call, if the config asks for errors. Agents repeat a call
    /// after some statuses, so it differs by API.
    fn denial_status(&self) -> StatusCode {
        StatusCode::FORBIDDEN
    }

    /// Returns the body of an error.
    fn error_body(&self, error: &ErrorInfo) -> Value {
        google_error(error)
    }
}

/// A request in the content form.
#[derive(Debug)]
pub struct OpenedRequest {
    /// The request in the content form.
    pub form: Document,
    /// The body that it was read from, if that has another form.
    pub original: Option<Document>,
}

impl OpenedRequest {
    /// A request whose body has another form. Its call keeps the difference of their lengths.
    pub fn from_body(call: &mut Call, form: Document, body: Document) -> Self {
        let lengths = [&body, &form].map(|document| document.to_bytes().len());
        let [body_bytes, form_bytes] = lengths.map(usize::cast_signed);
        call.excess_bytes = body_bytes.saturating_sub(form_bytes);
        Self {
            form,
            original: Some(body),
        }
    }
}

/// Reads the chunks of one response.
pub trait ReadChunks: Debug + Send {
    /// Reads the data of one server-sent event. Returns `None` if a later event completes it.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of it.
    fn read(&mut self, data: Bytes) -> Result<Option<ResponseDocument>>;

    /// Reads the terminator of a stream, see [`is_terminator`].
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot end with it.
    fn read_terminator(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends the stream. Returns the last chunk if it was kept.
    ///
    /// # Errors
    ///
    /// Fails if the stream is not complete.
    fn finish(&mut self) -> Result<Option<ResponseDocument>> {
        Ok(None)
    }
}

/// Returns whether the data of an event is the terminator that some clients expect; those of
/// Google's APIs fail on it.
pub fn is_terminator(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

/// Reads all chunks of a stream.
///
/// # Errors
///
/// Fails if hooks could not see all of it, or the stream is not complete.
pub fn read_stream(
    dialect: &dyn Dialect,
    events: impl IntoIterator<Item = Bytes>,
) -> Result<Vec<ResponseDocument>> {
    let mut reader = dialect.chunk_reader();
    let mut chunks = Vec::new();
    for event in events {
        if is_terminator(&event) {
            reader.read_terminator()?;
        } else {
            chunks.extend(reader.read(event)?);
        }
    }
    chunks.extend(reader.finish()?);
    Ok(chunks)
}

/// Writes the chunks of one response for the agent.
pub trait WriteChunks: Debug + Send + Sync {
    /// Bytes that are written and not yet taken.
    fn output(&mut self) -> &mut BytesMut;

    /// Begins an answer of the model, the first one or one that continues the response.
    fn begin_answer(&mut self) {}

    /// Writes a chunk.
    ///
    /// # Errors
    ///
    /// Fails if an edit cannot be written.
    fn write(&mut self, chunk: &ResponseDocument) -> Result<()>;

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// Fails if what is still open cannot be closed.
    fn write_end(&mut self) -> Result<()>;
}
