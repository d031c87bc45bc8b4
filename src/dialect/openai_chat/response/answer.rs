//! The message of a choice, or a piece of it: its parts, and edits of them.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::source_of,
    document::{Document, write_array},
    error::DialectError,
    google::is_thought,
    openai_chat::{
        block::{read_block, rewrite_block, text_block},
        fields::{CONTENT, FUNCTION_CALL, REFUSAL, TEXT, TOOL_CALLS},
        tool_call::{read_call, read_function_call, rewrite_call, rewrite_function_call},
    },
};

/// Names of the model's thoughts; some servers send a text under both.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
/// The same thoughts again, with signatures.
pub const REASONING_DETAILS: &[&str] = &["reasoning_details"];

/// Fields of a message that hold no text, or are edited otherwise.
const ANSWER_FIELDS: &[&str] = &[
    "audio",
    "content",
    "function_call",
    "images",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "role",
    "tool_calls",
];

/// Position of a part in a message of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPlace {
    /// A thought, under this name.
    Thought(&'static str),
    /// The content, which is a string.
    Text,
    /// An element of the content.
    Block(usize),
    Refusal,
    /// An element of `tool_calls`.
    Call(usize),
    /// The `function_call` of the deprecated form.
    FunctionCall,
}

/// A part of the content form, and its position in the message.
pub type PlacedAnswer = (AnswerPlace, Value);

/// Reads the texts of a message or of a piece of it. Empty texts are no parts.
///
/// # Errors
///
/// Fails for wrong types, since hooks could not see the text.
pub fn read_texts(message: &Document) -> Result<Vec<PlacedAnswer>, DialectError> {
    let mut parts = Vec::new();
    if let Some((name, thought)) = read_thought(message)? {
        let part = json!({ "text": thought, "thought": true });
        parts.push((AnswerPlace::Thought(name), part));
    }
    let content = message.bytes_of(CONTENT)?;
    if content.as_deref().and_then(<[u8]>::first) == Some(&b'[') {
        for (index, block) in message.children(CONTENT)?.iter().flatten().enumerate() {
            parts.push((AnswerPlace::Block(index), read_block(block)?));
        }
    } else if let Some(text) = read_string(message, CONTENT)? {
        parts.push((AnswerPlace::Text, json!({ "text": text })));
    }
    if let Some(refusal) = read_string(message, REFUSAL)? {
        parts.push((AnswerPlace::Refusal, json!({ "text": refusal })));
    }
    Ok(parts)
}

/// Reads the texts and calls of a whole message.
pub fn read_message(message: &Document) -> Result<Vec<PlacedAnswer>, DialectError> {
    let mut parts = read_texts(message)?;
    let calls = message.children(TOOL_CALLS)?.unwrap_or_default();
    for (index, call) in calls.iter().enumerate() {
        let call = json!({ "functionCall": read_call(call)? });
        parts.push((AnswerPlace::Call(index), call));
    }
    if let Some(call) = message.child(FUNCTION_CALL)? {
        let call = json!({ "functionCall": read_function_call(&call)? });
        parts.push((AnswerPlace::FunctionCall, call));
    }
    Ok(parts)
}

/// Returns a string that is present and not empty.
fn read_string(message: &Document, field: &[&str]) -> Result<Option<String>, DialectError> {
    Ok(message.string(field)?.filter(|text| !text.is_empty()))
}

fn read_thought(message: &Document) -> Result<Option<(&'static str, String)>, DialectError> {
    let mut thought = None;
    for name in REASONING {
        let text = read_string(message, &[name])?;
        thought = thought.or_else(|| text.map(|text| (name, text)));
    }
    if thought.is_some() {
        return Ok(thought);
    }
    let text = read_details(message)?;
    let [_, name] = REASONING;
    Ok((!text.is_empty()).then_some((name, text)))
}

/// Returns the text in the details of a thought.
fn read_details(message: &Document) -> Result<String, DialectError> {
    let mut text = String::new();
    for detail in message.children(REASONING_DETAILS)?.unwrap_or_default() {
        for field in [TEXT, &["summary"]] {
            text.extend(detail.string(field)?);
        }
    }
    Ok(text)
}

