//! Reads events as chunks of the content form.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Value, json};
use strict_json::unquote;

use crate::dialect::{
    api_dialect::ReadChunks,
    content_form::SOURCE,
    document::Document,
    error::{DialectError, field_error},
    google::response::document::ResponseDocument,
    openai_responses::{
        fields::{ID, MODEL, OUTPUT},
        response::{
            item::{ItemSlot, OutputKind, has_refusal, item_parts, item_parts_with},
            object::finish_reason,
            usage::read_usage,
        },
        stream::{
            event::{DELTA, DONE, EventClass, RESPONSE, StreamEvent},
            piece::ReadPiece,
            texts::StreamedTexts,
        },
    },
};

/// Maximum number of bytes of the items whose events are collected.
const MAX_COLLECTED_BYTES: usize = 64 << 20;

/// Maximum number of items in one response.
const MAX_ITEMS: usize = 4096;

/// A chunk of the content form, and the events that it was read from.
#[derive(Debug)]
pub struct EventChunk {
    /// The chunk in the content form.
    pub form: Value,
    /// Data of its events.
    pub wire: Vec<Bytes>,
    /// Whether a text ends with the chunk.
    pub ends_text: bool,
}

/// Reads the events of one response.
#[derive(Debug, Default)]
pub struct EventReader {
    texts: StreamedTexts,
    /// Events of items that become one chunk each, by output index.
    collected: BTreeMap<u64, Vec<Bytes>>,
    collected_bytes: usize,
    /// Output indexes of all items so far.
    seen: BTreeSet<u64>,
    has_refusal: bool,
    /// The latest event with a piece of a text.
    alike: Option<ReadPiece>,
    /// Reasoning items that belong to the next item.
    reasoning: Vec<Document>,
    /// The event that ends the stream, and what follows it.
    end: Vec<Bytes>,
    end_event: Option<StreamEvent>,
}

impl EventReader {
    /// Reads the data of an event. Returns `None` if it is kept until a later event
    /// completes it.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of the event.
    pub fn read_event(&mut self, data: Bytes) -> Result<Option<EventChunk>, DialectError> {
        if data.trim_ascii() == DONE {
            self.end.push(data);
            return Ok(None);
        }
        let event = StreamEvent::parse(data.clone())?;
        if matches!(event.class, EventClass::Ended | EventClass::Failed) {
            self.end.push(data);
            self.end_event = Some(event);
            return Ok(None);
        }
        let index = event.output_index()?;
        if event.class == EventClass::ItemAdded {
            return self.begin_item(&event, data);
        }
        // Arguments of a call are collected even if its beginning was not sent.
        let is_of_call = event.class == EventClass::Delta && event.name.contains("_call");
        if let Some(index) = index.filter(|index| is_of_call || self.collected.contains_key(index))
        {
            self.collect(index, data)?;
            return match event.class {
                EventClass::ItemDone => self.end_item(&event).map(Some),
                _ => Ok(None),
            };
        }
        match event.class {
            EventClass::Created => {
                self.restart();
                created_chunk(&event, data).map(Some)
            }
            EventClass::Delta => self.read_delta(&event, data).map(Some),
            EventClass::ItemDone if !OutputKind::of(&event.item()?)?.is_streamed() => {
                self.collected.insert(index.unwrap_or(0), vec![data]);
                self.end_item(&event).map(Some)
            }
            _ => self.read_copies(&event, data).map(Some),
        }
    }

    /// Forgets the items of a response that is followed by another one.
    fn restart(&mut self) {
        self.texts.clear();
        self.seen.clear();
        self.reasoning.clear();
    }

    /// Keeps an event until its item is complete.
    fn collect(&mut self, index: u64, data: Bytes) -> Result<(), DialectError> {
        self.collected_bytes += data.len();
        self.collected.entry(index).or_default().push(data);
        if self.collected_bytes > MAX_COLLECTED_BYTES {
            return Err(DialectError::Json("the response is too long".to_owned()));
        }
        Ok(())
    }

