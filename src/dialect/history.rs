//! A conversation as agents send it again and again, and edits of it. Pure.
//!
//! Only contents that somebody asks for are parsed. Places are those of the
//! request as it came: edits are collected, and none of them moves another.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

use bytes::Bytes;
use serde_json::json;

use super::{
    DialectError, Document, ToolResult,
    canonical::{ItemKind, Items},
    content_edit::Change,
    contents::Content,
    document::array,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
    request::{CONTENTS, WRAPPED},
    tool_result_matching::Answered,
};
use crate::model::Role;

/// The conversation of a request, content by content.
#[derive(Debug, Clone)]
pub struct History {
    contents: Vec<Bytes>,
    /// Whether it stands in a request that is wrapped to be counted.
    wrapped: bool,
    changes: BTreeMap<usize, Change>,
    /// Contents in front of all others.
    front: Vec<Bytes>,
}

/// What one content says.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether the model speaks.
    pub by_model: bool,
    /// Its text, thoughts left out.
    pub text: String,
}

impl History {
    /// The conversation of a request; none if it has no list of contents.
    pub fn read(document: &Document) -> Result<Option<Self>, DialectError> {
        let list = document.list(CONTENTS)?;
        let inner = document.child(WRAPPED)?;
        let inner = inner.map_or(Ok(None), |it| it.list(CONTENTS))?;
        let wrapped = inner.is_some();
        if list.is_some() && wrapped {
            return Err(DialectError::Ambiguous("contents".to_owned()));
        }
        Ok(list.or(inner).map(|contents| Self {
            contents,
            wrapped,
            changes: BTreeMap::new(),
            front: Vec::new(),
        }))
    }

    /// Every content as it came.
    pub fn contents(&self) -> &[Bytes] {
        &self.contents
    }

    /// One content; none if there is no such content.
    pub fn turn(&self, at: usize) -> Result<Option<Turn>, DialectError> {
        if at >= self.contents.len() {
            return Ok(None);
        }
        let content = self.parsed(at)?;
        Ok(Some(Turn {
            by_model: content.role() == Role::Model,
            text: content.message().map(|it| it.content).unwrap_or_default(),
        }))
    }

    /// The results of tools in the step of one content, in order, with the calls
    /// that they answer: all that the user says there between the model's words, or
    /// all of a content that the model says.
    pub fn results(&self, content: usize) -> Result<Vec<ToolResult>, DialectError> {
        let mut said = VecDeque::new();
        let mut calls = VecDeque::new();
        let asked = self.parsed(content)?;
        if asked.role() == Role::Model {
            // No tool answers there, but who says so must not pass unseen.
            return results(std::slice::from_ref(&asked), &[(content, asked.clone())]);
        }
        // Some agents give each result, or each call, a content of its own.
        for at in (0..=content).rev() {
            let parsed = self.parsed(at)?;
            match parsed.role() {
                Role::Model => calls.push_front(parsed),
                Role::User | Role::System if calls.is_empty() => said.push_front((at, parsed)),
                Role::User | Role::System => break,
            }
        }
        for at in content + 1..self.contents.len() {
            let parsed = self.parsed(at)?;
            if parsed.role() == Role::Model {
                break;
            }
            said.push_back((at, parsed));
        }
        results(calls.make_contiguous(), said.make_contiguous())
    }

    /// Says an error in the place of a tool's result, wherever its content says
    /// that result. Media of that content go: they may be a part of it.
    pub fn replace_result(
        &mut self,
        content: usize,
        part: usize,
        reason: &str,
    ) -> Result<(), DialectError> {
        self.change(content)?.replace_result(part, reason)
    }

    /// Appends a text to a tool's result: to `output`, else to its only text,
    /// else as `hook_context`.
    pub fn append_to_result(
        &mut self,
        content: usize,
        part: usize,
        text: &str,
    ) -> Result<(), DialectError> {
        self.change(content)?.append(part, text)
    }

    /// Adds a text to the end of a content.
    pub fn add_part(&mut self, content: usize, text: &str) -> Result<(), DialectError> {
        self.change(content)?.added.push(Part::new(text)?);
        Ok(())
    }

