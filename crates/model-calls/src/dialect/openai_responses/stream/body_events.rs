//! The events of a whole response, which some servers send in answer to a request for a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, elements, first_byte, to_document},
    error::Result,
    openai_responses::{
        fields::{OUTPUT, STATUS, TYPE, parse},
        response::object::started,
        stream::{event::RESPONSE, item_events::complete_events},
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
    let started = started(response)?;
    let mut events = EventList::default();
    for name in ["response.created", "response.in_progress"] {
        events.push(name, json!({}), RESPONSE, started.to_bytes())?;
    }
    for (index, item) in (0..).zip(response.children(OUTPUT)?.iter().flatten()) {
        for event in complete_events(index, item)? {
            events.push(&event.name, event.place, &[event.field], event.value)?;
        }
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
}
