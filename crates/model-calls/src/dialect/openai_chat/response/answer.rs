//! The message of a choice, or a piece of it: its parts, and edits of them.

use serde_json::json;

use crate::dialect::{
    content_form::IS_REFUSAL,
    document::{Document, first_byte, write_array},
    error::{DialectError, Result},
    google::is_thought,
    openai_chat::{
        block::{block_thought, read_block},
        fields::{CONTENT, FUNCTION_CALL, PARAGRAPH, REFUSAL, TEXT, TOOL_CALLS},
        message_parts::{
            EditedPart, EditedParts, PartPlace, PlacedPart, add_call_ids, are_same, read_calls,
        },
    },
};

/// Names of the model's thoughts; some servers send a text under several.
pub const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
/// Lists with the same thoughts again, and their signatures.
pub const THOUGHT_DETAILS: [&str; 2] = ["reasoning_details", "thinking_blocks"];
/// Fields of an element of these lists with a text of its thought, which may arrive in pieces.
pub const DETAIL_TEXTS: [&str; 3] = ["text", "summary", "thinking"];

/// Fields of a message that hold no text, or are edited otherwise, beside its thoughts.
const ANSWER_FIELDS: &[&str] = &[
    "audio",
    "content",
    "function_call",
    "images",
    "refusal",
    "role",
    "tool_calls",
];

/// Reads the texts of a message or of a piece of it. Empty texts are no parts.
///
/// # Errors
///
/// Fails for wrong types, since hooks could not see the text.
pub fn read_texts(message: &Document) -> Result<Vec<PlacedPart>> {
    let mut parts = Vec::new();
    if let Some((name, thought)) = read_thought(message)? {
        let part = json!({ "text": thought, "thought": true });
        parts.push((PartPlace::Thought(name), part));
    }
    if first_byte(message, CONTENT)? == Some(b'[') {
        for (index, block) in message.children(CONTENT)?.iter().flatten().enumerate() {
            parts.push(match block_thought(block)? {
                Some(thought) => {
                    let part = json!({ "text": thought, "thought": true });
                    (PartPlace::ThoughtBlock(index), part)
                }
                None => (PartPlace::Block(index), read_block(block)?),
            });
        }
    } else if let Some(text) = read_string(message, CONTENT)? {
        parts.push((PartPlace::Text, json!({ "text": text })));
    }
    if let Some(refusal) = read_string(message, REFUSAL)? {
        let part = json!({ "text": refusal, IS_REFUSAL: true });
        parts.push((PartPlace::Refusal, part));
    }
    Ok(parts)
}

/// Returns whether a message, or a piece of it, has calls.
pub fn has_calls(message: &Document) -> Result<bool> {
    let calls = message.list(TOOL_CALLS)?;
    Ok(calls.is_some_and(|calls| !calls.is_empty()) || message.child(FUNCTION_CALL)?.is_some())
}

/// Refuses a choice with calls beside its message: some clients may read them, hooks do not.
///
/// # Errors
///
/// Fails for such calls.
pub fn refuse_calls_beside_message(choice: &Document) -> Result<()> {
    if has_calls(choice)? {
        return Err(DialectError::Ambiguous("tool_calls".to_owned()));
    }
    Ok(())
}

/// Returns whether a message holds nothing but its role.
pub fn is_blank(message: &Document) -> bool {
    let mut fields = message.fields();
    let is_empty = |value: &[u8]| [&b"null"[..], b"\"\"", b"[]", b"{}"].contains(&value);
    fields.all(|(key, value)| key == "role" || is_empty(&value))
}

/// Reads the texts and calls of a whole message.
pub fn read_message(message: &Document) -> Result<Vec<PlacedPart>> {
    let mut parts = read_texts(message)?;
    parts.append(&mut read_calls(message)?);
    add_call_ids(&mut parts);
    Ok(parts)
}

/// Returns a string that is present and not empty.
fn read_string(message: &Document, field: &[&str]) -> Result<Option<String>> {
    Ok(message.string(field)?.filter(|text| !text.is_empty()))
}

fn read_thought(message: &Document) -> Result<Option<(&'static str, String)>> {
    let mut thought = None;
    for name in REASONING {
        let text = read_string(message, &[name])?;
        thought = thought.or_else(|| text.map(|text| (name, text)));
    }
    if thought.is_some() {
        return Ok(thought);
    }
    let names = ["reasoning", "reasoning_content"];
    for (list, name) in THOUGHT_DETAILS.into_iter().zip(names) {
        let text = read_details(message, list)?;
        if !text.is_empty() {
            return Ok(Some((name, text)));
        }
    }
    Ok(None)
}

/// Returns the text in the details of a thought.
fn read_details(message: &Document, list: &str) -> Result<String> {
    let mut text = String::new();
    for detail in message.children(&[list])?.unwrap_or_default() {
        for field in DETAIL_TEXTS {
            text.extend(detail.string(&[field])?);
        }
    }
    Ok(text)
}

