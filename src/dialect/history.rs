//! A conversation as agents send it again and again, and edits of it. Pure.
//!
//! Only contents that somebody asks for are parsed. Places are those of the
//! request as it came: edits are collected, and none of them moves another.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    DialectError, Document,
    canonical::{ItemKind, items_of},
    change::Change,
    contents::Content,
    document::array,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
    request::{CONTENTS, WRAPPED},
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

/// One content, as far as conversations are told apart by it.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    /// What stays the same however often it is sent: no thoughts, signatures,
    /// ids or empty texts.
    pub lasting: String,
    /// Whether the model speaks.
    pub by_model: bool,
    /// Whether it holds results of tools.
    pub answers_tools: bool,
    /// Its text, thoughts left out.
    pub text: String,
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The id of the call that it answers, if agents give ids.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it said; `null` if nothing.
    pub response: Value,
}

/// The call that a tool's result answers.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredCall {
    /// The place of the result's part.
    pub part: usize,
    /// The tool.
    pub name: String,
    /// Its arguments; `null` if the call had none or is not there.
    pub args: Value,
}

impl History {
    /// The conversation of a request; none if it has no list of contents.
    pub fn read(document: &Document) -> Result<Option<Self>, DialectError> {
        let mut wrapped = false;
        let mut list = document.list(CONTENTS)?;
        if list.is_none() {
            let inner = document.child(WRAPPED)?;
            list = inner.map_or(Ok(None), |it| it.list(CONTENTS))?;
            wrapped = list.is_some();
        }
        Ok(list.map(|contents| Self {
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
        turn_of(&self.parsed(at)?).map(Some)
    }

    /// The calls that the results of one content answer, in the order of the
    /// results. They are paired by id, else by order among those of one name.
    pub fn calls_for(&self, content: usize) -> Result<Vec<AnsweredCall>, DialectError> {
        let mut before = Vec::new();
        let mut at = content;
        let mut calls = Vec::new();
        // Some agents give each result, or each call, a content of its own.
        while let Some(earlier) = at.checked_sub(1) {
            let parsed = self.parsed(earlier)?;
            match parsed.role() {
                Role::Model => calls.splice(0..0, calls_in(&parsed)?).for_each(drop),
                Role::User | Role::System if calls.is_empty() && parsed.has(FUNCTION_RESPONSE) => {
                    before.splice(0..0, results_in(&parsed)?).for_each(drop);
                }
                Role::User | Role::System => break,
            }
            at = earlier;
        }
        let parsed = self.parsed(content)?;
        let mut answers = Vec::new();
        for (part, result) in results_in(&parsed)? {
            let args = answered(&calls, &before, &result).unwrap_or_default();
            let name = result.name.clone();
            answers.push(AnsweredCall { part, name, args });
            before.push((part, result));
        }
        Ok(answers)
    }

    /// A tool's result; none if the part is no result.
    pub fn result(&self, content: usize, part: usize) -> Result<Option<ToolResult>, DialectError> {
        let content = self.parsed(content)?;
        let part = content.parts.get(part);
        part.map_or(Ok(None), result_of)
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
    /// which the user speaks, behind what gemini-cli tells of itself.
    pub fn lead(&mut self, text: &str) -> Result<(), DialectError> {
        for at in 0..self.contents.len() {
            let content = self.parsed(at)?;
            if content.role() == Role::User && !content.has(FUNCTION_RESPONSE) {
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
            let inserted = Document::parse(Bytes::from(text.clone()))?;
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
            change.take_out(Part::is_introduction);
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

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        let gone = |at| self.changes.get(&at).is_some_and(|it| it.gone);
        self.front.is_empty() && (0..self.contents.len()).all(gone)
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
        let bytes = self.contents.get(at).cloned();
        let bytes = bytes.unwrap_or_else(|| Bytes::from_static(b"{}"));
        Content::read(Document::parse(bytes)?)
    }

    fn change(&mut self, at: usize) -> Result<&mut Change, DialectError> {
        let content = self.parsed(at)?;
        let change = self.changes.entry(at);
        Ok(change.or_insert_with(|| Change::new(content)))
    }
}

fn turn_of(content: &Content) -> Result<Turn, DialectError> {
    let lasting: Result<String, DialectError> = content.parts.iter().map(Part::lasting).collect();
    Ok(Turn {
        lasting: lasting?,
        by_model: content.role() == Role::Model,
        answers_tools: content.has(FUNCTION_RESPONSE),
        text: content.message().map(|it| it.content).unwrap_or_default(),
    })
}

fn result_of(part: &Part) -> Result<Option<ToolResult>, DialectError> {
    let Some(result) = part.document.child(FUNCTION_RESPONSE)? else {
        return Ok(None);
    };
    Ok(Some(ToolResult {
        id: result.string(&["id"])?,
        name: result.string(&["name"])?.unwrap_or_default(),
        response: result.get(&["response"])?.unwrap_or_default(),
    }))
}

/// The results of a content with their places, each once.
fn results_in(content: &Content) -> Result<Vec<(usize, ToolResult)>, DialectError> {
    let mut results = Vec::new();
    for item in items_of(&content.parts, content.role())? {
        let part = content.parts.get(item.part);
        if let (ItemKind::Result, Some(part)) = (item.kind, part) {
            results.extend(result_of(part)?.map(|it| (item.part, it)));
        }
    }
    Ok(results)
}

struct Call {
    id: Option<String>,
    name: String,
    args: Value,
}

fn calls_in(content: &Content) -> Result<Vec<Call>, DialectError> {
    let mut calls = Vec::new();
    for part in &content.parts {
        if let Some(call) = part.document.child(FUNCTION_CALL)? {
            calls.push(Call {
                id: call.string(&["id"])?,
                name: call.string(&["name"])?.unwrap_or_default(),
                args: call.get(&["args"])?.unwrap_or_default(),
            });
        }
    }
    Ok(calls)
}

/// The arguments of the call that `result` answers, when `before` are answered.
fn answered(calls: &[Call], before: &[(usize, ToolResult)], result: &ToolResult) -> Option<Value> {
    let named = || calls.iter().filter(|it| it.name == result.name);
    let by_id = || named().find(|it| it.id.is_some() && it.id == result.id);
    let earlier = before.iter().filter(|it| it.1.name == result.name);
    let call = by_id().or_else(|| named().nth(earlier.count()));
    call.map(|it| it.args.clone())
}

#[cfg(test)]
mod tests;
