//! One part of a content, in requests and responses.

use std::iter;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, to_document},
    error::Result,
    google::fields::{
        ARGUMENTS, CALLER, FUNCTION_CALL, IS_REFUSAL, PARTIAL_ARGS, PHASE, PRECEDING, SOURCE,
        STARTS_TEXT, TOOLSET_NAME, WILL_CONTINUE,
    },
};

/// Value of [`IS_REFUSAL`] of a refusal that follows another answer.
const NEXT_REFUSAL: &str = "next";
pub const TEXT: &[&str] = &["text"];
pub const THOUGHT: &[&str] = &["thought"];

/// A text, thought, function call, function response or media.
#[derive(Debug, Clone)]
pub struct Part {
    pub document: Document,
    pub text: Option<String>,
    /// True if it is marked as a thought.
    pub is_thought: bool,
}

/// A function call in a response.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// Function name; empty if the call names none.
    pub name: String,
    /// Set of tools to which the function belongs, if it is not declared by itself.
    pub toolset: Option<String>,
    /// Arguments; `null` if there are none.
    pub arguments: Value,
    /// True if the arguments arrive in several parts, of which this is one.
    pub is_partial: bool,
}

impl FunctionCall {
    /// Returns the names by which guards match the function: its own, and that of its toolset.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        iter::once(self.name.as_str()).chain(self.toolset.as_deref())
    }

    /// Returns the reason why hooks cannot inspect the call, if they cannot.
    pub fn refusal(&self) -> Option<&'static str> {
        if self.is_partial || self.name.is_empty() {
            return Some("its arguments are streamed in parts, which hooks cannot inspect");
        }
        let is_complete = matches!(self.arguments, Value::Null | Value::Object(_));
        (!is_complete).then_some("its arguments are not an object")
    }
}

/// Elements that agents put before the first prompt: gemini-cli, Claude Code and Codex.
const INTRODUCTION_ELEMENTS: &[&str] = &[
    "session_context",
    "environment_context",
    "system-reminder",
    "user_instructions",
];

/// Elements that agents add around prompts: Claude Code and Codex.
const CONTEXT_ELEMENTS: &[&str] = &[
    "environment_context",
    "system-reminder",
    "user_instructions",
];

/// Returns whether a text is an introduction that an agent puts before the first prompt.
pub fn is_introduction(text: &str) -> bool {
    consists_of(text, INTRODUCTION_ELEMENTS)
}

/// Returns whether a text consists of elements that an agent adds around prompts.
pub fn is_agent_context(text: &str) -> bool {
    consists_of(text, CONTEXT_ELEMENTS)
}

/// Returns whether a text consists of elements with these names. Each ends at its first end tag.
fn consists_of(text: &str, names: &[&str]) -> bool {
    let mut rest = text.trim();
    let mut has_element = false;
    while !rest.is_empty() {
        let behind = names.iter().find_map(|name| {
            let inner = rest.strip_prefix('<')?.strip_prefix(name)?;
            inner.strip_prefix('>')?.split_once(&format!("</{name}>"))
        });
        let Some((_, behind)) = behind else {
            return false;
        };
        has_element = true;
        rest = behind.trim_start();
    }
    has_element
}

/// Returns whether a part is a thought of the model.
pub fn is_thought(part: &Document) -> Result<bool> {
    let thought = part.bytes_of(THOUGHT)?;
    Ok(thought.is_some_and(|value| *value == *b"true"))
}

/// Returns whether a part is a refusal that follows another answer.
pub fn is_next_refusal(part: &Document) -> bool {
    let mark = part.string(&[IS_REFUSAL]);
    mark.is_ok_and(|mark| mark.as_deref() == Some(NEXT_REFUSAL))
}

impl Part {
    pub fn read(document: Document) -> Result<Self> {
        Ok(Self {
            text: document.string(TEXT)?,
            is_thought: is_thought(&document)?,
            document,
        })
    }

    /// Creates a part that holds a text only.
    pub fn from_text(text: &str) -> Result<Self> {
        Self::from_json(&json!({ "text": text }))
    }

    /// Creates a part that holds a refusal only.
    pub fn from_refusal(text: &str) -> Result<Self> {
        Self::from_json(&json!({ "text": text, IS_REFUSAL: true }))
    }

    /// Creates a part from JSON that hookgate made.
    pub fn from_json(part: &Value) -> Result<Self> {
        Self::read(to_document(part)?)
    }

