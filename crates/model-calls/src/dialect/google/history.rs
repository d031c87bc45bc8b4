//! The conversation of a request as agents resend it, and edits of it.
//!
//! Contents are parsed when they are requested. Indexes are those of the request as sent:
//! edits are collected, so none of them shifts another.

mod content_edit;
mod tool_result_matching;

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

use bytes::Bytes;

pub use self::tool_result_matching::ToolResult;
use self::{content_edit::ContentEdit, tool_result_matching::PrecedingCalls};
use crate::{
    dialect::{
        document::{Document, repeated_json, write_array},
        error::{DialectError, Result},
        google::{
            canonical_items::{ContentItems, ItemKind},
            content::{Content, text_content},
            fields::{CONTENTS, FUNCTION_CALL, FUNCTION_RESPONSE, WRAPPED_REQUEST},
            part::Part,
        },
    },
    model::Role,
};

/// The conversation of a request.
#[derive(Debug, Clone)]
pub struct History {
    contents: Vec<Bytes>,
    /// True if the contents are in the wrapped request of a `countTokens` call.
    is_wrapped: bool,
    edits: BTreeMap<usize, ContentEdit>,
    /// Contents inserted in front.
    front: Vec<Bytes>,
}

/// Role and text of one content.
#[derive(Debug, PartialEq, Eq)]
pub struct HistoryMessage {
    /// True if it is the model's.
    pub by_model: bool,
    /// Plain text, without thoughts.
    pub text: String,
}

impl History {
    /// Reads the conversation of a request; `None` if it has no list of contents.
    pub fn read(document: &Document) -> Result<Option<Self>> {
        let contents = repeated_json(document, CONTENTS)?;
        let wrapped = document.child(WRAPPED_REQUEST)?.unwrap_or_default();
        let wrapped = repeated_json(&wrapped, CONTENTS)?;
        let is_wrapped = wrapped.is_some();
        if contents.is_some() && is_wrapped {
            return Err(DialectError::Ambiguous("contents".to_owned()));
        }
        let Some(contents) = contents.or(wrapped) else {
            return Ok(None);
        };
        Ok(Some(Self {
            contents,
            is_wrapped,
            edits: BTreeMap::new(),
            front: Vec::new(),
        }))
    }

    /// Returns the unedited contents.
    pub fn contents(&self) -> &[Bytes] {
        &self.contents
    }

    /// Returns role and text of one unedited content; `None` if the index is out of range.
    pub fn message(&self, index: usize) -> Result<Option<HistoryMessage>> {
        if index >= self.contents.len() {
            return Ok(None);
        }
        let content = self.parse(index)?;
        let message = content.message();
        Ok(Some(HistoryMessage {
            by_model: content.role() == Role::Model,
            text: message.map(|message| message.content).unwrap_or_default(),
        }))
    }

    /// Returns the tool results around one content, in order, with the calls that they
    /// answer: those of all contents of the user up to the model's next ones, or of a
    /// content of the model that one alone.
    pub fn results(&self, content: usize) -> Result<Vec<ToolResult>> {
        let requested = self.parse(content)?;
        if requested.role() == Role::Model {
            // Tools answer as the user, but a result in a content of the model must not
            // escape hooks.
            let answers = [(content, requested.clone())];
            return match_results(&[requested], &answers);
        }
        let mut answers = VecDeque::new();
        let mut calls = VecDeque::new();
        // Some agents give each result, or each call, a content of its own.
        for index in (0..=content).rev() {
            let parsed = self.parse(index)?;
            match parsed.role() {
                Role::Model => calls.push_front(parsed),
                Role::User | Role::System if calls.is_empty() => {
                    answers.push_front((index, parsed));
                }
                Role::User | Role::System => break,
            }
        }
        for index in content + 1..self.contents.len() {
            let parsed = self.parse(index)?;
            if parsed.role() == Role::Model {
                break;
            }
            answers.push_back((index, parsed));
        }
        match_results(calls.make_contiguous(), answers.make_contiguous())
    }

