//! The conversation in a document: contents to messages and back (hook
//! protocol, section 6). Pure.

use bytes::Bytes;
use serde_json::json;

use super::{
    DialectError, Document,
    document::array,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
};
use crate::model::{Message, MessagePart, MessageParts, Role, align};

pub(super) const PARTS: &[&str] = &["parts"];

/// The contents of a request.
#[derive(Debug, Default)]
pub(super) struct Contents {
    items: Vec<Content>,
}

/// What one side says in one turn; also the content of an answer's candidate.
#[derive(Debug, Clone)]
pub(super) struct Content {
    document: Document,
    pub(super) parts: Vec<Part>,
}

impl Contents {
    /// Reads an array of contents. What hooks cannot read must not pass them
    /// by, so a wrong type is an error.
    pub(super) fn read(list: Vec<Document>) -> Result<Self, DialectError> {
        let items = list.into_iter().map(Content::read);
        Ok(Self {
            items: items.collect::<Result<_, _>>()?,
        })
    }

    /// One message per content with text.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.items.iter().filter_map(Content::message).collect()
    }

    /// The texts of the user after the model's last word. What an agent lets the
    /// model say after them does not answer them.
    pub(super) fn prompt(&self) -> Vec<String> {
        let by_model = |it: &Content| it.role() == Role::Model;
        let end = self.items.iter().rposition(|it| !by_model(it));
        let asked = self.items.get(..=end.unwrap_or(0)).unwrap_or_default();
        let new = asked.iter().rposition(by_model).map_or(0, |it| it + 1);
        let mut parts = asked.iter().skip(new).flat_map(|it| &it.parts).peekable();
        if new == 0 {
            parts.next_if(|it| it.is_introduction());
        }
        parts.filter_map(|it| it.text.clone()).collect()
    }

    /// Every content with what is not text; thoughts are left out.
    pub(super) fn whole(&self) -> Vec<MessageParts> {
        let all = self.items.iter().map(Content::whole);
        all.filter(|it| !it.parts.is_empty()).collect()
    }

    /// Adds a text to the end of the last content of the user; a new one if
    /// there is none.
    pub(super) fn remark(&mut self, text: &str) -> Result<(), DialectError> {
        let by_user = |it: &&mut Content| it.role() == Role::User;
        if let Some(last) = self.items.iter_mut().rev().find(by_user) {
            let mut parts = last.parts.clone();
            parts.push(Part::new(text)?);
            *last = last.with_parts(parts)?;
            return Ok(());
        }
        let (role, content) = (Role::User, text.to_owned());
        self.items.push(Content::new(&Message { role, content })?);
        Ok(())
    }

    /// The JSON of each content, as it came where nothing was edited.
    pub(super) fn texts(&self) -> Vec<Bytes> {
        self.items.iter().map(|it| it.document.to_bytes()).collect()
    }

    /// The JSON array.
    pub(super) fn to_array(&self) -> Bytes {
        array(self.texts().iter().map(AsRef::as_ref))
    }

    /// Writes the messages a hook returned, `system` ones left out by the
    /// caller. False, and nothing changed, if no content would be left.
    pub(super) fn write(&mut self, returned: &[Message]) -> Result<bool, DialectError> {
        let mut kept = align(&self.messages(), returned).into_iter();
        let mut writer = Writer::new(returned);
        for content in &self.items {
            match content.message() {
                None => writer.push(content.clone()),
                Some(old) => writer.push_shown(content, &old, kept.next().flatten())?,
            }
        }
        let written = writer.finish()?;
        let enough = !written.is_empty();
        if enough {
            self.items = written;
        }
        Ok(enough)
    }
}

/// Writes the new list of contents, from the start to the end.
#[derive(Debug)]
struct Writer<'a> {
    returned: &'a [Message],
    /// The first returned message that has no place yet.
    next: usize,
    /// Insertions that wait for a place.
    pending: Vec<Content>,
    written: Vec<Content>,
}

impl<'a> Writer<'a> {
    fn new(returned: &'a [Message]) -> Self {
        Self {
            returned,
            next: 0,
            pending: Vec::new(),
            written: Vec::new(),
        }
    }

