//! A conversation as agents send it again and again: what of it stays the same,
//! and how a step is taken out of it. Pure.

use super::{DialectError, Document, contents::Contents, request::CONTENTS};

/// The conversation of a request, content by content.
#[derive(Debug)]
pub struct History {
    contents: Contents,
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

impl History {
    /// The conversation of a request; none if it has no list of contents.
    pub fn read(document: &Document) -> Result<Option<Self>, DialectError> {
        let Some(list) = document.children(CONTENTS)? else {
            return Ok(None);
        };
        let contents = Contents::read(list)?;
        Ok(Some(Self { contents }))
    }

    /// Every content in order.
    pub fn turns(&self) -> Result<Vec<Turn>, DialectError> {
        self.contents.turns()
    }

    /// Takes contents `from..to` out. If they answer calls of tools, the calls
    /// go too; what gemini-cli says of itself before the first prompt stays.
    pub fn take_out(&mut self, from: usize, to: usize) -> Result<(), DialectError> {
        self.contents.take_out(from, to)
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// Writes the conversation back.
    pub fn write(&self, document: &mut Document) -> Result<(), DialectError> {
        document.set_bytes(CONTENTS, self.contents.to_array())
    }
}