/// Returns the fields of a message that hold no text, or are edited otherwise. Copies of its
/// thoughts that hold another text are not among them.
pub fn known_fields(message: &Document) -> Result<Vec<&'static str>, DialectError> {
    let thought = read_thought(message)?.map(|(_, text)| text);
    let [_, second] = REASONING;
    let copy = read_string(message, &[second])?.unwrap_or_default();
    let details = read_details(message)?;
    let audio = message.child(&["audio"])?;
    let is_other = |text: &str| !text.is_empty() && Some(text) != thought.as_deref();
    let mut known = ANSWER_FIELDS.to_vec();
    known.retain(|field| match *field {
        "reasoning" => !is_other(&copy),
        "reasoning_details" => !is_other(&details),
        "audio" => audio.as_ref().is_none_or(is_sound),
        _ => true,
    });
    Ok(known)
}

/// Returns whether an `audio` object holds nothing but encoded sound.
fn is_sound(audio: &Document) -> bool {
    let mut fields = audio.fields();
    fields.all(|(key, _)| ["data", "expires_at", "format", "id"].contains(&&*key))
}

/// A part of an edited message.
pub struct EditedPart<'a> {
    /// Position in the message, and the unedited part; `None` for a new part.
    pub origin: Option<(AnswerPlace, &'a Document)>,
    pub part: &'a Document,
}

impl EditedPart<'_> {
    pub fn place(&self) -> Option<AnswerPlace> {
        self.origin.map(|(place, _)| place)
    }
}

/// Edited parts of a message.
pub struct EditedAnswer<'a> {
    pub parts: Vec<EditedPart<'a>>,
}

impl<'a> EditedAnswer<'a> {
    /// Pairs edited parts with their positions. `read` and `before` are the parts as they were
    /// read, in order.
    pub fn new(read: &[PlacedAnswer], before: &'a [Document], after: &'a [Document]) -> Self {
        let origin = |part: &Document| {
            let number = source_of(part)?;
            let (place, _) = read.get(number)?;
            Some((*place, before.get(number)?))
        };
        let parts = after.iter().map(|part| EditedPart {
            origin: origin(part),
            part,
        });
        Self {
            parts: parts.collect(),
        }
    }

    /// Writes the texts of a message. New texts follow after `separator`, and a thought has
    /// `thought_name` in a message without one. Returns whether any text was changed.
    pub fn write_texts(
        &self,
        message: &mut Document,
        separator: &str,
        thought_name: Option<&str>,
    ) -> Result<bool, DialectError> {
        let content = message.bytes_of(CONTENT)?;
        let is_list = content.as_deref().and_then(<[u8]>::first) == Some(&b'[');
        let has_new_content = if is_list {
            self.write_blocks(message)?
        } else {
            let text = self.speech(separator)?;
            write_string(message, CONTENT, text)?
        };
        let refusal = self.text_at(AnswerPlace::Refusal)?;
        let has_new_refusal = write_string(message, REFUSAL, refusal)?;
        Ok(self.write_thought(message, thought_name)? || has_new_content || has_new_refusal)
    }

    /// Returns the plain text: the content, and new texts.
    pub fn speech(&self, separator: &str) -> Result<String, DialectError> {
        let mut speech = String::new();
        let mut follows_content = false;
        for EditedPart { origin, part } in &self.parts {
            let place = origin.map(|(place, _)| place);
            if place.is_some_and(|place| place != AnswerPlace::Text) || is_thought(part)? {
                continue;
            }
            let Some(text) = part.string(TEXT)? else {
                continue;
            };
            if place.is_none() && follows_content && !text.is_empty() {
                speech.push_str(separator);
            }
            speech.push_str(&text);
            follows_content = place.is_some() && !text.is_empty();
        }
        Ok(speech)
    }

