//! The system instruction of a request.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    dialect::{
        document::{Document, repeated_json, write_array},
        error::Result,
        google::{
            content::Content,
            fields::{PARTS, SYSTEM_INSTRUCTION},
        },
    },
    model::Message,
};

/// Returns the text of the system instruction.
pub fn read_system_instruction(document: &Document) -> Result<Option<String>> {
    let content = document.child(SYSTEM_INSTRUCTION)?;
    let content = content.map(Content::read).transpose()?;
    let message = content.and_then(|content| content.message());
    Ok(message.map(|message| message.content))
}

/// Replaces the text of the system instruction. Other parts are kept.
pub fn replace_system_instruction(document: &mut Document, text: &str) -> Result<()> {
    let content = document.child(SYSTEM_INSTRUCTION)?;
    let content = content.map(Content::read).transpose()?;
    match content.and_then(|content| Some((content.message()?, content))) {
        Some((message, _)) if message.content == text => Ok(()),
        Some((_, content)) => {
            document.set_child(SYSTEM_INSTRUCTION, &content.with_text(text)?.document)
        }
        None => document.set(SYSTEM_INSTRUCTION, &json!({ "parts": [{ "text": text }] })),
    }
}

/// Appends messages to the system instruction.
pub fn extend_system_instruction(document: &mut Document, messages: &[Message]) -> Result<()> {
    let texts = messages.iter().map(|message| &message.content);
    let new = texts.map(|text| json!({ "text": text }));
    let Some(mut instruction) = document.child(SYSTEM_INSTRUCTION)? else {
        let parts: Vec<Value> = new.collect();
        return document.set(SYSTEM_INSTRUCTION, &json!({ "parts": parts }));
    };
    let mut parts = repeated_json(&instruction, PARTS)?.unwrap_or_default();
    parts.extend(new.map(|part| Bytes::from(part.to_string())));
    instruction.set_bytes(PARTS, write_array(parts))?;
    document.set_child(SYSTEM_INSTRUCTION, &instruction)
}
