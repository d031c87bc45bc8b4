//! Writes edited contents of the content form back into the messages that they were read from.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    content_form::source_of,
    document::{Document, write_array},
    error::DialectError,
    openai_chat::{
        block::{rewrite_block, text_block},
        fields::{CONTENT, FUNCTION_CALL, REFUSAL, TEXT, TOOL_CALLS},
        request::{
            message::{CallNames, ChatMessage, ChatRole, MessageContent, PartPlace, read_calls},
            new_message::{text_message, write_result},
        },
        tool_call::{rewrite_call, rewrite_function_call},
    },
};

/// Separates a text of hooks from the text of the agent in a content that is a string.
const PARAGRAPH: &str = "\n\n";

/// A part of an edited content.
struct PlacedEdit {
    /// Position in the message, and the part as it was read; `None` for a new part.
    origin: Option<(PartPlace, Document)>,
    part: Document,
}

/// Returns the messages that take the place of `message`: none if nothing of it is left, and
/// a second one for a text behind a tool's result. `first` is the source of its first part.
pub fn rewrite_message(
    message: &Document,
    first: usize,
    before: &[Document],
    after: &[Document],
) -> Result<Vec<Bytes>, DialectError> {
    let read = ChatMessage::read(message, &mut CallNames::new())?;
    let origin = |part: &Document| {
        let number = source_of(part)?.checked_sub(first)?;
        let (place, _) = read.parts.get(number)?;
        Some((*place, before.get(number)?.clone()))
    };
    let parts = after.iter().map(|part| PlacedEdit {
        origin: origin(part),
        part: part.clone(),
    });
    let parts: Vec<PlacedEdit> = parts.collect();
    let mut edited = message.clone();
    let mut messages = Vec::new();
    if read.role == ChatRole::Tool {
        for part in &parts {
            match &part.origin {
                Some((_, before)) => {
                    write_result(&mut edited, before, &part.part)?;
                    messages.push(edited.to_bytes());
                }
                None => messages.extend(
                    part.part
                        .string(TEXT)?
                        .map(|text| text_message("user", &text)),
                ),
            }
        }
        return Ok(messages);
    }
    write_content(&mut edited, &parts)?;
    write_calls(&mut edited, &parts)?;
    let is_empty = parts.is_empty() && !read.parts.is_empty();
    messages.extend((!is_empty).then(|| edited.to_bytes()));
    Ok(messages)
}

/// Writes the texts and blocks of a message.
fn write_content(message: &mut Document, parts: &[PlacedEdit]) -> Result<(), DialectError> {
    match MessageContent::read(message)? {
        MessageContent::Blocks(blocks) => write_blocks(message, &blocks, parts)?,
        MessageContent::Text(text) => write_text(message, Some(&text), parts)?,
        MessageContent::None => write_text(message, None, parts)?,
    }
    let Some(known) = message.get(REFUSAL)?.filter(|known| !known.is_null()) else {
        return Ok(());
    };
    let refusal = parts.iter().find(|part| part.is_at(PartPlace::Refusal));
    let block = refusal.map(|refusal| refusal.part.child(&["block"]));
    let block = block.transpose()?.flatten().unwrap_or_default();
    let edited = block.get(REFUSAL)?.unwrap_or_default();
    if edited != known {
        message.set(REFUSAL, &edited)?;
    }
    Ok(())
}

impl PlacedEdit {
    fn is_at(&self, place: PartPlace) -> bool {
        self.origin
            .as_ref()
            .is_some_and(|(known, _)| *known == place)
    }

    fn is_new(&self) -> bool {
        self.origin.is_none()
    }
}

/// Writes a content that stays a string.
fn write_text(
    message: &mut Document,
    known: Option<&str>,
    parts: &[PlacedEdit],
) -> Result<(), DialectError> {
    let mut texts = Vec::new();
    for part in parts {
        if part.is_new() || part.is_at(PartPlace::Text) {
            texts.extend(part.part.string(TEXT)?);
        }
    }
    let has_text = !texts.is_empty();
    let text = texts.join(PARAGRAPH);
    match known {
        Some(known) if has_text && known == text => Ok(()),
        None if !has_text => Ok(()),
        Some(_) | None if has_text => message.set(CONTENT, &text.into()),
        Some(_) | None => message.set(CONTENT, &Value::Null),
    }
}

/// Writes a content that is a list. It becomes `null` if no block is left.
fn write_blocks(
    message: &mut Document,
    blocks: &[Document],
    parts: &[PlacedEdit],
) -> Result<(), DialectError> {
    let mut written = Vec::with_capacity(parts.len());
    for part in parts {
        match &part.origin {
            Some((PartPlace::Block(index), before)) => {
                if let Some(block) = blocks.get(*index) {
                    written.push(rewrite_block(block, before, &part.part)?);
                }
            }
            Some(_) => (),
            None => written.extend(part.part.string(TEXT)?.map(|text| text_block(&text))),
        }
    }
    if are_same(&written, blocks) {
        return Ok(());
    }
    if written.is_empty() {
        return message.set(CONTENT, &Value::Null);
    }
    message.set_bytes(CONTENT, write_array(written))
}

fn are_same(written: &[Bytes], known: &[Document]) -> bool {
    written
        .iter()
        .eq(&known.iter().map(Document::to_bytes).collect::<Vec<_>>())
}

/// Writes the deprecated form of a call, of which a message has one at most.
fn write_function_call(message: &mut Document, parts: &[PlacedEdit]) -> Result<(), DialectError> {
    let Some(mut call) = message.child(FUNCTION_CALL)? else {
        return Ok(());
    };
    let mut parts = parts.iter();
    let Some(part) = parts.find(|part| part.is_at(PartPlace::FunctionCall)) else {
        return message.remove(FUNCTION_CALL);
    };
    rewrite_function_call(&mut call, &part.part)?;
    if call.is_edited() {
        message.set_child(FUNCTION_CALL, &call)?;
    }
    Ok(())
}

/// Writes the tool calls of a message. The list is removed if none is left.
fn write_calls(message: &mut Document, parts: &[PlacedEdit]) -> Result<(), DialectError> {
    write_function_call(message, parts)?;
    let calls = read_calls(message)?;
    let mut written = Vec::with_capacity(calls.len());
    for part in parts {
        if let Some((PartPlace::Call(index), before)) = &part.origin
            && let Some(call) = calls.get(*index)
        {
            written.push(rewrite_call(call, before, &part.part)?);
        }
    }
    if calls.is_empty() || are_same(&written, &calls) {
        return Ok(());
    }
    if written.is_empty() {
        return message.remove(TOOL_CALLS);
    }
    message.set_bytes(TOOL_CALLS, write_array(written))
}