    /// Returns the text, unless it is a thought.
    pub fn plain_text(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| !self.is_thought)
    }

    /// Returns the part with another text.
    pub fn with_text(&self, text: &str) -> Result<Self> {
        let mut document = self.document.clone();
        document.set(TEXT, &json!(text))?;
        Ok(Self {
            document,
            text: Some(text.to_owned()),
            is_thought: self.is_thought,
        })
    }

    /// Returns whether the part is an introduction of an agent.
    pub fn is_introduction(&self) -> bool {
        self.plain_text().is_some_and(is_introduction)
    }

    /// Returns whether the part is a refusal of the model.
    pub fn is_refusal(&self) -> bool {
        self.document.has(&[IS_REFUSAL])
    }

    /// Returns whether the part of another API than Google's does not continue the text in front
    /// of it.
    pub fn starts_text(&self) -> bool {
        self.document.has(&[STARTS_TEXT])
    }

    /// Returns whether the part is a text without any, or has nothing but a signature.
    pub fn is_blank(&self) -> bool {
        let only_text = ["text", "thought", "thoughtSignature", "thought_signature"];
        let text = self.text.as_deref().unwrap_or_default();
        text.is_empty() && self.document.has_only(&only_text)
    }

    /// Returns the refusal as one that follows another answer.
    pub fn as_next_refusal(&self) -> Result<Self> {
        let mut part = self.clone();
        part.document.set(&[IS_REFUSAL], &json!(NEXT_REFUSAL))?;
        Ok(part)
    }

    /// Returns whether the part holds text only.
    pub fn is_text_only(&self) -> bool {
        let fields = ["text", "thought", IS_REFUSAL, PHASE, SOURCE, STARTS_TEXT];
        self.text.is_some() && self.document.has_only(&fields)
    }

    /// Returns whether this part and the next one hold text only, of the same kind.
    pub fn can_join(&self, next: &Self) -> bool {
        let phase = |part: &Self| part.document.string(&[PHASE]).ok().flatten();
        let next_phase = phase(next);
        (next_phase.is_none() || next_phase == phase(self))
            && self.is_thought == next.is_thought
            && self.is_refusal() == next.is_refusal()
            && !is_next_refusal(&next.document)
            && !next.starts_text()
            && self.is_text_only()
            && next.is_text_only()
    }

    /// Returns the function call in the part.
    pub fn call(&self) -> Result<Option<FunctionCall>> {
        let Some(call) = self.document.child(FUNCTION_CALL)? else {
            return Ok(None);
        };
        let will_continue = call.get(WILL_CONTINUE)? == Some(Value::Bool(true));
        Ok(Some(FunctionCall {
            name: call.string(&["name"])?.unwrap_or_default(),
            toolset: call.string(TOOLSET_NAME)?,
            arguments: call.get(ARGUMENTS)?.unwrap_or_default(),
            is_partial: call.has(PARTIAL_ARGS) || will_continue,
        }))
    }

    /// Returns whether the part is a later piece of the call in front of it.
    pub fn continues_call(&self) -> Result<bool> {
        Ok(self.call()?.is_some_and(|call| call.name.is_empty()))
    }

    /// Returns the id of the function call in the part.
    pub fn call_id(&self) -> Result<Option<String>> {
        let call = self.document.child(FUNCTION_CALL)?.unwrap_or_default();
        call.string(&["id"])
    }

    /// Returns the function call with other arguments.
    pub fn with_arguments(&self, arguments: &Map<String, Value>) -> Result<Self> {
        self.edit_call(|call| call.set(ARGUMENTS, &Value::Object(arguments.clone())))
    }

    /// Returns the function call as a request takes it: without the fields of partial calls,
    /// its caller, which may be code that is not in the request, and its place in the response.
    pub fn complete_call(&self) -> Result<Self> {
        let mut part = self.edit_call(|call| {
            call.remove(CALLER)?;
            call.remove(PARTIAL_ARGS)?;
            call.remove(WILL_CONTINUE)
        })?;
        part.document.remove(&[SOURCE])?;
        Ok(part)
    }

    /// Returns the part as hooks see it: without what only another API needs.
    pub fn shown(&self) -> Result<Bytes> {
        let mut part = self.document.clone();
        part.remove(&[PRECEDING])?;
        part.remove(&[SOURCE])?;
        part.remove(&[IS_REFUSAL])?;
        part.remove(&[STARTS_TEXT])?;
        Ok(part.to_bytes())
    }

    fn edit_call(&self, edit: impl FnOnce(&mut Document) -> Result<()>) -> Result<Self> {
        let mut part = self.document.clone();
        part.edit_child(FUNCTION_CALL, edit)?;
        Self::read(part)
    }
}
