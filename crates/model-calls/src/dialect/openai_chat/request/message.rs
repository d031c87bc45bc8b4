//! One message of a request, as a content of the content form.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{SOURCE, numbered},
    document::{Document, add_field, add_list, insert, refuse_pair, to_value},
    error::{Result, field_error},
    openai_chat::{
        block::{block_text, read_block, read_medium},
        fields::{CONTENT, FUNCTION_CALL, NAME, REFUSAL, ROLE, TOOL_CALL_ID, TOOL_CALLS, TYPE},
        message_parts::{PartPlace, PlacedPart, read_calls},
    },
};

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    /// An instruction: `system` or `developer`.
    System,
    User,
    Assistant,
    /// `tool`, or `function` in the deprecated form.
    Tool,
}

/// A message, and its parts in the content form.
#[derive(Debug)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub parts: Vec<PlacedPart>,
}

/// Names of the functions that were called so far, by the ids of the calls.
pub type CallNames = HashMap<String, String>;

/// The content of a message.
pub enum MessageContent {
    /// No content: absent or `null`.
    None,
    Text(String),
    Blocks(Vec<Document>),
}

impl MessageContent {
    pub fn read(message: &Document) -> Result<Self> {
        let content = message.bytes_of(CONTENT)?;
        Ok(match content.as_deref().and_then(<[u8]>::first) {
            None | Some(b'n') => Self::None,
            Some(b'"') => Self::Text(message.string(CONTENT)?.unwrap_or_default()),
            Some(_) => Self::Blocks(message.children(CONTENT)?.unwrap_or_default()),
        })
    }
}

impl ChatMessage {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// Fails for an unknown role, wrong types, and two forms of one field.
    pub fn read(message: &Document, names: &mut CallNames) -> Result<Self> {
        let role = read_role(message)?;
        refuse_pair(message, TOOL_CALLS, FUNCTION_CALL)?;
        if role == ChatRole::Tool {
            let result = read_result(message, names)?;
            let parts = vec![(PartPlace::Result, result)];
            return Ok(Self { role, parts });
        }
        let mut parts = read_content(message)?;
        if let Some(refusal) = read_refusal(message)? {
            parts.push((PartPlace::Refusal, json!({ "text": refusal })));
        }
        let calls = read_calls(message)?;
        for (_, part) in &calls {
            let field = |pointer| part.pointer(pointer).and_then(Value::as_str);
            if let (Some(id), Some(name)) = (field("/functionCall/id"), field("/functionCall/name"))
            {
                names.insert(id.to_owned(), name.to_owned());
            }
        }
        parts.extend(calls);
        Ok(Self { role, parts })
    }

    /// Returns the content of the content form. `source` is the index of the message.
    pub fn to_content(&self, source: usize) -> Value {
        let role = match self.role {
            ChatRole::Assistant => "model",
            ChatRole::System | ChatRole::User | ChatRole::Tool => "user",
        };
        let parts = numbered(self.parts.iter().map(|(_, part)| part.clone()));
        json!({ "role": role, "parts": parts, SOURCE: source })
    }
}

fn read_role(message: &Document) -> Result<ChatRole> {
    match message.string(ROLE)?.as_deref() {
        Some("system" | "developer") => Ok(ChatRole::System),
        Some("user") => Ok(ChatRole::User),
        Some("assistant") => Ok(ChatRole::Assistant),
        Some("tool" | "function") => Ok(ChatRole::Tool),
        Some(_) | None => Err(field_error("role", "a role of the API")),
    }
}

fn read_content(message: &Document) -> Result<Vec<PlacedPart>> {
    match MessageContent::read(message)? {
        MessageContent::None => Ok(Vec::new()),
        MessageContent::Text(text) => Ok(vec![(PartPlace::Text, json!({ "text": text }))]),
        MessageContent::Blocks(blocks) => blocks
            .iter()
            .enumerate()
            .map(|(index, block)| Ok((PartPlace::Block(index), read_part(block)?)))
            .collect(),
    }
}

/// Returns the refusal of a message, unless it is empty.
pub fn read_refusal(message: &Document) -> Result<Option<String>> {
    let refusal = message.string(REFUSAL)?;
    Ok(refusal.filter(|refusal| !refusal.is_empty()))
}

/// Reads a block of a message. A refusal of the model is one of its texts.
fn read_part(block: &Document) -> Result<Value> {
    let mut part = read_block(block)?;
    let is_refusal = block.string(TYPE)?.as_deref() == Some("refusal");
    if is_refusal
        && part.get("text").is_none()
        && let Some(refusal) = block.string(REFUSAL)?
    {
        if block.has_only(&["refusal", "type"]) {
            return Ok(json!({ "text": refusal }));
        }
        insert(&mut part, "text", refusal);
    }
    Ok(part)
}

/// Reads the result of a tool. Its function is the one that the call with its id named.
fn read_result(message: &Document, names: &CallNames) -> Result<Value> {
    let id = message.string(TOOL_CALL_ID)?;
    let called = id.as_ref().and_then(|id| names.get(id)).cloned();
    let name = match called {
        Some(name) => Some(name),
        None => message.string(NAME)?,
    };
    let (output, media) = match MessageContent::read(message)? {
        MessageContent::None => (Value::Null, Vec::new()),
        MessageContent::Text(text) => (text.into(), Vec::new()),
        MessageContent::Blocks(blocks) => read_result_blocks(&blocks)?,
    };
    let mut result = Map::new();
    result.insert("name".to_owned(), name.unwrap_or_default().into());
    let response = if output.is_null() {
        json!({})
    } else {
        json!({ "output": output })
    };
    result.insert("response".to_owned(), response);
    add_field(&mut result, "id", id);
    add_list(&mut result, "parts", media);
    Ok(json!({ "functionResponse": result }))
}

/// Returns the text of a single block, else the list of blocks; and the media, as parts.
fn read_result_blocks(blocks: &[Document]) -> Result<(Value, Vec<Value>)> {
    let (mut text, mut list, mut media) = (None, Vec::new(), Vec::new());
    for block in blocks {
        if let Some(medium) = read_medium(block)? {
            media.push(medium);
            continue;
        }
        text = block_text(block)?;
        list.push(to_value(block)?);
    }
    let output = match (text, list.as_slice()) {
        (_, []) => "".into(),
        (Some(text), [_]) => text.into(),
        _ => Value::Array(list),
    };
    Ok((output, media))
}
