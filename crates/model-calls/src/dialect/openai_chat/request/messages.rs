//! The messages of a request: contents and system instruction of the content form, and edits
//! of both.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{numbered, parts_in, source_of, splice_list},
    document::{Document, count_values, same_bytes, write_array},
    error::Result,
    google::fields::{CONTENTS, PARTS, SYSTEM_INSTRUCTION},
    openai_chat::{
        fields::{MESSAGES, ROLE},
        request::{
            message::{CallNames, ChatMessage, ChatRole},
            message_edit::rewrite_message,
            new_message::{create_messages, text_message},
        },
    },
};

/// The messages of a request.
#[derive(Debug)]
pub struct ChatMessages {
    documents: Vec<Document>,
    messages: Vec<ChatMessage>,
}

impl ChatMessages {
    /// Reads the messages of a request; `None` if it has no list of them.
    pub fn read(body: &Document) -> Result<Option<Self>> {
        let Some(documents) = body.children(MESSAGES)? else {
            return Ok(None);
        };
        let (mut names, mut values) = (CallNames::new(), 0);
        let messages = documents.iter();
        let messages = messages.map(|message| -> Result<ChatMessage> {
            let message = ChatMessage::read(message, &mut names)?;
            let mut parts = message.parts.iter();
            parts.try_for_each(|(_, part)| count_values(&mut values, part))?;
            Ok(message)
        });
        Ok(Some(Self {
            messages: messages.collect::<Result<_, _>>()?,
            documents,
        }))
    }

    /// Returns the contents: one for each message that is no instruction.
    pub fn contents(&self) -> Vec<Value> {
        let messages = self.messages.iter().enumerate();
        let messages = messages.filter(|(_, message)| message.role != ChatRole::System);
        let contents = messages.map(|(index, message)| message.to_content(index));
        contents.collect()
    }

    /// Returns the system instruction: the parts of all instructions, numbered.
    pub fn system_instruction(&self) -> Option<Value> {
        let parts = numbered(self.system_parts().map(|(_, part)| part.clone()));
        (!parts.is_empty()).then(|| json!({ "parts": parts }))
    }

    /// Returns the parts of all instructions with the indexes of their messages.
    fn system_parts(&self) -> impl Iterator<Item = (usize, &Value)> {
        let messages = self.messages.iter().enumerate();
        let messages = messages.filter(|(_, message)| message.role == ChatRole::System);
        messages.flat_map(|(index, message)| {
            let parts = message.parts.iter();
            parts.map(move |(_, part)| (index, part))
        })
    }

    /// Writes the edited contents and system instruction into the request.
    pub fn write(&self, body: &mut Document, before: &Document, after: &Document) -> Result<()> {
        let mut originals: Vec<Bytes> = self.documents.iter().map(Document::to_bytes).collect();
        let system = |document: &Document| document.bytes_of(SYSTEM_INSTRUCTION);
        let is_system_edited = system(before)? != system(after)?;
        let contents = |document: &Document| document.bytes_of(CONTENTS);
        if !is_system_edited && contents(before)? == contents(after)? {
            return Ok(());
        }
        let mut new_system = Vec::new();
        if is_system_edited {
            new_system = self.write_system(&mut originals, before, after)?;
        }
        let list = |document: &Document, field| -> Result<Vec<Document>> {
            Ok(document.children(field)?.unwrap_or_default())
        };
        let rewrite = |index: usize, before: &Document, after: &Document| {
            let Some(message) = self.documents.get(index) else {
                return Ok(Vec::new());
            };
            rewrite_message(message, 0, &list(before, PARTS)?, &list(after, PARTS)?)
        };
        let (before, after) = (list(before, CONTENTS)?, list(after, CONTENTS)?);
        let mut written = splice_list(&originals, &before, &after, rewrite, create_messages)?;
        written.retain(|message| !message.is_empty());
        if !self.has_text_between_results() {
            written = keep_results_together(written)?;
        }
        let written = insert_system(written, &new_system)?;
        body.set_bytes(MESSAGES, write_array(written))
    }

    /// Returns whether the agent itself put messages of the user between results.
    fn has_text_between_results(&self) -> bool {
        let messages = self.messages.iter();
        let mut roles = messages.map(|message| message.role).peekable();
        while let Some(role) = roles.next() {
            let mut is_behind_result = false;
            while role == ChatRole::Tool && roles.next_if_eq(&ChatRole::User).is_some() {
                is_behind_result = true;
            }
            if is_behind_result && roles.peek() == Some(&ChatRole::Tool) {
                return true;
            }
        }
        false
    }

    /// Writes edited instructions into `originals`; removed messages become empty. Returns the
    /// texts of new ones.
    fn write_system(
        &self,
        originals: &mut [Bytes],
        before: &Document,
        after: &Document,
    ) -> Result<Vec<String>> {
        let before = parts_in(before, SYSTEM_INSTRUCTION)?;
        let (mut new, mut kept) = (Vec::new(), HashMap::new());
        for part in parts_in(after, SYSTEM_INSTRUCTION)? {
            match source_of(&part) {
                Some(number) => drop(kept.insert(number, part)),
                None => new.extend(part.string(&["text"])?),
            }
        }
        let mut first = 0;
        for (index, message) in self.messages.iter().enumerate() {
            if message.role != ChatRole::System {
                continue;
            }
            let numbers = first..first + message.parts.len();
            let old = before.get(numbers.clone()).unwrap_or_default();
            let new: Vec<Document> = numbers.filter_map(|number| kept.remove(&number)).collect();
            if !same_bytes(old, &new)
                && let Some(document) = self.documents.get(index)
                && let Some(original) = originals.get_mut(index)
            {
                let rewritten = rewrite_message(document, first, old, &new)?;
                *original = rewritten.into_iter().next().unwrap_or_default();
            }
            first += message.parts.len();
        }
        Ok(new)
    }
}

/// Moves texts that follow one result of a step behind its other results: the API takes
/// nothing between calls and their results.
fn keep_results_together(messages: Vec<Bytes>) -> Result<Vec<Bytes>> {
    let mut kept = Vec::with_capacity(messages.len());
    let mut delayed = Vec::new();
    let mut in_results = false;
    for message in messages {
        let role = Document::from_checked(message.clone())?.string(ROLE)?;
        match role.as_deref() {
            Some("tool" | "function") => in_results = true,
            Some("user") if in_results => {
                delayed.push(message);
                continue;
            }
            Some(_) | None => {
                in_results = false;
                kept.append(&mut delayed);
            }
        }
        kept.push(message);
    }
    kept.append(&mut delayed);
    Ok(kept)
}

/// Inserts new instructions behind those with which the conversation begins.
fn insert_system(messages: Vec<Bytes>, texts: &[String]) -> Result<Vec<Bytes>> {
    if texts.is_empty() {
        return Ok(messages);
    }
    let mut leading = Vec::new();
    for message in &messages {
        match Document::from_checked(message.clone())?.string(ROLE)? {
            Some(role) if role == "system" || role == "developer" => leading.push(role),
            Some(_) | None => break,
        }
    }
    let role = leading.last().map_or("system", String::as_str);
    let at = leading.len();
    let mut messages = messages;
    messages.splice(at..at, texts.iter().map(|text| text_message(role, text)));
    Ok(messages)
}
