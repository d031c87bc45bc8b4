//! Reads the events of a stream as chunks in the content form.

use std::{collections::HashMap, mem};

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{
            BLOCK, ERROR, EVENT, MODEL, MODEL_VERSION, RESPONSE_ID, TEXT, USAGE_METADATA,
            field_part, type_of,
        },
        preceding::{PrecedingBlocks, append_thinking},
        response::{
            chunk_form::{ChunkEvents, chunk, complete_call, structural, text_end, text_part},
            incoming_block::{IncomingBlock, IncomingCall, IncomingThinking},
            message_event::{CONTENT_BLOCK, DELTA, MESSAGE, MessageEvent, MessageEventKind},
            message_tokens::MessageTokens,
            response_part::read_block,
            stop_reason::finish_reason,
        },
    },
    api_dialect::ReadChunks,
    content_form::TextTemplate,
    document::{Document, insert, to_document},
    error::{DialectError, Result, field_error},
    google::response::{document::ResponseDocument, ending_error::is_error},
    text_edit::{TextEnd, TextStream},
};

/// Maximum size of the events of open calls and of the end, which are collected.
const MAX_COLLECTED_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of open blocks.
const MAX_OPEN_BLOCKS: usize = 256;

/// Reads the events of one stream.
#[derive(Debug, Default)]
pub struct MessageReader {
    open: HashMap<u64, IncomingBlock>,
    /// Indexes of the open blocks with the latest piece of a text and of a thought.
    open_texts: HashMap<TextStream, u64>,
    counts: MessageTokens,
    model: Option<String>,
    preceding: PrecedingBlocks,
    /// Size of the pieces of open calls, and of the events of the end.
    collected_bytes: usize,
    /// Events of the end.
    end: ChunkEvents,
    stop_reason: Option<String>,
    /// True if an error ended the stream. What follows is not read.
    has_failed: bool,
    has_started: bool,
    is_stopped: bool,
    /// The latest event with a text, and the chunk that was made of it.
    template: Option<TextTemplate>,
    template_index: u64,
}

impl ReadChunks for MessageReader {
    fn read(&mut self, data: Bytes) -> Result<Option<ResponseDocument>> {
        if self.has_failed {
            return Ok(None);
        }
        if let Some(chunk) = self.read_alike(&data) {
            return Ok(Some(chunk));
        }
        let event = MessageEvent::read(&data)?;
        let is_of_message = matches!(
            event.kind,
            MessageEventKind::BlockStart
                | MessageEventKind::MessageDelta
                | MessageEventKind::MessageStop
        );
        if is_of_message && !self.has_started {
            return Err(no_message());
        }
        check_fields(&event)?;
        let events = ChunkEvents::new(&event.document, event.document.to_bytes())?;
        match event.kind {
            MessageEventKind::MessageStart => self.read_message(&event, events).map(Some),
            MessageEventKind::BlockStart => self.read_start(&event, events),
            MessageEventKind::BlockDelta => self.read_delta(&event, events),
            MessageEventKind::BlockStop => self.read_stop(&event, events).map(Some),
            MessageEventKind::MessageDelta | MessageEventKind::MessageStop => {
                self.read_end(&event, events)?;
                Ok(None)
            }
            MessageEventKind::Ping => structural(events).map(Some),
            MessageEventKind::Error => {
                self.has_failed = true;
                let mut form = Document::empty();
                let error = event.document.bytes_of(ERROR)?;
                let error = error.filter(|error| is_error(error));
                form.set_bytes(ERROR, error.unwrap_or_else(|| Bytes::from_static(b"{}")))?;
                events.into_chunk(form).map(Some)
            }
            MessageEventKind::Other => chunk(event_part(&event.document)?, 0, events).map(Some),
        }
    }

    fn finish(&mut self) -> Result<Option<ResponseDocument>> {
        if self.has_failed {
            return Ok(None);
        }
        let events = mem::take(&mut self.end);
        if !self.is_stopped || !self.open.is_empty() {
            let message = "the stream ends without the end of the message";
            return Err(DialectError::Json(message.to_owned()));
        }
        let stop = self.stop_reason.as_deref().unwrap_or("end_turn");
        let mut form = json!({
            "candidates": [{ "finishReason": finish_reason(stop), "index": 0 }],
            "usageMetadata": self.counts.to_form(),
        });
        if let Some(model) = &self.model {
            insert(&mut form, "modelVersion", model.as_str());
        }
        events.into_chunk(to_document(&form)?).map(Some)
    }
}

impl MessageReader {
    /// Reads an event that differs from the latest one with a text in its text only.
    fn read_alike(&mut self, data: &Bytes) -> Option<ResponseDocument> {
        let template = self.template.as_ref()?;
        let chunk = template.read(data)?;
        if template.is_thought() {
            let open = self.open.get_mut(&self.template_index)?;
            let IncomingBlock::Thinking(thinking) = open else {
                return None;
            };
            append_thinking(&mut thinking.text, chunk.text());
        }
        Some(ResponseDocument::from_text_event(chunk, data.clone()))
    }

