//! Reads events as chunks of the content form.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    api_dialect::ReadChunks,
    content_form::{AnswerLabels, IS_REFUSAL, numbered, with_source},
    document::{Document, insert},
    error::{DialectError, Result, field_error},
    google::{fields::HAS_MEDIA, response::document::ResponseDocument},
    openai_responses::{
        fields::{MODEL, OUTPUT, OUTPUT_TEXT, USAGE},
        response::{
            form::read_envelope,
            item::{CompleteText, ItemSlot, OutputKind, item_parts_with},
            object::{COUNTS, finish_reason},
        },
        stream::{
            event::{DELTA, EventClass, REFUSAL_DELTA, RESPONSE, SOUND_DELTA, StreamEvent},
            event_labels::{check_blocks, visit_event},
            item_agreement::check_pieces,
            item_places::ItemPlaces,
            last_event::{error_of, repeated, unseen_parts},
            read_items::ReadItems,
            text_piece::ReadPiece,
            texts::StreamedTexts,
            unindexed_text::unindexed_part,
        },
    },
    text_edit::{TextEnd, TextStream},
};

/// Maximum number of bytes of the items whose events are collected.
const MAX_COLLECTED_BYTES: usize = 64 << 20;

/// Reads the events of one response.
#[derive(Debug, Default)]
pub struct EventReader {
    has_begun: bool,
    places: ItemPlaces,
    items: ReadItems,
    texts: StreamedTexts,
    /// Events of items that become one chunk each, by output index.
    collected: BTreeMap<u64, Vec<StreamEvent>>,
    collected_bytes: usize,
    has_refusal: bool,
    /// The latest event with a piece of a text.
    alike: Option<ReadPiece>,
    /// Reasoning items that belong to the next item.
    reasoning: Vec<Document>,
    /// The event that ends the stream.
    end_event: Option<StreamEvent>,
}

impl ReadChunks for EventReader {
    /// Reads the data of an event. Returns `None` if it is kept until a later event
    /// completes it.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of the event, or if clients could read it differently.
    fn read(&mut self, data: Bytes) -> Result<Option<ResponseDocument>> {
        if let Some(chunk) = self.read_alike(&data)? {
            return Ok(Some(chunk));
        }
        let event = self.places.place(StreamEvent::parse(data)?, &self.items)?;
        if let Some(end) = &self.end_event {
            // An error may be followed by the failed response.
            let is_end = event.name == "response.failed" && end.class == EventClass::Failed;
            return if is_end { Ok(None) } else { Err(ended()) };
        }
        check_blocks(&event)?;
        match event.class {
            EventClass::Ended | EventClass::Failed => {
                self.end_event = Some(event);
                self.alike = None;
                Ok(None)
            }
            EventClass::Created | EventClass::Progress => self.read_progress(event).map(Some),
            EventClass::ItemAdded => self.begin_item(event),
            _ => self.read_item_event(event),
        }
    }

    /// Ends the stream. Returns the last chunk, with finish reason and token counts. The events of
    /// items that are incomplete, because an error or a limit ended the response, are in front of
    /// the last event. No hook can evaluate these items, so that the writer drops them.
    ///
    /// # Errors
    ///
    /// Fails if the stream has no end: it must not look complete.
    fn finish(&mut self) -> Result<Option<ResponseDocument>> {
        let is_complete = self.collected.is_empty();
        let may_end = |end: &StreamEvent| is_complete || end.name != "response.completed";
        let Some(event) = self.end_event.take().filter(may_end) else {
            let expected = "sent before the stream ends";
            return Err(field_error("response.completed", expected));
        };
        let response = event.document.child(RESPONSE)?.unwrap_or_default();
        let parts = self.unseen_parts(&response.children(OUTPUT)?.unwrap_or_default())?;
        let is_failure = event.class == EventClass::Failed;
        let reason = match finish_reason(&response)? {
            _ if is_failure => "OTHER",
            Some("STOP") if self.has_refusal => "SAFETY",
            reason => reason.unwrap_or("OTHER"),
        };
        let mut candidate = json!({ "index": 0, "finishReason": reason });
        if !parts.is_empty() {
            let content = json!({ "role": "model", "parts": parts });
            insert(&mut candidate, "content", content);
        }
        let mut form = json!({ "candidates": [candidate] });
        if let Some(usage) = response.child(USAGE)? {
            insert(&mut form, "usageMetadata", COUNTS.read(&usage)?);
        }
        if let Some(model) = response.string(MODEL)? {
            insert(&mut form, "modelVersion", model);
        }
        if let Some(error) = error_of(&event, &response)? {
            insert(&mut form, "error", error);
        }
        let dropped = std::mem::take(&mut self.collected).into_values().flatten();
        let events: Vec<StreamEvent> = dropped.chain([event]).collect();
        Ok(Some(
            chunk_of(form, &events)?.with_text_end(TextEnd::Certain),
        ))
    }
}