    /// Ends the stream. Returns the last chunk, with finish reason and token counts.
    ///
    /// # Errors
    ///
    /// Fails if the stream has no end: it must not look complete.
    pub fn end(&mut self) -> Result<EventChunk, DialectError> {
        let Some(event) = self.end_event.take().filter(|_| self.collected.is_empty()) else {
            return Err(field_error(
                "response.completed",
                "sent before the stream ends",
            ));
        };
        let wire = std::mem::take(&mut self.end);
        let response = event.document.child(RESPONSE)?;
        let response = response.unwrap_or_else(Document::empty);
        let parts = unseen_parts(&response, &self.seen)?;
        let is_failure = event.class == EventClass::Failed;
        let reason = match finish_reason(&response)? {
            _ if is_failure => "OTHER",
            Some("STOP") if self.has_refusal => "SAFETY",
            reason => reason.unwrap_or("OTHER"),
        };
        let mut form = json!({ "candidates": [{ "index": 0, "finishReason": reason }] });
        if let (false, Some(candidate)) = (parts.is_empty(), form.pointer_mut("/candidates/0")) {
            let content = json!({ "role": "model", "parts": parts });
            insert(candidate, "content", content);
        }
        if let Some(usage) = response.child(&["usage"])? {
            insert(&mut form, "usageMetadata", read_usage(&usage)?);
        }
        if let Some(model) = response.string(MODEL)? {
            insert(&mut form, "modelVersion", model.into());
        }
        Ok(EventChunk {
            form,
            wire,
            ends_text: true,
        })
    }

    /// Reads an event that differs in its piece only from the latest one.
    fn read_alike(&mut self, data: &Bytes) -> Result<Option<ResponseDocument>, DialectError> {
        let alike = self.alike.as_ref();
        let Some((alike, (chunk, text))) =
            alike.and_then(|alike| Some((alike, alike.template.read(data)?)))
        else {
            return Ok(None);
        };
        let piece = unquote(&text).unwrap_or_default();
        self.texts.append(alike.item, alike.slot, &piece)?;
        Ok(Some(chunk))
    }

    fn note_item(&mut self, index: u64) -> Result<(), DialectError> {
        self.seen.insert(index);
        if self.seen.len() > MAX_ITEMS {
            return Err(DialectError::Json(
                "the response has too many items".to_owned(),
            ));
        }
        Ok(())
    }

    fn begin_item(
        &mut self,
        event: &StreamEvent,
        data: Bytes,
    ) -> Result<Option<EventChunk>, DialectError> {
        let Some(index) = event.output_index()? else {
            return Err(field_error("output_index", "the index of an item"));
        };
        self.note_item(index)?;
        if OutputKind::of(&event.item()?)?.is_streamed() {
            return self.read_copies(event, data).map(Some);
        }
        self.collected_bytes += data.len();
        self.collected.insert(index, vec![data]);
        Ok(None)
    }

    /// Returns the chunk of a collected item.
    fn end_item(&mut self, event: &StreamEvent) -> Result<EventChunk, DialectError> {
        let index = event.output_index()?.unwrap_or(0);
        self.note_item(index)?;
        let wire = self.collected.remove(&index).unwrap_or_default();
        let bytes: usize = wire.iter().map(Bytes::len).sum();
        self.collected_bytes = self.collected_bytes.saturating_sub(bytes);
        let item = event.item()?;
        check_pieces(&item, &wire)?;
        let parts = item_parts_with(&self.reasoning, &item)?;
        let parts = numbered(parts.into_iter().map(|(_, part)| part));
        self.reasoning.clear();
        Ok(EventChunk {
            form: chunk_of(&parts),
            wire,
            ends_text: false,
        })
    }

    fn read_delta(&mut self, event: &StreamEvent, data: Bytes) -> Result<EventChunk, DialectError> {
        let piece = event.document.string(DELTA)?.unwrap_or_default();
        let index = event.output_index()?.unwrap_or(0);
        self.note_item(index)?;
        self.texts.append(index, event.slot()?, &piece)?;
        self.has_refusal |= event.name == "response.refusal.delta";
        self.alike = ReadPiece::new(event, index, event.slot()?);
        let mut part = json!({ "text": piece, SOURCE: 0 });
        if event.is_thought() {
            insert(&mut part, "thought", true.into());
        }
        Ok(EventChunk {
            form: chunk_of(&[part]),
            wire: vec![data],
            ends_text: false,
        })
    }

