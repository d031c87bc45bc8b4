//! The document a hook reads, in the form that all protocols start from.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::event::{Context, Event, EventName, HookInput};

/// Writes an event as it is.
pub(super) fn write(context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
    encode(context, event.name(), event, document)
}

/// Writes an event with some of its fields in other words.
pub(super) fn write_with(
    context: &Context,
    event: Event<'_>,
    document: Option<&RawValue>,
    other_words: impl IntoIterator<Item = (&'static str, Value)>,
) -> Bytes {
    let fields = serde_json::to_value(event).ok();
    let mut fields: Map<String, Value> = match fields {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for (key, value) in other_words {
        fields.insert(key.to_owned(), value);
    }
    encode(context, event.name(), fields, document)
}

fn encode<E: Serialize>(
    context: &Context,
    name: EventName,
    event: E,
    document: Option<&RawValue>,
) -> Bytes {
    let input = HookInput::new(context, name, event, document);
    // Texts, numbers and JSON values always become JSON.
    serde_json::to_vec(&input)
        .map(Bytes::from)
        .unwrap_or_default()
}