impl EventReader {
    /// Reads an event about a response that has not ended.
    fn read_progress(&mut self, event: StreamEvent) -> Result<ResponseDocument> {
        if event.class == EventClass::Created && std::mem::replace(&mut self.has_begun, true) {
            return Err(DialectError::Ambiguous("response.created".to_owned()));
        }
        let mut form = json!({});
        if let Some(response) = event.document.child(RESPONSE)? {
            let output = response.list(OUTPUT)?.unwrap_or_default();
            let copy = response.string(OUTPUT_TEXT)?.unwrap_or_default();
            if !output.is_empty() || !copy.is_empty() {
                return Err(field_error("output", "empty until the response ends"));
            }
            if event.class == EventClass::Created {
                read_envelope(&mut form, &response)?;
            }
        }
        chunk_of(form, &[event])
    }

    /// Reads an event of an item, or one that belongs to none.
    fn read_item_event(&mut self, event: StreamEvent) -> Result<Option<ResponseDocument>> {
        let index = event.output_index()?;
        // Arguments of a call are collected even if its beginning was not sent.
        let is_of_call = event.class == EventClass::Delta && event.is_of_call();
        let is_collected = |index: &u64| {
            self.collected.contains_key(index) || is_of_call && !self.items.is_streamed(*index)
        };
        if let Some(index) = index.filter(is_collected) {
            if event.class == EventClass::ItemDone {
                return self.end_item(event).map(Some);
            }
            self.items.note_event(Some(index))?;
            self.collect(index, event)?;
            return Ok(None);
        }
        if self.items.is_thought_of_no_item(&event)? {
            // The writer drops it: its text is in the last event, too.
            return chunk_of(json!({}), &[event]).map(Some);
        }
        match event.class {
            EventClass::Delta => self.read_delta(event).map(Some),
            EventClass::ItemDone if !OutputKind::of(&event.item()?)?.is_streamed() => {
                self.end_item(event).map(Some)
            }
            _ => self.read_copies(event).map(Some),
        }
    }

    /// Keeps an event until its item is complete.
    fn collect(&mut self, index: u64, event: StreamEvent) -> Result<()> {
        self.collected_bytes += event.document.original_bytes().len();
        self.collected.entry(index).or_default().push(event);
        if self.collected_bytes > MAX_COLLECTED_BYTES {
            return Err(DialectError::Json("the response is too long".to_owned()));
        }
        Ok(())
    }

    /// Reads an event that differs in its piece only from the latest one.
    fn read_alike(&mut self, data: &Bytes) -> Result<Option<ResponseDocument>> {
        let alike = self.alike.as_ref();
        let Some((alike, chunk)) =
            alike.and_then(|alike| Some((alike, alike.template.read(data)?)))
        else {
            return Ok(None);
        };
        self.texts.append(alike.item, alike.slot, chunk.text())?;
        Ok(Some(ResponseDocument::from_text_event(chunk, data.clone())))
    }

    fn begin_item(&mut self, event: StreamEvent) -> Result<Option<ResponseDocument>> {
        let Some(index) = event.output_index()? else {
            return Err(field_error("output_index", "the index of an item"));
        };
        let item = event.item()?;
        let kind = OutputKind::of(&item)?;
        if !self.items.is_announced_by(index, kind) {
            self.texts.remove(index);
        }
        self.items.begin(index, &item)?;
        self.texts.begin_item(index, &item)?;
        if kind.is_streamed() {
            return self.read_copies(event).map(Some);
        }
        self.collect(index, event)?;
        Ok(None)
    }

    /// Returns the chunk of an item that arrives as a whole.
    fn end_item(&mut self, event: StreamEvent) -> Result<ResponseDocument> {
        let (index, item) = (event.output_index()?, event.item()?);
        self.items.end(index, &item)?;
        let events = self.collected.remove(&index.unwrap_or(0));
        let mut events = events.unwrap_or_default();
        events.push(event);
        let bytes = events.iter();
        let bytes = bytes.map(|event| event.document.original_bytes().len());
        self.collected_bytes = self.collected_bytes.saturating_sub(bytes.sum());
        check_pieces(&item, &events)?;
        let parts = item_parts_with(&self.reasoning, &item)?;
        let parts = numbered(parts);
        self.reasoning.clear();
        chunk_of(form_of(&parts), &events)
    }

    fn read_delta(&mut self, event: StreamEvent) -> Result<ResponseDocument> {
        let piece = event.document.string(DELTA)?.unwrap_or_default();
        let (index, slot) = (event.output_index()?, event.slot()?);
        self.items.note_event(index)?;
        let stream = event.text_stream();
        let part = self.texts.read(stream, index.unwrap_or(0), slot, &piece)?;
        let is_refusal = event.name == REFUSAL_DELTA;
        self.has_refusal |= is_refusal;
        let alike = ReadPiece::new(&event, index.unwrap_or(0), slot);
        self.alike = alike.filter(|_| !is_refusal && !piece.is_empty());
        let mut part = with_source(part, 0);
        if is_refusal {
            insert(&mut part, IS_REFUSAL, true);
        }
        chunk_of(form_of(&[part]), &[event])
    }

