//! Encoding of hook inputs, common to all protocols.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::event::{Context, Event, HookInput, InputExtras};

/// Rough sizes in bytes, to allocate the buffer of an input once.
const BASE_BYTES: usize = 1024;
const MESSAGE_OVERHEAD_BYTES: usize = 40;

/// Encodes an event unchanged.
pub(super) fn write(context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
    encode(context, event, event, extras)
}

/// Encodes an event with some of its fields replaced.
pub(super) fn write_with(
    context: &Context,
    event: Event<'_>,
    extras: InputExtras<'_>,
    replacements: impl IntoIterator<Item = (&'static str, Value)>,
) -> Bytes {
    let mut fields = match serde_json::to_value(event) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    for (key, value) in replacements {
        fields.insert(key.to_owned(), value);
    }
    encode(context, event, fields, extras)
}

/// `fields` are the encoded fields of the event.
fn encode<E: Serialize>(
    context: &Context,
    event: Event<'_>,
    fields: E,
    extras: InputExtras<'_>,
) -> Bytes {
    let input = HookInput {
        session_id: context.hook_session_id(),
        transcript_path: &context.transcript_path,
        cwd: &context.cwd,
        timestamp: &context.timestamp,
        hook_event_name: event.name(),
        event: fields,
        hookgate: extras.hookgate,
        document: extras.document,
    };
    let mut encoded = Vec::with_capacity(estimated_bytes(event, extras.document));
    // Serialization of strings, numbers and JSON values cannot fail.
    match serde_json::to_writer(&mut encoded, &input) {
        Ok(()) => encoded.into(),
        Err(_) => Bytes::new(),
    }
}

fn estimated_bytes(event: Event<'_>, document: Option<&RawValue>) -> usize {
    let messages = event
        .llm_request()
        .into_iter()
        .flat_map(|request| &request.messages);
    let texts: usize = messages
        .map(|message| message.content.len() + MESSAGE_OVERHEAD_BYTES)
        .sum();
    // A few escapes in a text are usual.
    let escapes = texts / 16;
    let document = document.map_or(0, |document| document.get().len());
    BASE_BYTES + texts + escapes + document
}