/// Returns the fields of a message that hold no text, or are edited otherwise. Copies of its
/// thoughts that hold another text are not among them.
pub fn known_fields(message: &Document) -> Result<Vec<&'static str>> {
    let thought = read_thought(message)?.map(|(_, text)| text);
    let is_other = |text: &str| !text.is_empty() && Some(text) != thought.as_deref();
    let mut known = [ANSWER_FIELDS, &REASONING, &THOUGHT_DETAILS].concat();
    for name in REASONING {
        let copy = read_string(message, &[name])?.unwrap_or_default();
        known.retain(|field| *field != name || !is_other(&copy));
    }
    for list in THOUGHT_DETAILS {
        let copy = read_details(message, list)?;
        known.retain(|field| *field != list || !is_other(&copy));
    }
    let audio = message.child(&["audio"])?;
    let has_sound = audio.as_ref().is_none_or(is_sound);
    known.retain(|field| *field != "audio" || has_sound);
    Ok(known)
}

/// Returns whether an `audio` object holds nothing but encoded sound.
fn is_sound(audio: &Document) -> bool {
    let mut fields = audio.fields();
    fields.all(|(key, _)| ["data", "expires_at", "format", "id"].contains(&&*key))
}

impl EditedParts<'_> {
    /// Writes the texts of a message. New texts follow after `separator`, and a thought has
    /// `thought_name` in a message without one. Returns whether any text was changed.
    pub fn write_texts(
        &self,
        message: &mut Document,
        separator: &str,
        thought_name: Option<&str>,
    ) -> Result<bool> {
        let has_new_content = if first_byte(message, CONTENT)? == Some(b'[') {
            self.write_blocks(message)?
        } else {
            let text = self.speech(separator)?;
            write_string(message, CONTENT, text)?
        };
        let has_new_refusal = write_string(message, REFUSAL, self.refusal()?)?;
        Ok(self.write_thought(message, thought_name)? || has_new_content || has_new_refusal)
    }

    /// Returns the plain text: the content, and new texts.
    pub fn speech(&self, separator: &str) -> Result<String> {
        let mut speech = String::new();
        let mut follows_content = false;
        for EditedPart { origin, part } in &self.parts {
            let place = origin.map(|(place, _)| place);
            let is_elsewhere = place.is_some_and(|place| place != PartPlace::Text);
            if is_elsewhere || !is_speech(part)? {
                continue;
            }
            let Some(text) = part.string(TEXT)? else {
                continue;
            };
            let starts_paragraph = text.starts_with(PARAGRAPH);
            if place.is_none() && follows_content && !text.is_empty() && !starts_paragraph {
                speech.push_str(separator);
            }
            speech.push_str(&text);
            follows_content = place.is_some() && !text.is_empty();
        }
        Ok(speech)
    }

    /// Returns the thoughts, new ones included.
    pub fn thought(&self) -> Result<String> {
        self.text_of(|edited| is_thought(edited.part))
    }

    fn text_of(&self, is_included: impl Fn(&EditedPart<'_>) -> Result<bool>) -> Result<String> {
        let mut text = String::new();
        for edited in &self.parts {
            if is_included(edited)? {
                text.extend(edited.part.string(TEXT)?);
            }
        }
        Ok(text)
    }

    /// Returns the refusal, new texts in its place included.
    pub fn refusal(&self) -> Result<String> {
        self.text_of(|edited| Ok(edited.part.has(&[IS_REFUSAL])))
    }

    fn write_thought(&self, message: &mut Document, name: Option<&str>) -> Result<bool> {
        let known = read_thought(message)?;
        let thought = self.text_of(|edited| {
            let is_block = matches!(edited.place(), Some(PartPlace::ThoughtBlock(_)));
            Ok(!is_block && is_thought(edited.part)?)
        })?;
        if known.as_ref().map_or("", |(_, text)| text) == thought {
            return Ok(false);
        }
        for name in REASONING {
            if read_string(message, &[name])?.is_some() {
                message.set(&[name], &thought.as_str().into())?;
            }
        }
        let known = known.map(|(name, _)| name);
        let name = known.or(name.filter(|name| REASONING.contains(name)));
        let name = name.unwrap_or("reasoning_content");
        message.set(&[name], &thought.into())?;
        for list in THOUGHT_DETAILS {
            message.remove(&[list])?;
        }
        Ok(true)
    }

    fn write_blocks(&self, message: &mut Document) -> Result<bool> {
        let blocks = message.children(CONTENT)?.unwrap_or_default();
        let written = self.blocks(&blocks, is_speech)?;
        if are_same(&written, &blocks) {
            return Ok(false);
        }
        message.set_bytes(CONTENT, write_array(written))?;
        Ok(true)
    }
}

/// Returns whether a text of a part is neither a thought nor a refusal.
fn is_speech(part: &Document) -> Result<bool> {
    Ok(!is_thought(part)? && !part.has(&[IS_REFUSAL]))
}

/// Sets a text unless it is equal; a missing one counts as empty. Returns whether it was
/// changed.
fn write_string(message: &mut Document, field: &[&str], text: String) -> Result<bool> {
    if message.string(field)?.unwrap_or_default() == text {
        return Ok(false);
    }
    message.set(field, &text.into())?;
    Ok(true)
}
