//! One part of a content, in a request as in an answer. Pure.

use serde_json::{Value, json};

use super::{DialectError, Document, FunctionCall};

const TEXT: &[&str] = &["text"];
pub(super) const FUNCTION_CALL: &[&str] = &["functionCall", "function_call"];
pub(super) const FUNCTION_RESPONSE: &[&str] = &["functionResponse", "function_response"];
/// Arguments of a call that come in pieces.
pub(super) const PARTIAL: &[&str] = &["partialArgs", "partial_args"];
/// Whether more of a call, or of an argument, comes.
pub(super) const WILL_CONTINUE: &[&str] = &["willContinue", "will_continue"];

/// A text, a thought, a call, a response, media.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) document: Document,
    /// Its text, if it has one.
    pub(super) text: Option<String>,
    pub(super) thought: bool,
}

/// Whether a text is one in which gemini-cli tells of itself.
pub(super) fn introduces(text: &str) -> bool {
    text.starts_with("<session_context>") && text.trim_end().ends_with("</session_context>")
}

impl Part {
    pub(super) fn read(document: Document) -> Result<Self, DialectError> {
        Ok(Self {
            text: document.string(TEXT)?,
            thought: document
                .bytes_of(&["thought"])?
                .is_some_and(|it| *it == *b"true"),
            document,
        })
    }

    /// A part that is only text.
    pub(super) fn new(text: &str) -> Result<Self, DialectError> {
        Self::read(Document::split(json!({ "text": text }).to_string().into())?)
    }

    /// Its text, if it is no thought.
    pub(super) fn plain_text(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| !self.thought)
    }

    /// The same part with another text.
    pub(super) fn saying(&self, text: &str) -> Result<Self, DialectError> {
        let mut document = self.document.clone();
        document.set(TEXT, &json!(text))?;
        Ok(Self {
            document,
            text: Some(text.to_owned()),
            thought: self.thought,
        })
    }

    /// What gemini-cli tells of itself in front of the first prompt.
    pub(super) fn is_introduction(&self) -> bool {
        introduces(self.plain_text().unwrap_or_default())
    }

    /// Whether it and the next part are nothing but text of the same kind.
    pub(super) fn joins(&self, next: &Self) -> bool {
        let only_text = |it: &Self| {
            let mut fields = it.document.fields();
            it.text.is_some() && fields.all(|it| it.0 == "text" || it.0 == "thought")
        };
        self.thought == next.thought && only_text(self) && only_text(next)
    }

    /// The function call it is, if it is one.
    pub(super) fn call(&self) -> Result<Option<FunctionCall>, DialectError> {
        let Some(call) = self.document.child(FUNCTION_CALL)? else {
            return Ok(None);
        };
        Ok(Some(FunctionCall {
            name: call.string(&["name"])?.unwrap_or_default(),
            arguments: call.get(&["args"])?.unwrap_or_default(),
            in_pieces: call.has(PARTIAL) || call.get(WILL_CONTINUE)? == Some(Value::Bool(true)),
        }))
    }
}
