//! The document a hook reads, in the form that all protocols start from.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::event::{Context, Event, HookInput};

/// Writes an event as it is.
pub(super) fn write(context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
    encode(context, event, event, document)
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
    encode(context, event, fields, document)
}

/// `fields` are those of the event, as they are written.
fn encode<E: Serialize>(
    context: &Context,
    event: Event<'_>,
    fields: E,
    document: Option<&RawValue>,
) -> Bytes {
    let input = HookInput::new(context, event.name(), fields, document);
    let mut written = Vec::with_capacity(room(event, document));
    // Texts, numbers and JSON values always become JSON.
    match serde_json::to_writer(&mut written, &input) {
        Ok(()) => written.into(),
        Err(_) => Bytes::new(),
    }
}

/// About how many bytes an event takes: what was said so far makes it long.
fn room(event: Event<'_>, document: Option<&RawValue>) -> usize {
    const THE_REST: usize = 1024;
    const A_MESSAGE: usize = 40;
    let messages = event.llm_request().into_iter().flat_map(|it| &it.messages);
    let said: usize = messages.map(|it| it.content.len() + A_MESSAGE).sum();
    // A few escapes in a text are usual.
    let escapes = said / 16;
    let document = document.map_or(0, |it| it.get().len());
    THE_REST + said + escapes + document
}