    /// Returns the thoughts, new ones included.
    pub fn thought(&self) -> Result<String, DialectError> {
        let mut thought = String::new();
        for EditedPart { part, .. } in &self.parts {
            if is_thought(part)? {
                thought.extend(part.string(TEXT)?);
            }
        }
        Ok(thought)
    }

    /// Returns the edited text at a position; empty if it was removed.
    pub fn text_at(&self, place: AnswerPlace) -> Result<String, DialectError> {
        let mut parts = self.parts.iter();
        let part = parts.find(|part| part.place() == Some(place));
        let text = part.map(|part| part.part.string(TEXT)).transpose()?;
        Ok(text.flatten().unwrap_or_default())
    }

    fn write_thought(
        &self,
        message: &mut Document,
        name: Option<&str>,
    ) -> Result<bool, DialectError> {
        let known = read_thought(message)?;
        let thought = self.thought()?;
        if known.as_ref().map_or("", |(_, text)| text) == thought {
            return Ok(false);
        }
        for name in REASONING {
            if read_string(message, &[name])?.is_some() {
                message.set(&[name], &thought.as_str().into())?;
            }
        }
        let known = known.map(|(name, _)| name);
        let name = known.or(name).unwrap_or("reasoning_content");
        message.set(&[name], &thought.into())?;
        message.remove(REASONING_DETAILS)?;
        Ok(true)
    }

    fn write_blocks(&self, message: &mut Document) -> Result<bool, DialectError> {
        let blocks = message.children(CONTENT)?.unwrap_or_default();
        let mut written = Vec::with_capacity(blocks.len());
        for EditedPart { origin, part } in &self.parts {
            match origin {
                Some((AnswerPlace::Block(index), before)) => {
                    if let Some(block) = blocks.get(*index) {
                        written.push(rewrite_block(block, before, part)?);
                    }
                }
                None if !is_thought(part)? => {
                    written.extend(part.string(TEXT)?.map(|text| text_block(&text)));
                }
                Some(_) | None => (),
            }
        }
        let known: Vec<Bytes> = blocks.iter().map(Document::to_bytes).collect();
        if written == known {
            return Ok(false);
        }
        message.set_bytes(CONTENT, write_array(written))?;
        Ok(true)
    }

    /// Writes the calls of a whole message. Returns how many are left.
    pub fn write_calls(&self, message: &mut Document) -> Result<usize, DialectError> {
        let calls = message.children(TOOL_CALLS)?.unwrap_or_default();
        let mut written: Vec<Bytes> = Vec::with_capacity(calls.len());
        let mut function_call = None;
        for EditedPart { origin, part } in &self.parts {
            match origin {
                Some((AnswerPlace::Call(index), before)) => {
                    if let Some(call) = calls.get(*index) {
                        written.push(rewrite_call(call, before, part)?);
                    }
                }
                Some((AnswerPlace::FunctionCall, _)) => function_call = Some(*part),
                Some(_) | None => (),
            }
        }
        let known: Vec<Bytes> = calls.iter().map(Document::to_bytes).collect();
        if written.is_empty() && !calls.is_empty() {
            message.remove(TOOL_CALLS)?;
        } else if written != known {
            message.set_bytes(TOOL_CALLS, write_array(&written))?;
        }
        if let Some(mut call) = message.child(FUNCTION_CALL)? {
            let Some(part) = function_call else {
                message.remove(FUNCTION_CALL)?;
                return Ok(written.len());
            };
            rewrite_function_call(&mut call, part)?;
            if call.is_edited() {
                message.set_child(FUNCTION_CALL, &call)?;
            }
        }
        Ok(written.len() + usize::from(function_call.is_some()))
    }
}

/// Sets a text unless it is equal; a missing one counts as empty. Returns whether it was
/// changed.
fn write_string(
    message: &mut Document,
    field: &[&str],
    text: String,
) -> Result<bool, DialectError> {
    if message.string(field)?.unwrap_or_default() == text {
        return Ok(false);
    }
    message.set(field, &text.into())?;
    Ok(true)
}
