//! Collects tool calls whose pieces arrive in many chunks.

use std::collections::HashMap;

use crate::dialect::{
    document::{Document, integer, try_any},
    error::{DialectError, Result, field_error},
    openai_chat::{
        fields::{
            ARGUMENTS, CUSTOM, FUNCTION, FUNCTION_CALL, ID, INDEX, INPUT, NAME, TOOL_CALLS, TYPE,
        },
        tool_call::function_arguments,
    },
};

/// Maximum number of calls in one answer.
const MAX_CALLS: usize = 1024;

/// The calls of one choice.
#[derive(Debug, Default)]
pub struct CallCollector {
    calls: Vec<CallPieces>,
    /// Positions in `calls` by the indexes of the API.
    positions: HashMap<u64, usize>,
    function_call: Option<CallPieces>,
    /// True if clients could read other calls than these.
    is_irregular: bool,
}

/// A call that is not complete yet.
#[derive(Debug)]
struct CallPieces {
    /// The first piece, with what later ones added to it.
    first: Document,
    name: String,
    input: String,
    nesting: JsonNesting,
    is_custom: bool,
}

/// Position in a JSON object whose text arrives in pieces.
#[derive(Debug, Clone, Copy, Default)]
struct JsonNesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl CallCollector {
    /// Adds the pieces in a delta.
    ///
    /// # Errors
    ///
    /// Fails for wrong types and for too many calls.
    pub fn push(&mut self, delta: &Document) -> Result<()> {
        for piece in delta.children(TOOL_CALLS)?.unwrap_or_default() {
            self.push_call(&piece)?;
        }
        if let Some(piece) = delta.child(FUNCTION_CALL)? {
            let call = self
                .function_call
                .get_or_insert_with(|| CallPieces::new(piece.clone(), false));
            let name = piece.string(NAME)?.unwrap_or_default();
            self.is_irregular |= !call.name.is_empty() && !name.is_empty();
            call.add_function(&piece)?;
        }
        Ok(())
    }

    fn push_call(&mut self, piece: &Document) -> Result<()> {
        let index = integer(piece, INDEX)?;
        let id = piece.string(ID)?.filter(|id| !id.is_empty());
        let is_custom = piece.has(CUSTOM);
        let known = match index {
            Some(index) => self.positions.get(&index).copied(),
            // Some servers send whole calls without an index.
            None if id.is_some() => None,
            None => self.calls.len().checked_sub(1),
        };
        let known = match known {
            Some(position) if self.continues(position, id.as_deref(), piece)? => Some(position),
            Some(_) | None => None,
        };
        let position = match known {
            Some(position) => {
                self.is_irregular |= index.is_none() || id.is_some() || has_name(piece)?;
                position
            }
            None if self.calls.len() >= MAX_CALLS => {
                return Err(field_error("tool_calls", "fewer"));
            }
            None => {
                self.calls.push(CallPieces::new(piece.clone(), is_custom));
                let position = self.calls.len() - 1;
                self.is_irregular |= index != Some(position as u64);
                self.positions.extend(index.map(|index| (index, position)));
                position
            }
        };
        match self.calls.get_mut(position) {
            Some(call) => call.add(piece, known.is_some()),
            None => Ok(()),
        }
    }

    /// Returns whether a piece with this id continues a call. Some servers give every call the
    /// index 0, some of them no id, and others give each piece of a call another id.
    fn continues(&self, position: usize, id: Option<&str>, piece: &Document) -> Result<bool> {
        let Some(call) = self.calls.get(position) else {
            return Ok(false);
        };
        let known = call.first.string(ID)?.unwrap_or_default();
        match id {
            Some(id) => Ok(known.is_empty() || known == id || !has_name(piece)?),
            None if known.is_empty() => Ok(!call.ends_before(piece)?),
            None => Ok(true),
        }
    }

    /// Returns whether the pieces have the form that the API gives them: numbered without gaps,
    /// with id and name in the first one. Clients read others differently.
    pub const fn is_regular(&self) -> bool {
        !self.is_irregular
    }

    /// Returns the complete calls, each as a message has it.
    pub fn calls(&self) -> Result<Vec<Document>> {
        self.calls.iter().map(CallPieces::to_call).collect()
    }

    /// Returns the complete call of the deprecated form.
    pub fn function_call(&self) -> Result<Option<Document>> {
        let call = self.function_call.as_ref();
        call.map(CallPieces::to_function_call).transpose()
    }
}

