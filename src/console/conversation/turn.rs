//! Turns of a conversation, as they are shown whatever their API is.

use std::{borrow::Cow, collections::HashMap, slice};

use serde_json::Value;

use crate::console::format::bytes;

/// One turn of a conversation.
#[derive(Debug)]
pub(super) struct ShownTurn<'a> {
    /// Role in the words of the API.
    pub(super) role: &'a str,
    /// Texts, calls and others, in order.
    pub(super) parts: Vec<ShownPart<'a>>,
}

/// One part of a turn.
#[derive(Debug)]
pub(super) enum ShownPart<'a> {
    Text(Cow<'a, str>),
    /// Thought of the model; empty if only the API can read it.
    Thought(Cow<'a, str>),
    Call {
        name: &'a str,
        arguments: Cow<'a, Value>,
    },
    Result {
        name: &'a str,
        content: Vec<ShownPart<'a>>,
    },
    /// Description of an image, a document or a sound.
    Media(String),
    /// A part of another kind.
    Json(&'a Value),
}

impl<'a> ShownPart<'a> {
    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn thought(text: &'a str) -> Self {
        Self::Thought(text.into())
    }

    /// Returns a call whose arguments are JSON, if it has any.
    pub(super) fn call(name: &'a str, arguments: Option<&'a Value>) -> Self {
        Self::Call {
            name,
            arguments: Cow::Borrowed(arguments.unwrap_or(&Value::Null)),
        }
    }

    /// Returns a call whose arguments are JSON in a string.
    pub(super) fn call_of_text(name: &'a str, arguments: &'a str) -> Self {
        let text = || Value::String(arguments.to_owned());
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| text());
        Self::Call {
            name,
            arguments: Cow::Owned(arguments),
        }
    }

    /// Returns media with its data in base64.
    pub(super) fn media_of_data(kind: &str, media_type: &str, data: &str) -> Self {
        let size = bytes(u64::try_from(data.len() / 4 * 3).unwrap_or(u64::MAX));
        // A media type such as `image/png` names the kind itself.
        Self::Media(if media_type.starts_with(kind) {
            format!("{media_type}, {size}")
        } else {
            format!("{kind} {media_type}, {size}")
        })
    }

    /// Returns media at an address, which may hold the data itself.
    pub(super) fn media_at(kind: &str, address: &str) -> Self {
        let inline = address.strip_prefix("data:");
        match inline.and_then(|inline| inline.split_once(";base64,")) {
            Some((media_type, data)) => Self::media_of_data(kind, media_type, data),
            None => Self::Media(format!("{kind} at {address}")),
        }
    }
}

/// Names of called tools by the ids of their calls.
#[derive(Debug, Default)]
pub(super) struct NamesOfCalls<'a>(HashMap<&'a str, &'a str>);

impl<'a> NamesOfCalls<'a> {
    /// Adds the name of a call. Results have the id of their call, and no name.
    pub(super) fn add(&mut self, id: &'a str, name: &'a str) {
        if !name.is_empty() {
            self.0.insert(id, name);
        }
    }

    /// Returns the name of a tool; its call's id if that call is not in the conversation.
    pub(super) fn name(&self, id: &'a str) -> &'a str {
        self.0.get(id).copied().unwrap_or(id)
    }
}

/// Returns a text of an object; empty if it has none.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the elements of a list of an object.
pub(super) fn elements<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    match value.get(name) {
        Some(Value::Array(list)) => list,
        // For Google's APIs, an object counts as the only element.
        Some(only @ Value::Object(_)) => slice::from_ref(only),
        _ => &[],
    }
}

/// Returns content that is one text or a list of parts.
pub(super) fn text_or_parts<'a>(
    content: Option<&'a Value>,
    part: impl Fn(&'a Value) -> ShownPart<'a>,
) -> Vec<ShownPart<'a>> {
    match content {
        Some(Value::String(text)) => vec![ShownPart::text(text)],
        Some(Value::Array(parts)) => parts.iter().map(part).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![ShownPart::Json(other)],
    }
}
