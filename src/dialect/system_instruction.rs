//! The system instruction of a request: its text, and what hooks changed of it.
//! Pure.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    DialectError, Document,
    contents::{Content, PARTS},
    document::array,
};
use crate::model::Message;

pub(super) const SYSTEM: &[&str] = &["systemInstruction", "system_instruction"];

/// The system instruction's text.
pub(super) fn read(document: &Document) -> Result<Option<String>, DialectError> {
    let content = document.child(SYSTEM)?.map(Content::read).transpose()?;
    Ok(content.and_then(|it| it.message()).map(|it| it.content))
}

/// The first text of the system instruction becomes `text`, the others go.
pub(super) fn replace(document: &mut Document, text: &str) -> Result<(), DialectError> {
    match document.child(SYSTEM)?.map(Content::read).transpose()? {
        Some(content) if content.message().is_some_and(|it| it.content == text) => Ok(()),
        Some(content) if content.message().is_some() => {
            document.set_child(SYSTEM, content.saying(text)?.document())
        }
        Some(_) | None => document.set(SYSTEM, &json!({ "parts": [{ "text": text }] })),
    }
}

/// System messages are appended to the system instruction.
pub(super) fn extend(document: &mut Document, messages: &[Message]) -> Result<(), DialectError> {
    let new = messages.iter().map(|it| json!({ "text": it.content }));
    let Some(mut instruction) = document.child(SYSTEM)? else {
        let parts: Vec<Value> = new.collect();
        return document.set(SYSTEM, &json!({ "parts": parts }));
    };
    let mut parts = instruction.list(PARTS)?.unwrap_or_default();
    parts.extend(new.map(|it| Bytes::from(it.to_string())));
    instruction.set_bytes(PARTS, array(parts.iter().map(AsRef::as_ref)))?;
    document.set_child(SYSTEM, &instruction)
}