    /// Reads an event that repeats texts, or holds none. Texts that no earlier event held
    /// are parts of the chunk; their sources are their positions in the event.
    fn read_copies(
        &mut self,
        event: &StreamEvent,
        data: Bytes,
    ) -> Result<EventChunk, DialectError> {
        let index = event.output_index()?.unwrap_or(0);
        let mut is_thought = event.is_thought();
        if event.class == EventClass::ItemDone {
            let item = event.item()?;
            self.note_item(index)?;
            self.has_refusal |= has_refusal(&item)?;
            is_thought = OutputKind::of(&item)? == OutputKind::Reasoning;
            if is_thought {
                self.reasoning.push(item);
            } else {
                self.reasoning.clear();
            }
        }
        let mut parts = Vec::new();
        for (number, (slot, text)) in event.complete_texts()?.into_iter().enumerate() {
            if let Some(new) = self.texts.complete(index, slot, &text)? {
                let mut part = json!({ "text": new, SOURCE: number });
                if is_thought || matches!(slot, ItemSlot::Summary(_)) {
                    insert(&mut part, "thought", true.into());
                }
                parts.push(part);
            }
        }
        let form = match (parts.is_empty(), event.ends_text()) {
            (true, false) => json!({}),
            // Policies release a text into the candidate whose text ends.
            (true, true) => json!({ "candidates": [{ "index": 0 }] }),
            (false, _) => chunk_of(&parts),
        };
        Ok(EventChunk {
            form,
            wire: vec![data],
            ends_text: event.ends_text(),
        })
    }
}

impl EventChunk {
    fn into_document(self) -> Result<ResponseDocument, DialectError> {
        let document = ResponseDocument::from_form(&self.form, self.wire)?;
        Ok(if self.ends_text {
            document.ending_text()
        } else {
            document
        })
    }
}

impl ReadChunks for EventReader {
    fn read(&mut self, data: Bytes) -> Result<Option<ResponseDocument>, DialectError> {
        if let Some(chunk) = self.read_alike(&data)? {
            return Ok(Some(chunk));
        }
        let chunk = self.read_event(data)?;
        chunk.map(EventChunk::into_document).transpose()
    }

    fn finish(&mut self) -> Result<Option<ResponseDocument>, DialectError> {
        self.end()?.into_document().map(Some)
    }
}

/// Checks that the pieces of a call agree with the complete item, since agents may read
/// either.
fn check_pieces(item: &Document, wire: &[Bytes]) -> Result<(), DialectError> {
    let OutputKind::Call(_) = OutputKind::of(item)? else {
        return Ok(());
    };
    let mut joined: Option<String> = None;
    let mut complete = None;
    for data in wire {
        let event = StreamEvent::parse(data.clone())?;
        let document = &event.document;
        match event.name.as_str() {
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let piece = document.string(DELTA)?.unwrap_or_default();
                joined.get_or_insert_default().push_str(&piece);
            }
            "response.function_call_arguments.done" => {
                complete = document.string(&["arguments"])?;
            }
            "response.custom_tool_call_input.done" => complete = document.string(&["input"])?,
            _ => (),
        }
    }
    let arguments = match item.string(&["type"])?.as_deref() {
        Some("custom_tool_call") => item.string(&["input"])?,
        Some("function_call") => item.string(&["arguments"])?,
        Some(_) | None => return Ok(()),
    };
    let mut copies = [joined, complete].into_iter().flatten();
    if copies.any(|copy| Some(&copy) != arguments.as_ref()) {
        return Err(DialectError::Ambiguous("arguments".to_owned()));
    }
    Ok(())
}

/// Returns the parts of items that the last event holds and no event before it. Their
/// sources are their positions among the parts of all its items.
fn unseen_parts(response: &Document, seen: &BTreeSet<u64>) -> Result<Vec<Value>, DialectError> {
    let (mut parts, mut number) = (Vec::new(), 0);
    for (index, item) in (0_u64..).zip(response.children(OUTPUT)?.unwrap_or_default()) {
        for (_, mut part) in item_parts(&item)? {
            insert(&mut part, SOURCE, number.into());
            number += 1;
            if !seen.contains(&index) {
                parts.push(part);
            }
        }
    }
    Ok(parts)
}

fn numbered(parts: impl Iterator<Item = Value>) -> Vec<Value> {
    let numbered = parts.enumerate().map(|(number, mut part)| {
        insert(&mut part, SOURCE, number.into());
        part
    });
    numbered.collect()
}

fn created_chunk(event: &StreamEvent, data: Bytes) -> Result<EventChunk, DialectError> {
    let mut form = json!({});
    if let Some(response) = event.document.child(RESPONSE)? {
        for (key, field) in [("modelVersion", MODEL), ("responseId", ID)] {
            if let Some(value) = response.string(field)? {
                insert(&mut form, key, value.into());
            }
        }
    }
    Ok(EventChunk {
        form,
        wire: vec![data],
        ends_text: false,
    })
}

fn chunk_of(parts: &[Value]) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "index": 0, "content": content }] })
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}