impl CallPieces {
    fn new(first: Document, is_custom: bool) -> Self {
        Self {
            first,
            name: String::new(),
            input: String::new(),
            nesting: JsonNesting::default(),
            is_custom,
        }
    }

    fn add(&mut self, piece: &Document, is_later: bool) -> Result<()> {
        if let Some(function) = piece.child(FUNCTION)? {
            if self.is_custom || piece.child(CUSTOM)?.is_some() {
                return Err(DialectError::Ambiguous("function".to_owned()));
            }
            self.add_function(&function)?;
        }
        if let Some(custom) = piece.child(CUSTOM)? {
            if self.first.child(FUNCTION)?.is_some() {
                return Err(DialectError::Ambiguous("custom".to_owned()));
            }
            self.add_name(custom.string(NAME)?)?;
            self.add_input(custom.string(INPUT)?);
            self.is_custom = true;
        }
        if is_later {
            let is_known = |key: &str| ["index", "function", "custom"].contains(&key);
            let is_empty = |value: &[u8]| *value == *b"null" || *value == *b"\"\"";
            let new = piece.fields();
            let new = new.filter(|(key, value)| !is_known(key) && !is_empty(value));
            self.first
                .write_fields(new.map(|(key, value)| (key, Some(value))));
        }
        Ok(())
    }

    fn add_function(&mut self, function: &Document) -> Result<()> {
        self.add_name(function.string(NAME)?)?;
        self.add_input(function_arguments(function)?);
        Ok(())
    }

    fn add_input(&mut self, piece: Option<String>) {
        let piece = piece.unwrap_or_default();
        self.nesting.push(&piece);
        self.input.push_str(&piece);
    }

    /// Returns whether a piece without id begins another call, because this one is complete. Some
    /// servers repeat the name in each piece of a call.
    fn ends_before(&self, piece: &Document) -> Result<bool> {
        let function = piece.child(FUNCTION)?.unwrap_or_default();
        let name = function.string(NAME)?.unwrap_or_default();
        let arguments = function_arguments(&function)?.unwrap_or_default();
        let is_other = name != self.name || !arguments.trim_ascii().is_empty();
        Ok(!name.is_empty() && is_other && self.nesting.is_closed())
    }

    /// Sets the name. Of two different ones, some clients read the first, some the last and
    /// some both.
    fn add_name(&mut self, name: Option<String>) -> Result<()> {
        match name {
            Some(name) if self.name.is_empty() => self.name = name,
            Some(name) if !name.is_empty() && name != self.name => {
                return Err(DialectError::Ambiguous("name".to_owned()));
            }
            Some(_) | None => (),
        }
        Ok(())
    }

    fn to_call(&self) -> Result<Document> {
        let mut call = self.first.clone();
        call.remove(INDEX)?;
        let (field, input) = if self.is_custom {
            (CUSTOM, INPUT)
        } else {
            (FUNCTION, ARGUMENTS)
        };
        let inner = call.child(field)?;
        if inner.is_some() || !call.has(TYPE) || self.has_function_type()? {
            let mut inner = inner.unwrap_or_default();
            inner.set(NAME, &self.name.as_str().into())?;
            inner.set(input, &self.input.as_str().into())?;
            call.set_child(field, &inner)?;
        }
        Document::from_checked(call.to_bytes())
    }

    fn has_function_type(&self) -> Result<bool> {
        let kind = self.first.string(TYPE)?;
        Ok(matches!(
            kind.as_deref(),
            None | Some("" | "function" | "custom")
        ))
    }

    fn to_function_call(&self) -> Result<Document> {
        let mut call = self.first.clone();
        call.set(NAME, &self.name.as_str().into())?;
        call.set(ARGUMENTS, &self.input.as_str().into())?;
        Document::from_checked(call.to_bytes())
    }
}

impl JsonNesting {
    fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            match byte {
                b'"' if !is_escaped => self.is_in_string = !self.is_in_string,
                b'\\' => self.is_escaped = self.is_in_string && !is_escaped,
                b'{' | b'[' if !self.is_in_string => {
                    self.has_begun = true;
                    self.depth += 1;
                }
                b'}' | b']' if !self.is_in_string => self.depth = self.depth.saturating_sub(1),
                _ => (),
            }
        }
    }

    /// Returns whether the object has begun and ended.
    const fn is_closed(self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_string
    }
}

fn has_name(piece: &Document) -> Result<bool> {
    try_any([FUNCTION, CUSTOM], |field| {
        let inner = piece.child(field)?.unwrap_or_default();
        Ok(inner.string(NAME)?.is_some_and(|name| !name.is_empty()))
    })
}
