//! Events of a stream.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::fields::{ERROR, TYPE, parse_strict, type_of},
    document::{Document, integer, to_document},
    error::{Result, field_error},
    google::response::ending_error::is_error,
    sse_event::{check_event_name, write_named_event},
};

/// Name of events with a piece of a block.
pub const BLOCK_DELTA: &str = "content_block_delta";
pub const DELTA: &[&str] = &["delta"];
pub const CONTENT_BLOCK: &[&str] = &["content_block"];
pub const MESSAGE: &[&str] = &["message"];
const INDEX: &[&str] = &["index"];

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageEventKind {
    MessageStart,
    BlockStart,
    BlockDelta,
    BlockStop,
    MessageDelta,
    MessageStop,
    Ping,
    Error,
    /// A kind that is unknown to hookgate.
    Other,
}

/// One event of a stream.
#[derive(Debug)]
pub struct MessageEvent {
    pub kind: MessageEventKind,
    /// Index of its block; zero for events without one.
    pub index: u64,
    pub document: Document,
    name: String,
}

impl MessageEvent {
    /// Parses the data of an event.
    ///
    /// # Errors
    ///
    /// Fails if parsers could disagree about it, if its type cannot be the name of an event, for a
    /// whole message, and if an event of a block has no index.
    pub fn read(data: &Bytes) -> Result<Self> {
        let document = with_error_type(parse_strict(data.clone())?)?;
        let name = type_of(&document)?;
        check_event_name(&name)?;
        let kind = match name.as_str() {
            "message_start" => MessageEventKind::MessageStart,
            "content_block_start" => MessageEventKind::BlockStart,
            BLOCK_DELTA => MessageEventKind::BlockDelta,
            "content_block_stop" => MessageEventKind::BlockStop,
            "message_delta" => MessageEventKind::MessageDelta,
            "message_stop" => MessageEventKind::MessageStop,
            "ping" => MessageEventKind::Ping,
            "error" => MessageEventKind::Error,
            // A whole message: hooks would not see its content.
            "message" => return Err(field_error("type", "an event of a stream")),
            _ => MessageEventKind::Other,
        };
        let index = integer(&document, INDEX)?;
        let needs_index = matches!(
            kind,
            MessageEventKind::BlockStart
                | MessageEventKind::BlockDelta
                | MessageEventKind::BlockStop
        );
        if needs_index && index.is_none() {
            return Err(field_error("index", "the number of a block"));
        }
        Ok(Self {
            kind,
            index: index.unwrap_or_default(),
            document,
            name,
        })
    }

    /// Creates a synthetic event.
    pub fn from_json(event: &Value) -> Result<Self> {
        Self::read(&event.to_string().into())
    }

    /// Creates the start of a text block.
    pub fn text_start(index: u64) -> Result<Self> {
        Self::from_json(&json!({
            "type": "content_block_start",
            "index": index,
            "content_block": { "type": "text", "text": "" },
        }))
    }

    /// Creates a piece of a text block, of a thinking block or of the input of a call.
    pub fn block_delta(index: u64, kind: &str, text: &str) -> Result<Self> {
        let field = match kind {
            "input_json_delta" => "partial_json",
            "thinking_delta" => "thinking",
            _ => "text",
        };
        Self::from_json(&json!({
            "type": "content_block_delta",
            "index": index,
            "delta": { "type": kind, field: text },
        }))
    }

    /// Creates the end of a block.
    pub fn block_stop(index: u64) -> Result<Self> {
        Self::from_json(&json!({ "type": "content_block_stop", "index": index }))
    }

    /// Returns the object in a field; an empty one if it is absent.
    pub fn child(&self, field: &[&str]) -> Result<Document> {
        Ok(self.document.child(field)?.unwrap_or_default())
    }

    /// Returns whether it is a citation in a text block.
    pub fn is_citation(&self) -> Result<bool> {
        Ok(self.kind == MessageEventKind::BlockDelta
            && self.child(DELTA)?.string(&["type"])?.as_deref() == Some("citations_delta"))
    }

    /// Changes the index of the block.
    pub fn set_index(&mut self, index: u64) -> Result<()> {
        if self.index != index {
            self.index = index;
            self.document.set(INDEX, &json!(index))?;
        }
        Ok(())
    }

    /// Writes the event with its name.
    pub fn write(&self, out: &mut BytesMut) {
        write_named_event(out, &self.name, &self.document.to_bytes());
    }
}

/// Returns the event of an error in the form of the API. Of some servers, such as llama.cpp, its
/// type is that of the error, or absent.
fn with_error_type(event: Document) -> Result<Document> {
    let error = match event.string(TYPE)? {
        Some(named) if named.ends_with("_error") => Some(event.to_bytes()),
        Some(_) => None,
        None => event.bytes_of(ERROR)?.filter(|error| is_error(error)),
    };
    let Some(error) = error else {
        return Ok(event);
    };
    let mut written = to_document(&json!({ "type": "error" }))?;
    written.set_bytes(ERROR, error)?;
    Ok(written)
}