    /// Keeps an event as the template of those that follow, if it holds a text only.
    fn keep_template(&mut self, event: &MessageEvent, field: &str, stream: TextStream) {
        let delta = event.document.child(DELTA).ok().flatten();
        let delta = delta.filter(|delta| {
            delta.has_only(&["type", field]) && event.document.has_only(&["type", "index", "delta"])
        });
        let text = delta.and_then(|delta| delta.bytes_of(&[field]).ok().flatten());
        self.template = text.and_then(|text| {
            TextTemplate::new(&event.document.original_bytes(), &text, stream, event.index)
        });
        self.template_index = event.index;
    }

    fn read_message(
        &mut self,
        event: &MessageEvent,
        events: ChunkEvents,
    ) -> Result<ResponseDocument> {
        let message = event.child(MESSAGE)?;
        let content = message.list(&["content"])?.unwrap_or_default();
        if !content.is_empty() || self.has_started {
            return Err(no_message());
        }
        self.has_started = true;
        self.model = message.string(MODEL)?;
        if let Some(usage) = message.child(&["usage"])? {
            self.counts.update(&usage)?;
        }
        let mut form = Document::empty();
        form.set(USAGE_METADATA, &self.counts.to_form())?;
        for (field, from) in [(MODEL_VERSION, MODEL), (RESPONSE_ID, &["id"])] {
            if let Some(value) = message.string(from)? {
                form.set(field, &json!(value))?;
            }
        }
        events.into_chunk(form)
    }

    fn read_start(
        &mut self,
        event: &MessageEvent,
        events: ChunkEvents,
    ) -> Result<Option<ResponseDocument>> {
        let block = event.child(CONTENT_BLOCK)?;
        let kind = type_of(&block)?;
        if self.open.len() >= MAX_OPEN_BLOCKS || self.open.contains_key(&event.index) {
            return Err(DialectError::Ambiguous("index".to_owned()));
        }
        let mut part = read_block(&block)?;
        let (open, is_shown) = match kind.as_str() {
            "text" => {
                self.preceding.push_text();
                let text = block.string(TEXT)?.unwrap_or_default();
                if !text.is_empty() {
                    self.begin_piece(TextStream::Speech, event.index)?;
                }
                (IncomingBlock::Text, !text.is_empty())
            }
            "thinking" => {
                let text = block.string(&["thinking"])?.unwrap_or_default();
                let is_shown = !text.is_empty();
                if is_shown {
                    self.begin_piece(TextStream::Thought, event.index)?;
                }
                let thinking = IncomingThinking::new(block, text)?;
                (IncomingBlock::Thinking(thinking), is_shown)
            }
            kind if kind.ends_with("tool_use") => {
                let call = IncomingCall {
                    block,
                    json: String::new(),
                    events,
                };
                self.open.insert(event.index, IncomingBlock::Call(call));
                return Ok(None);
            }
            "redacted_thinking" => {
                self.preceding.push(block.to_bytes());
                (IncomingBlock::Other, false)
            }
            _ => {
                if let Some(part) = &mut part {
                    self.preceding.attach(part, &block)?;
                }
                (IncomingBlock::Other, true)
            }
        };
        self.open.insert(event.index, open);
        match part.filter(|_| is_shown) {
            Some(part) => chunk(part, event.index, events).map(Some),
            None => structural(events).map(Some),
        }
    }

    fn read_delta(
        &mut self,
        event: &MessageEvent,
        events: ChunkEvents,
    ) -> Result<Option<ResponseDocument>> {
        let delta = event.child(DELTA)?;
        let kind = type_of(&delta)?;
        let (stream, field) = match kind.as_str() {
            "thinking_delta" => (TextStream::Thought, &["thinking"][..]),
            _ => (TextStream::Speech, TEXT),
        };
        if delta.string(field)?.is_some_and(|text| !text.is_empty()) {
            self.begin_piece(stream, event.index)?;
        }
        let open = self.open.get_mut(&event.index).ok_or_else(not_open)?;
        match (kind.as_str(), open) {
            ("input_json_delta", IncomingBlock::Call(call)) => {
                call.json
                    .push_str(&delta.string(&["partial_json"])?.unwrap_or_default());
                let bytes = events.bytes();
                call.events.append(events);
                self.count_collected(bytes)?;
                Ok(None)
            }
            ("signature_delta", IncomingBlock::Thinking(thinking)) => {
                if !thinking.sign(&delta)? {
                    return structural(events).map(Some);
                }
                self.template = None;
                text_end(events, TextEnd::Certain).map(Some)
            }
            ("text_delta", _) => {
                let part = text_part(&delta, "text")?;
                self.keep_template(event, "text", TextStream::Speech);
                chunk(part, event.index, events).map(Some)
            }
            ("thinking_delta", open) => {
                let mut part = text_part(&delta, "thinking")?;
                part.set(&["thought"], &json!(true))?;
                if let IncomingBlock::Thinking(thinking) = open
                    && thinking.add(&part.string(TEXT)?.unwrap_or_default())?
                {
                    self.keep_template(event, "thinking", TextStream::Thought);
                }
                chunk(part, event.index, events).map(Some)
            }
            (_, IncomingBlock::Call(_)) => Err(field_error("delta", "a piece of JSON in a call")),
            ("input_json_delta", IncomingBlock::Text | IncomingBlock::Thinking(_)) => {
                Err(field_error("delta", "a piece of the text of its block"))
            }
            _ => chunk(event_part(&delta)?, event.index, events).map(Some),
        }
    }

