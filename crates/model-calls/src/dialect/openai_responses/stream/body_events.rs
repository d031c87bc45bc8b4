//! The events of a whole response, which some servers send in answer to a request for a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, elements, first_byte, insert, to_document},
    error::Result,
    openai_responses::{
        fields::{
            ERROR, ID, INCOMPLETE_DETAILS, ITEM, OUTPUT, OUTPUT_TEXT, STATUS, TYPE, USAGE,
            clear_marks, parse,
        },
        response::item::{BLOCK_LISTS, ItemSlot, OutputKind, text_field},
        stream::{
            event::{DELTA, PART, RESPONSE},
            item_events::{beginning_of, text_input},
        },
    },
};

/// Returns the events of a stream that a server sent as one JSON body.
///
/// # Errors
///
/// Fails for JSON that parsers could disagree about, and for a response with a field of a wrong
/// type.
pub fn body_events(body: &Bytes) -> Result<Vec<Bytes>> {
    match parse(body.clone()) {
        Ok(response) if is_response(&response)? => response_events(&response),
        Ok(_) | Err(_) => elements(body),
    }
}

/// Returns whether a body is a response. Events have a type.
fn is_response(body: &Document) -> Result<bool> {
    Ok(!body.has(TYPE) && first_byte(body, OUTPUT)? == Some(b'['))
}

fn response_events(response: &Document) -> Result<Vec<Bytes>> {
    let mut started = response.clone();
    started.set(OUTPUT, &json!([]))?;
    started.set(STATUS, &json!("in_progress"))?;
    started.remove(OUTPUT_TEXT)?;
    for field in [USAGE, ERROR, INCOMPLETE_DETAILS] {
        if started.has(field) {
            started.set(field, &Value::Null)?;
        }
    }
    let mut events = EventList::default();
    for name in ["response.created", "response.in_progress"] {
        events.push(name, json!({}), RESPONSE, started.to_bytes())?;
    }
    for (index, item) in response.children(OUTPUT)?.iter().flatten().enumerate() {
        events.push_item(index, item)?;
    }
    if let Some(name) = end_of(response)? {
        events.push(&name, json!({}), RESPONSE, response.to_bytes())?;
    }
    Ok(events.0)
}

/// Returns the name of the event with which a response has ended; `None` if it has not.
fn end_of(response: &Document) -> Result<Option<String>> {
    Ok(match response.string(STATUS)?.as_deref() {
        Some("queued" | "in_progress") => None,
        Some(status @ ("incomplete" | "failed" | "cancelled")) => {
            Some(format!("response.{status}"))
        }
        Some(_) | None => Some("response.completed".to_owned()),
    })
}

/// Events with consecutive sequence numbers.
#[derive(Debug, Default)]
struct EventList(Vec<Bytes>);

impl EventList {
    /// Adds an event with the fields of its place, and a field that holds `value`.
    fn push(&mut self, name: &str, place: Value, field: &[&str], value: Bytes) -> Result<()> {
        let mut event = json!({ "type": name, "sequence_number": self.0.len() });
        if let (Some(event), Value::Object(place)) = (event.as_object_mut(), place) {
            event.extend(place);
        }
        let mut event = to_document(&event)?;
        event.set_bytes(field, value)?;
        self.0.push(event.to_bytes());
        Ok(())
    }

    /// Adds the events of an item. Clients expect texts and arguments in pieces.
    fn push_item(&mut self, index: usize, item: &Document) -> Result<()> {
        let place = json!({ "output_index": index });
        let mut inner = place.clone();
        if let Some(id) = item.string(ID)? {
            insert(&mut inner, "item_id", id);
        }
        let start = beginning_of(item)?.to_bytes();
        self.push("response.output_item.added", place.clone(), ITEM, start)?;
        let kind = OutputKind::of(item)?;
        if kind.is_streamed() {
            for (field, slot) in BLOCK_LISTS {
                for (position, block) in (0..).zip(item.children(field)?.unwrap_or_default()) {
                    self.push_block(kind, slot(position), &inner, &block)?;
                }
            }
        } else if let Some(field) = text_input(item)? {
            let named = item.string(TYPE)?.unwrap_or_default();
            let text = item.bytes_of(&[field])?.unwrap_or_default();
            let delta = format!("response.{named}_{field}.delta");
            self.push(&delta, inner.clone(), DELTA, text.clone())?;
            let done = format!("response.{named}_{field}.done");
            self.push(&done, inner, &[field], text)?;
        }
        self.push("response.output_item.done", place, ITEM, item.to_bytes())
    }

    /// Adds the events of a block of a message or of reasoning.
    fn push_block(
        &mut self,
        kind: OutputKind,
        slot: ItemSlot,
        item: &Value,
        block: &Document,
    ) -> Result<()> {
        let field = text_field(block)?;
        let (part, text) = match (slot, kind, field) {
            (ItemSlot::Summary(_), ..) => ("reasoning_summary_part", "reasoning_summary_text"),
            (_, OutputKind::Reasoning, _) => ("content_part", "reasoning_text"),
            (_, _, Some("refusal")) => ("content_part", "refusal"),
            _ => ("content_part", "output_text"),
        };
        let mut place = item.clone();
        match slot {
            ItemSlot::Summary(position) => insert(&mut place, "summary_index", position),
            ItemSlot::Content(position) => insert(&mut place, "content_index", position),
        }
        let mut start = block.clone();
        if let Some(field) = field {
            start.set(&[field], &json!(""))?;
            clear_marks(&mut start)?;
        }
        let added = format!("response.{part}.added");
        self.push(&added, place.clone(), PART, start.to_bytes())?;
        if let Some(field) = field {
            let value = block.bytes_of(&[field])?.unwrap_or_default();
            let mut texts = place.clone();
            if text == "output_text" {
                insert(&mut texts, "logprobs", json!([]));
            }
            let delta = format!("response.{text}.delta");
            self.push(&delta, texts.clone(), DELTA, value.clone())?;
            let done = format!("response.{text}.done");
            let field = if text == "refusal" { "refusal" } else { "text" };
            self.push(&done, texts, &[field], value)?;
        }
        let done = format!("response.{part}.done");
        self.push(&done, place, PART, block.to_bytes())
    }
}
