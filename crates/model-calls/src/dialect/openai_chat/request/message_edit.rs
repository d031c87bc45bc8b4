//! Writes edited contents of the content form back into the messages that they were read from.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, write_array},
    error::Result,
    openai_chat::{
        fields::{CONTENT, PARAGRAPH, REFUSAL, TEXT},
        message_parts::{EditedPart, EditedParts, PartPlace, are_same},
        request::{
            message::{CallNames, ChatMessage, ChatRole, MessageContent, read_refusal},
            new_message::{text_message, write_result},
        },
    },
};

/// Returns the messages that take the place of `message`: none if nothing of it is left, and
/// a second one for a text behind a tool's result. `first` is the source of its first part.
pub fn rewrite_message(
    message: &Document,
    first: usize,
    before: &[Document],
    after: &[Document],
) -> Result<Vec<Bytes>> {
    let read = ChatMessage::read(message, &mut CallNames::new())?;
    let edit = EditedParts::new(&read.parts, first, before, after);
    let mut edited = message.clone();
    let mut messages = Vec::new();
    if read.role == ChatRole::Tool {
        for EditedPart { origin, part } in &edit.parts {
            if let Some((_, before)) = origin {
                write_result(&mut edited, before, part)?;
                messages.push(edited.to_bytes());
            } else {
                let text = part.string(TEXT)?;
                messages.extend(text.map(|text| text_message("user", &text)));
            }
        }
        return Ok(messages);
    }
    write_content(&mut edited, &edit)?;
    edit.write_calls(&mut edited)?;
    let is_empty = after.is_empty() && !read.parts.is_empty();
    messages.extend((!is_empty).then(|| edited.to_bytes()));
    Ok(messages)
}

/// Writes the texts and blocks of a message.
fn write_content(message: &mut Document, edit: &EditedParts<'_>) -> Result<()> {
    match MessageContent::read(message)? {
        MessageContent::Blocks(blocks) => write_blocks(message, &blocks, edit)?,
        MessageContent::Text(text) => write_text(message, Some(&text), edit)?,
        MessageContent::None => write_text(message, None, edit)?,
    }
    let known = read_refusal(message)?;
    let part = edit.at(PartPlace::Refusal);
    let edited = part.map(|part| part.string(TEXT)).transpose()?.flatten();
    if known.is_some() && edited != known {
        message.set(REFUSAL, &edited.into())?;
    }
    Ok(())
}

/// Writes a content that stays a string.
fn write_text(message: &mut Document, known: Option<&str>, edit: &EditedParts<'_>) -> Result<()> {
    let mut texts = Vec::new();
    for edited in &edit.parts {
        if matches!(edited.place(), None | Some(PartPlace::Text)) {
            texts.extend(edited.part.string(TEXT)?);
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
fn write_blocks(message: &mut Document, blocks: &[Document], edit: &EditedParts<'_>) -> Result<()> {
    let written = edit.blocks(blocks, |_| Ok(true))?;
    if are_same(&written, blocks) {
        return Ok(());
    }
    if written.is_empty() {
        return message.set(CONTENT, &Value::Null);
    }
    message.set_bytes(CONTENT, write_array(written))
}