    /// Begins a piece of a text. The texts of two open blocks would be read as one.
    fn begin_piece(&mut self, stream: TextStream, index: u64) -> Result<()> {
        if *self.open_texts.entry(stream).or_insert(index) == index {
            return Ok(());
        }
        Err(DialectError::Ambiguous("index".to_owned()))
    }

    fn read_stop(&mut self, event: &MessageEvent, events: ChunkEvents) -> Result<ResponseDocument> {
        if self.template_index == event.index {
            self.template = None;
        }
        self.open_texts.retain(|_, index| *index != event.index);
        match self.open.remove(&event.index).ok_or_else(not_open)? {
            IncomingBlock::Call(mut call) => {
                let bytes: usize = call.events.data.iter().skip(1).map(Bytes::len).sum();
                self.collected_bytes = self.collected_bytes.saturating_sub(bytes);
                call.events.append(events);
                let mut part = complete_call(call.block.clone(), &call.json)?;
                self.preceding.attach(&mut part, &call.block)?;
                chunk(part, event.index, call.events)
            }
            IncomingBlock::Thinking(thinking) => {
                self.preceding.push(thinking.into_block()?);
                // What is moved to another block does not fit the signature.
                text_end(events, TextEnd::Certain)
            }
            IncomingBlock::Text => text_end(events, TextEnd::Possible),
            IncomingBlock::Other => structural(events),
        }
    }

    fn read_end(&mut self, event: &MessageEvent, events: ChunkEvents) -> Result<()> {
        let delta = event.child(DELTA)?;
        if let Some(stop) = delta.string(&["stop_reason"])? {
            self.stop_reason = Some(stop);
        }
        if let Some(usage) = event.document.child(&["usage"])? {
            self.counts.update(&usage)?;
        }
        self.is_stopped |= event.kind == MessageEventKind::MessageStop;
        let bytes = events.bytes();
        self.end.append(events);
        self.count_collected(bytes)
    }

    fn count_collected(&mut self, bytes: usize) -> Result<()> {
        self.collected_bytes += bytes;
        if self.collected_bytes > MAX_COLLECTED_BYTES {
            let message = format!("calls and end are larger than {MAX_COLLECTED_BYTES} bytes");
            return Err(DialectError::Json(message));
        }
        Ok(())
    }
}

/// Returns the part of an event, or of a piece of a block, that hookgate does not interpret.
fn event_part(event: &Document) -> Result<Document> {
    let mut part = field_part(BLOCK, event.to_bytes())?;
    part.set(EVENT, &json!(true))?;
    Ok(part)
}

/// Returns the error about an event of a block that is not open. Readers put its text into
/// different blocks, or drop it.
fn not_open() -> DialectError {
    DialectError::Ambiguous("index".to_owned())
}

fn no_message() -> DialectError {
    field_error("message_start", "the first event, without content")
}

/// Checks that an event has texts only in the field that its type has them in: hooks see no
/// other.
fn check_fields(event: &MessageEvent) -> Result<()> {
    let own = match event.kind {
        MessageEventKind::MessageStart => MESSAGE,
        MessageEventKind::BlockStart => CONTENT_BLOCK,
        MessageEventKind::BlockDelta | MessageEventKind::MessageDelta => DELTA,
        MessageEventKind::Other => return Ok(()),
        MessageEventKind::BlockStop
        | MessageEventKind::MessageStop
        | MessageEventKind::Ping
        | MessageEventKind::Error => &[],
    };
    let others = [MESSAGE, CONTENT_BLOCK, DELTA];
    let mut others = others.into_iter().filter(|field| *field != own);
    match others.find(|field| event.document.has(field)) {
        Some(field) => Err(DialectError::Ambiguous(field.concat())),
        None => Ok(()),
    }
}