    /// Inserts a text in front of the conversation: in the first remaining content of the
    /// user without tool results, behind gemini-cli's introduction.
    pub fn prepend_text(&mut self, text: &str) -> Result<()> {
        for index in 0..self.contents.len() {
            let content = self.parse(index)?;
            let is_prompt = content.role() == Role::User && !content.has(FUNCTION_RESPONSE);
            if is_prompt && !self.is_removed(index) {
                self.edit(index)?.leading.push(Part::from_text(text)?);
                return Ok(());
            }
        }
        self.front.push(text_content(Role::User, text));
        Ok(())
    }

    /// Removes contents `from..to`, and the calls that they answer. The `kept` parts stay: pairs
    /// of a content's index and a part's in it, in order.
    pub fn remove_contents(
        &mut self,
        from: usize,
        to: usize,
        kept: &[(usize, usize)],
    ) -> Result<()> {
        let mut has_results = false;
        for index in from..to.min(self.contents.len()) {
            let edit = self.edit(index)?;
            has_results |= edit.content.has(FUNCTION_RESPONSE);
            edit.remove_request(|part| kept.binary_search(&(index, part)).is_ok());
        }
        let mut end = if has_results { from } else { 0 };
        while let Some(index) = end.checked_sub(1) {
            if self.parse(index)?.role() != Role::Model {
                break;
            }
            let edit = self.edit(index)?;
            if edit.content.has(FUNCTION_CALL) {
                edit.retain_parts(|_, part| !part.document.has(FUNCTION_CALL));
            }
            end = index;
        }
        Ok(())
    }

    /// Returns whether all contents of the agent were removed, or have only kept parts.
    pub fn is_empty(&self) -> bool {
        let is_removed = |edit: &ContentEdit| edit.is_removed || edit.is_denied;
        let mut edits = (0..self.contents.len()).map(|index| self.edits.get(&index));
        edits.all(|edit| edit.is_some_and(is_removed))
    }

    fn is_removed(&self, index: usize) -> bool {
        self.edits.get(&index).is_some_and(|edit| edit.is_removed)
    }

    /// Returns whether any content was edited.
    pub fn is_edited(&self) -> bool {
        !self.edits.is_empty() || !self.front.is_empty()
    }

    /// Writes the edited conversation to its request.
    pub fn write(&self, document: &mut Document) -> Result<()> {
        if !self.is_edited() {
            return Ok(());
        }
        let mut contents = self.front.clone();
        for (index, content) in self.contents.iter().enumerate() {
            match self.edits.get(&index) {
                Some(edit) => edit.write(&mut contents)?,
                None => contents.push(content.clone()),
            }
        }
        let contents = write_array(contents);
        if self.is_wrapped {
            document.edit_child(WRAPPED_REQUEST, |inner| inner.set_bytes(CONTENTS, contents))
        } else {
            document.set_bytes(CONTENTS, contents)
        }
    }

    fn parse(&self, index: usize) -> Result<Content> {
        parse_content(self.contents.get(index))
    }

    /// Returns the edit of one content.
    pub fn edit(&mut self, index: usize) -> Result<&mut ContentEdit> {
        let content = self.contents.get(index);
        match self.edits.entry(index) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(ContentEdit::new(parse_content(content)?)?)),
        }
    }
}

/// Returns the results in `answers`, which are contents with their indexes, together with
/// the calls that they answer.
fn match_results(calls: &[Content], answers: &[(usize, Content)]) -> Result<Vec<ToolResult>> {
    let mut calls = PrecedingCalls::read(calls.iter().flat_map(|content| &content.parts))?;
    let mut results = Vec::new();
    for (index, content) in answers {
        let items = ContentItems::read(&content.parts, content.role())?.items;
        for item in items.iter().filter(|item| item.kind == ItemKind::Result) {
            let Some(part) = content.parts.get(item.part) else {
                continue;
            };
            results.extend(calls.next_result(part)?.map(|result| ToolResult {
                content: *index,
                part: item.part,
                ..result
            }));
        }
    }
    Ok(results)
}

/// Parses a content; a missing one counts as empty.
fn parse_content(content: Option<&Bytes>) -> Result<Content> {
    let empty = || Bytes::from_static(b"{}");
    Content::from_bytes(content.cloned().unwrap_or_else(empty))
}

#[cfg(test)]
mod tests;