    /// Reads an event that repeats texts, or holds none. Texts that no earlier event held
    /// are parts of the chunk; their sources are their positions in the event.
    fn read_copies(&mut self, event: StreamEvent) -> Result<ResponseDocument> {
        let index = event.output_index()?.unwrap_or(0);
        let kind = self.items.kind(index);
        let mut is_thought = event.is_thought() || kind == Some(OutputKind::Reasoning);
        match event.class {
            EventClass::ItemDone => {
                let item = event.item()?;
                let kind = OutputKind::of(&item)?;
                if event.output_index()?.is_none() && self.items.has_ended(index) {
                    // It is the only event of an item of its own.
                    self.texts.remove(index);
                }
                self.items.end(event.output_index()?, &item)?;
                is_thought = kind == OutputKind::Reasoning;
                if is_thought {
                    self.reasoning.push(item);
                } else {
                    self.reasoning.clear();
                }
            }
            EventClass::TextDone(_) | EventClass::PartAdded | EventClass::PartDone => {
                self.items.note_event(event.output_index()?)?;
            }
            _ => (),
        }
        let mut parts = Vec::new();
        for (number, complete) in event.complete_texts()?.iter().enumerate() {
            let stream = if is_thought || matches!(complete.slot, ItemSlot::Summary(_)) {
                TextStream::Thought
            } else {
                TextStream::Speech
            };
            if let Some(part) = self.unseen_part(index, complete, stream)? {
                parts.push(with_source(part, number));
            }
        }
        if matches!(event.class, EventClass::TextDone(_) | EventClass::PartDone) {
            self.texts.end(index, event.slot()?);
        }
        let text_end = match (event.ends_text(), is_thought) {
            (true, true) => TextEnd::Certain,
            (true, false) => TextEnd::Possible,
            (false, _) => TextEnd::None,
        };
        if event.ends_text() || !parts.is_empty() {
            self.alike = None;
        }
        let form = match (parts.is_empty(), text_end) {
            (true, TextEnd::None) => json!({}),
            // Policies release a text into the candidate whose text ends.
            (true, _) => json!({ "candidates": [{ "index": 0 }] }),
            (false, _) => form_of(&parts),
        };
        let chunk = chunk_of(form, &[event])?;
        Ok(chunk.with_text_end(text_end))
    }
}

/// Parts of texts that no earlier event held.
impl EventReader {
    /// Returns the part of a text of an item; `None` if all of it was seen.
    fn unseen_part(
        &mut self,
        item: u64,
        complete: &CompleteText,
        stream: TextStream,
    ) -> Result<Option<Value>> {
        self.has_refusal |= complete.is_refusal;
        let slot = complete.slot;
        let Some(new) = self.texts.unseen(item, slot, &complete.text) else {
            return Ok(None);
        };
        let mut part = self.texts.read(stream, item, slot, new)?;
        if complete.is_refusal {
            insert(&mut part, IS_REFUSAL, true);
        }
        Ok(Some(part))
    }

    /// Returns the parts that the last event holds and no event before it. Their sources are their
    /// positions among the parts of all its items.
    fn unseen_parts(&mut self, output: &[Document]) -> Result<Vec<Value>> {
        let unindexed = unindexed_part(output)?.filter(|_| self.items.are_unindexed());
        let Some(number) = unindexed else {
            return unseen_parts(output, &repeated(output, &self.items.earlier())?);
        };
        let mut parts = unseen_parts(output, &[])?;
        if let Some(part) = parts.get_mut(number) {
            let text = part.get("text").and_then(Value::as_str);
            let rest = self
                .texts
                .unseen(0, ItemSlot::Content(0), text.unwrap_or_default());
            match rest.map(str::to_owned) {
                Some(rest) => insert(part, "text", rest),
                None => drop(parts.remove(number)),
            }
        }
        Ok(parts)
    }
}

/// Returns the error about an event behind the end, which only some clients read.
fn ended() -> DialectError {
    field_error("response.completed", "the last event")
}

/// Returns a chunk that was read from these events, with the labels of the last one.
fn chunk_of(mut form: Value, events: &[StreamEvent]) -> Result<ResponseDocument> {
    if let Some(last) = events.last() {
        for (key, labels) in AnswerLabels::of(&last.document, visit_event)?.to_fields() {
            insert(&mut form, &key, labels);
        }
        if last.name == SOUND_DELTA {
            insert(&mut form, HAS_MEDIA, true);
        }
    }
    let wire = events.iter().map(|event| event.document.original_bytes());
    ResponseDocument::from_form(&form, wire.collect())
}

/// Returns a candidate with these parts, in the content form.
fn form_of(parts: &[Value]) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "index": 0, "content": content }] })
}