    /// A content that was shown as `old` and came back as number `new`.
    fn push_shown(
        &mut self,
        content: &Content,
        old: &Message,
        new: Option<usize>,
    ) -> Result<(), DialectError> {
        let Some(at) = new else {
            if let Some(silent) = content.silent()? {
                self.push(silent);
            }
            return Ok(());
        };
        self.insert_until(at)?;
        self.next = at + 1;
        match self.returned.get(at) {
            Some(new) if new.content != old.content => self.push(content.saying(&new.content)?),
            Some(_) | None => self.push(content.clone()),
        }
        Ok(())
    }

    fn insert_until(&mut self, at: usize) -> Result<(), DialectError> {
        for message in self.returned.get(self.next..at).unwrap_or_default() {
            self.pending.push(Content::new(message)?);
        }
        Ok(())
    }

    /// INVARIANT: nothing is inserted between a functionCall and its
    /// functionResponse.
    fn push(&mut self, content: Content) {
        let calls = self.written.last().is_some_and(|it| it.has(FUNCTION_CALL));
        if !(calls && content.has(FUNCTION_RESPONSE)) {
            self.written.append(&mut self.pending);
        }
        self.written.push(content);
    }

    fn finish(mut self) -> Result<Vec<Content>, DialectError> {
        self.insert_until(self.returned.len())?;
        self.written.append(&mut self.pending);
        Ok(self.written)
    }
}

impl Content {
    pub(super) fn read(document: Document) -> Result<Self, DialectError> {
        let parts = document.children(PARTS)?.unwrap_or_default();
        let parts = parts.into_iter().map(Part::read);
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            document,
        })
    }

    fn new(message: &Message) -> Result<Self, DialectError> {
        let role = match message.role {
            Role::Model => "model",
            Role::User | Role::System => "user",
        };
        let value = json!({ "role": role, "parts": [{ "text": message.content }] });
        Self::read(Document::split(value.to_string().into())?)
    }

    pub(super) fn message(&self) -> Option<Message> {
        let content: String = self.parts.iter().filter_map(Part::plain_text).collect();
        (!content.is_empty()).then(|| Message {
            role: self.role(),
            content,
        })
    }

    pub(super) fn role(&self) -> Role {
        let role = self.document.string(&["role"]).unwrap_or_default();
        match role.as_deref() {
            Some("model") => Role::Model,
            _ => Role::User,
        }
    }

    fn whole(&self) -> MessageParts {
        let pieces = self
            .parts
            .iter()
            .filter(|it| it.text.is_none() || !it.thought);
        let piece = |it: &Part| match &it.text {
            Some(text) => MessagePart::Text(text.clone()),
            None => MessagePart::Json(it.document.to_bytes()),
        };
        MessageParts {
            role: self.role(),
            parts: pieces.map(piece).collect(),
        }
    }

    /// The same content with those of its parts that `keep` keeps.
    fn only(&self, keep: impl Fn(&Part) -> bool) -> Result<Self, DialectError> {
        self.with_parts(self.parts.iter().filter(|it| keep(it)).cloned().collect())
    }

    pub(super) fn has(&self, key: &[&str]) -> bool {
        self.parts.iter().any(|it| it.document.has(key))
    }

    /// The first plain text part takes the text, other plain text parts go.
    pub(super) fn saying(&self, text: &str) -> Result<Self, DialectError> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut said = false;
        for part in &self.parts {
            match part.plain_text() {
                None => parts.push(part.clone()),
                Some(_) if said => (),
                Some(_) => {
                    parts.push(part.saying(text)?);
                    said = true;
                }
            }
        }
        self.with_parts(parts)
    }

    /// Without its plain text; none if nothing is left.
    fn silent(&self) -> Result<Option<Self>, DialectError> {
        let silent = self.only(|it| it.plain_text().is_none())?;
        Ok(Some(silent).filter(|it| !it.parts.is_empty()))
    }

    /// The same content with other parts.
    pub(super) fn with_parts(&self, parts: Vec<Part>) -> Result<Self, DialectError> {
        let mut document = self.document.clone();
        let documents: Vec<Document> = parts.iter().map(|it| it.document.clone()).collect();
        document.set_children(PARTS, &documents)?;
        Ok(Self { document, parts })
    }

    pub(super) const fn document(&self) -> &Document {
        &self.document
    }
}

#[cfg(test)]
mod tests;
