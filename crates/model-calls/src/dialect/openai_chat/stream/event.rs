//! One event of a stream: its choices, and new events in its form.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::read_labels,
    document::{Document, is_set},
    error::{DialectError, Result, field_error},
    openai_chat::{
        fields::{CHOICES, DELTA, FINISH_REASON, INDEX, LOGPROBS, USAGE},
        message_parts::{PartPlace, PlacedPart},
        response::answer::{has_calls, known_fields, read_texts, refuse_calls_beside_message},
    },
};

/// Data of the event that ends a stream.
pub const DONE: &[u8] = b"[DONE]";

/// Object type of the events of a stream.
pub const CHUNK_OBJECT: &str = "chat.completion.chunk";

/// Maximum number of choices of one answer.
const MAX_CHOICES: u64 = 1024;

/// A choice in an event.
#[derive(Debug)]
pub struct EventChoice {
    pub index: u64,
    pub document: Document,
    pub delta: Document,
    /// Texts of the delta.
    pub texts: Vec<PlacedPart>,
    pub has_calls: bool,
    /// Fields of the delta that hookgate does not interpret.
    pub labels: Map<String, Value>,
    /// Reason for the end, if the choice ends here.
    pub finish_reason: Option<String>,
}

impl EventChoice {
    fn read(position: usize, document: Document) -> Result<Self> {
        let index = match document.get(INDEX)? {
            None | Some(Value::Null) => position as u64,
            Some(index) => index.as_u64().ok_or_else(wrong_index)?,
        };
        if index >= MAX_CHOICES {
            return Err(wrong_index());
        }
        refuse_calls_beside_message(&document)?;
        let delta = document.child(DELTA)?.unwrap_or_default();
        let finish_reason = document.string(FINISH_REASON)?;
        Ok(Self {
            index,
            texts: read_texts(&delta)?,
            labels: read_labels(&delta, &known_fields(&delta)?)?,
            has_calls: has_calls(&delta)?,
            finish_reason: finish_reason.filter(|reason| !reason.is_empty()),
            delta,
            document,
        })
    }

    /// Returns whether the choice waits for the end of the answer.
    pub const fn is_held(&self) -> bool {
        self.has_calls || self.finish_reason.is_some()
    }

    /// Returns the JSON of the text, if the choice is the first and holds nothing else.
    pub fn only_text(&self) -> Option<(PartPlace, Bytes)> {
        let [(place, _)] = self.texts.as_slice() else {
            return None;
        };
        let name = match place {
            PartPlace::Text => "content",
            PartPlace::Thought(name) => name,
            _ => return None,
        };
        let is_empty = |value: &[u8]| *value == *b"null" || *value == *b"\"\"";
        let mut fields = self.delta.fields();
        let is_alone = fields.all(|(key, value)| key == name || is_empty(&value));
        let has_logprobs = is_set(&self.document, LOGPROBS).unwrap_or(true);
        let is_only = self.index == 0 && !self.is_held() && is_alone && !has_logprobs;
        let text = self.delta.bytes_of(&[name]).ok().flatten();
        text.filter(|_| is_only).map(|text| (*place, text))
    }
}

/// Reads the choices of an event.
///
/// # Errors
///
/// Fails for wrong types, since hooks could not see the text, and for two choices with one index.
pub fn read_choices(event: &Document) -> Result<Vec<EventChoice>> {
    let choices = event.children(CHOICES)?.unwrap_or_default();
    let choices = choices.into_iter().enumerate();
    let choices = choices.map(|(position, choice)| EventChoice::read(position, choice));
    let choices: Vec<EventChoice> = choices.collect::<Result<_, _>>()?;
    let indexes: BTreeSet<u64> = choices.iter().map(|choice| choice.index).collect();
    if indexes.len() < choices.len() {
        return Err(DialectError::Ambiguous("index".to_owned()));
    }
    Ok(choices)
}

fn wrong_index() -> DialectError {
    field_error("index", "the number of a choice")
}

/// Returns whether an event holds token counts and no choice.
pub fn is_usage(event: &Document) -> Result<bool> {
    let choices = event.list(CHOICES)?.unwrap_or_default();
    Ok(choices.is_empty() && is_set(event, USAGE)?)
}

/// Returns whether a choice of an event holds nothing but empty texts.
pub fn is_blank_choice(choice: &Document) -> Result<bool> {
    let delta = choice.child(DELTA)?.unwrap_or_default();
    let reason = choice.get(FINISH_REASON)?.unwrap_or_default();
    let delta = Document::from_checked(delta.to_bytes())?;
    let mut fields = delta.fields();
    Ok(reason.is_null() && fields.all(|(_, value)| *value == *b"\"\"" || *value == *b"null"))
}

/// Returns an event in the form of `template` with one choice.
pub fn event_with(
    template: &Document,
    index: u64,
    delta: &Map<String, Value>,
    finish_reason: Option<&str>,
) -> Result<Bytes> {
    let mut event = template.clone();
    let choice = json!([{
        "index": index,
        "delta": delta,
        "logprobs": null,
        "finish_reason": finish_reason,
    }]);
    event.set(CHOICES, &choice)?;
    if is_set(&event, USAGE)? {
        event.set(USAGE, &Value::Null)?;
    }
    Ok(event.to_bytes())
}
