//! One content: the parts of one role.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    dialect::{
        document::{Document, repeated},
        error::Result,
        google::{fields::PARTS, part::Part},
    },
    model::{Message, MessagePart, MessageParts, Role},
};

/// An element of `contents`, a system instruction, or the content of a candidate.
#[derive(Debug, Clone)]
pub struct Content {
    pub document: Document,
    pub parts: Vec<Part>,
}

impl Content {
    pub fn read(document: Document) -> Result<Self> {
        let parts = repeated(&document, PARTS)?.unwrap_or_default();
        let parts = parts.into_iter().map(Part::read);
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            document,
        })
    }

    /// Reads bytes of a content that were part of a checked document.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        Self::read(Document::from_checked(bytes)?)
    }

    /// Creates a content without other fields.
    pub fn new(role: &str, parts: Vec<Part>) -> Result<Self> {
        let content = json!({ "role": role }).to_string();
        Self::from_bytes(content.into())?.with_parts(parts)
    }

    /// Returns the plain text as a message, unless it is empty.
    pub fn message(&self) -> Option<Message> {
        let texts = self.parts.iter().filter_map(|part| self.shown_text(part));
        let content: String = texts.collect();
        (!content.is_empty()).then(|| Message {
            role: self.role(),
            content,
        })
    }

    /// Returns the text of one of the parts, unless it is a thought. Only the model has thoughts,
    /// even if a part of the user is marked as one.
    pub fn shown_text<'a>(&self, part: &'a Part) -> Option<&'a str> {
        let is_hidden = part.is_thought && self.role() == Role::Model;
        part.text.as_deref().filter(|_| !is_hidden)
    }

    /// Returns the role; a missing or unknown one is the user's.
    pub fn role(&self) -> Role {
        match self.document.string(&["role"]).ok().flatten().as_deref() {
            Some("model") => Role::Model,
            _ => Role::User,
        }
    }

    /// Returns the content with what is not text. Thoughts are omitted.
    pub fn whole(&self) -> MessageParts {
        let shown = self.parts.iter().filter_map(|part| {
            if part.text.is_none() {
                return Some(MessagePart::Json(compact(part.shown().unwrap_or_default())));
            }
            let text = self.shown_text(part)?;
            Some(MessagePart::Text(text.to_owned()))
        });
        MessageParts {
            role: self.role(),
            parts: shown.collect(),
        }
    }

    /// Returns whether any part has a field under one of `spellings`.
    pub fn has(&self, spellings: &[&str]) -> bool {
        self.parts.iter().any(|part| part.document.has(spellings))
    }

    /// Returns the content with another plain text: the first plain text part takes it, the
    /// other ones are removed.
    pub fn with_text(&self, text: &str) -> Result<Self> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut is_written = false;
        for part in &self.parts {
            if self.shown_text(part).is_none() {
                parts.push(part.clone());
            } else if !is_written {
                parts.push(part.with_text(text)?);
                is_written = true;
            }
        }
        self.with_parts(parts)
    }

    /// Returns the content without its plain text, or `None` if no part is left.
    pub fn without_text(&self) -> Result<Option<Self>> {
        let others = self.parts.iter();
        let others = others.filter(|part| self.shown_text(part).is_none());
        let content = self.with_parts(others.cloned().collect())?;
        Ok(Some(content).filter(|content| !content.parts.is_empty()))
    }

    /// Returns the content with other parts.
    pub fn with_parts(&self, parts: Vec<Part>) -> Result<Self> {
        let mut document = self.document.clone();
        document.set_children(PARTS, parts.iter().map(|part| &part.document))?;
        Ok(Self { document, parts })
    }
}

/// Returns JSON without the white space and the needless escapes of the agent, so that hooks find
/// what they search for. Order and numbers stay.
fn compact(json: Bytes) -> Bytes {
    match serde_json::from_slice::<Value>(&json) {
        Ok(value) => value.to_string().into(),
        Err(_) => json,
    }
}

/// Returns a content with one text.
pub fn text_content(role: Role, text: &str) -> Bytes {
    let role = match role {
        Role::Model => "model",
        Role::User | Role::System => "user",
    };
    let content = json!({ "role": role, "parts": [{ "text": text }] });
    content.to_string().into()
}
