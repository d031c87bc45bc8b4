//! Events that send a piece of a text: most events of most streams. One that differs from an
//! earlier one in its text, its sequence number and its padding only is not parsed.

use std::ops::Range;

use bytes::Bytes;

use crate::dialect::{
    content_form::{TextEvent, TextTemplate},
    openai_responses::{
        response::item::ItemSlot,
        stream::event::{DELTA, EVENT_FIELDS, OBFUSCATION, SEQUENCE_NUMBER, StreamEvent},
    },
};

/// Returns the template of an unedited event; `None` if it holds anything else to inspect.
fn text_event(event: &StreamEvent) -> Option<TextEvent> {
    let document = &event.document;
    let is_known = |key: &str| DELTA.contains(&key) || EVENT_FIELDS.contains(&key);
    if !document.fields().all(|(key, _)| is_known(&key)) {
        return None;
    }
    let field = |field: &[&str]| document.bytes_of(field).ok().flatten();
    if field(&["logprobs"]).is_some_and(|tokens| *tokens != *b"[]") {
        return None;
    }
    let others = [field(SEQUENCE_NUMBER), field(OBFUSCATION)];
    let others: Vec<Bytes> = others.into_iter().flatten().collect();
    TextEvent::new(&document.original_bytes(), &field(DELTA)?, &others)
}

/// A piece that was read, and the chunk that was made of it.
#[derive(Debug)]
pub struct ReadPiece {
    pub template: TextTemplate,
    pub item: u64,
    pub slot: ItemSlot,
}

impl ReadPiece {
    /// Keeps an event as the template of those that follow.
    pub fn new(event: &StreamEvent, item: u64, slot: ItemSlot) -> Option<Self> {
        let stream = event.text_stream();
        Some(Self {
            template: TextTemplate::of_event(text_event(event)?, stream, 0)?,
            item,
            slot,
        })
    }
}

/// A piece that was written as it came.
#[derive(Debug)]
pub struct WrittenPiece {
    event: TextEvent,
    /// Type of the event.
    pub name: String,
    pub item: u64,
    pub slot: ItemSlot,
}

impl WrittenPiece {
    /// Keeps an unedited event as the template of those that follow.
    pub fn new(event: &StreamEvent, item: u64, slot: ItemSlot) -> Option<Self> {
        // Without a number, the places are others.
        event.document.bytes_of(SEQUENCE_NUMBER).ok()??;
        Some(Self {
            event: text_event(event)?,
            name: event.name.clone(),
            item,
            slot,
        })
    }

    /// Returns the place of the sequence number in an event that is like it.
    pub fn number_in(&self, data: &Bytes) -> Option<Range<usize>> {
        let mut places = self.event.places_in(data)?.into_iter();
        places.find(|place| data.get(place.start).is_some_and(u8::is_ascii_digit))
    }
}