    /// Adds a text to the front of the conversation: to the first content in
    /// which the user speaks and that was not taken out, behind what gemini-cli
    /// tells of itself.
    pub fn lead(&mut self, text: &str) -> Result<(), DialectError> {
        for at in 0..self.contents.len() {
            let content = self.parsed(at)?;
            let asks = content.role() == Role::User && !content.has(FUNCTION_RESPONSE);
            if asks && !self.is_gone(at) {
                self.change(at)?.leading.push(Part::new(text)?);
                return Ok(());
            }
        }
        let content = json!({ "role": "user", "parts": [{ "text": text }] });
        self.front.push(content.to_string().into());
        Ok(())
    }

    /// Puts contents, as JSON, behind one.
    pub fn insert_after(&mut self, content: usize, new: &[String]) -> Result<(), DialectError> {
        let change = self.change(content)?;
        for text in new {
            let inserted = Document::split(Bytes::from(text.clone()))?;
            change.following.push(inserted.to_bytes());
        }
        Ok(())
    }

    /// Takes contents `from..to` out. If they answer calls of tools, the calls
    /// go too; what gemini-cli says of itself before the first prompt stays.
    pub fn take_out(&mut self, from: usize, to: usize) -> Result<(), DialectError> {
        let mut answers = false;
        for at in from..to.min(self.contents.len()) {
            let change = self.change(at)?;
            answers |= change.content.has(FUNCTION_RESPONSE);
            change.take_out_prompt(at == 0);
        }
        let mut earlier = if answers { from } else { 0 };
        while let Some(at) = earlier.checked_sub(1) {
            if self.parsed(at)?.role() != Role::Model {
                break;
            }
            let change = self.change(at)?;
            if change.content.has(FUNCTION_CALL) {
                change.take_out(|it| !it.document.has(FUNCTION_CALL));
            }
            earlier = at;
        }
        Ok(())
    }

    /// Whether nothing is left of what the agent sent.
    pub fn is_empty(&self) -> bool {
        (0..self.contents.len()).all(|it| self.is_gone(it))
    }

    fn is_gone(&self, at: usize) -> bool {
        self.changes.get(&at).is_some_and(|it| it.gone)
    }

    /// Whether anything of it was edited.
    pub fn is_edited(&self) -> bool {
        !self.changes.is_empty() || !self.front.is_empty()
    }

    /// Writes the conversation back, if it was edited.
    pub fn write(&self, document: &mut Document) -> Result<(), DialectError> {
        if !self.is_edited() {
            return Ok(());
        }
        let mut all = self.front.clone();
        for (at, content) in self.contents.iter().enumerate() {
            match self.changes.get(&at) {
                Some(change) => change.write(&mut all)?,
                None => all.push(content.clone()),
            }
        }
        let contents = array(all.iter().map(AsRef::as_ref));
        match document.child(WRAPPED)?.filter(|_| self.wrapped) {
            Some(mut inner) => {
                inner.set_bytes(CONTENTS, contents)?;
                document.set_child(WRAPPED, &inner)
            }
            None => document.set_bytes(CONTENTS, contents),
        }
    }

    fn parsed(&self, at: usize) -> Result<Content, DialectError> {
        parsed(self.contents.get(at))
    }

    fn change(&mut self, at: usize) -> Result<&mut Change, DialectError> {
        let bytes = self.contents.get(at);
        match self.changes.entry(at) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(Change::new(parsed(bytes)?)?)),
        }
    }
}

/// The results that contents say, each with its place, and the calls they answer.
fn results(calls: &[Content], said: &[(usize, Content)]) -> Result<Vec<ToolResult>, DialectError> {
    let mut answered = Answered::to(calls.iter().flat_map(|it| &it.parts))?;
    let mut results = Vec::new();
    for (at, said) in said {
        let items = Items::of(&said.parts, said.role())?.items.into_iter();
        for item in items.filter(|it| it.kind == ItemKind::Result) {
            let part = said.parts.get(item.part);
            let result = part.map(|it| answered.result((*at, item.part), it));
            results.extend(result.transpose()?.flatten());
        }
    }
    Ok(results)
}

/// A content; an empty one if there is none.
fn parsed(content: Option<&Bytes>) -> Result<Content, DialectError> {
    let bytes = content.cloned();
    let bytes = bytes.unwrap_or_else(|| Bytes::from_static(b"{}"));
    Content::read(Document::split(bytes)?)
}

#[cfg(test)]
mod tests;
