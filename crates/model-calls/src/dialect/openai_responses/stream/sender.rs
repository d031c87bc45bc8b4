//! Sends events with consecutive sequence numbers.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::dialect::{
    document::integer,
    error::Result,
    google::response::text_chunk::replace_at,
    openai_responses::stream::event::{OUTPUT_INDEX, SEQUENCE_NUMBER, StreamEvent},
    sse_event::write_named_event,
};

/// Sends events. Upstream's keep their numbers until something is changed; from then on the
/// numbers are consecutive.
#[derive(Debug, Default)]
pub struct EventSender {
    next: Option<u64>,
    pub out: BytesMut,
    /// True if the agent has received anything else than upstream's events.
    pub is_changed: bool,
}

impl EventSender {
    /// Sends an event of upstream. It keeps its bytes if its numbers are right.
    pub fn send(&mut self, event: &mut StreamEvent, index: Option<u64>) -> Result<()> {
        if let Some(number) = integer(&event.document, SEQUENCE_NUMBER)? {
            let next = self.number(number);
            if next != number {
                event.document.set(SEQUENCE_NUMBER, &json!(next))?;
            }
        }
        if let Some(index) = index
            && event.output_index()?.unwrap_or(0) != index
        {
            event.document.set(OUTPUT_INDEX, &json!(index))?;
        }
        write_named_event(&mut self.out, &event.name, &event.document.to_bytes());
        Ok(())
    }

    /// Sends an event with a sequence number at a known place.
    pub fn send_numbered(&mut self, name: &str, data: &Bytes, place: Range<usize>) {
        let digits = data.get(place.clone()).unwrap_or_default();
        let number = std::str::from_utf8(digits).ok();
        let number = number.and_then(|digits| digits.parse().ok());
        let number: u64 = number.unwrap_or_default();
        let next = self.number(number);
        if next == number {
            write_named_event(&mut self.out, name, data);
            return;
        }
        let data = replace_at(data, &place, next.to_string().as_bytes());
        write_named_event(&mut self.out, name, &data.unwrap_or_default());
    }

    /// Returns the number of the next event, which has this number upstream.
    fn number(&mut self, upstream: u64) -> u64 {
        let next = self.next.filter(|_| self.is_changed).unwrap_or(upstream);
        self.next = Some(next + 1);
        next
    }

    /// Sends a synthetic event.
    pub fn send_synthetic(&mut self, name: &str, fields: Value) {
        self.is_changed = true;
        let next = self.number(0);
        let mut event = json!({ "type": name, "sequence_number": next });
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        write_named_event(&mut self.out, name, event.to_string().as_bytes());
    }
}
