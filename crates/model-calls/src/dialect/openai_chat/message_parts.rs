//! The parts of a message in requests and answers, and edits of them.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::source_of,
    document::{Document, insert, write_array},
    error::Result,
    openai_chat::{
        block::{rewrite_block, rewrite_thought, text_block},
        fields::{FUNCTION_CALL, TEXT, TOOL_CALLS},
        tool_call::{read_call, read_function_call, rewrite_call, rewrite_function_call},
    },
};

/// Position of a part in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartPlace {
    /// A thought of an answer, under this name.
    Thought(&'static str),
    /// The content, which is a string.
    Text,
    /// An element of the content.
    Block(usize),
    /// A thought that is an element of the content.
    ThoughtBlock(usize),
    Refusal,
    /// An element of `tool_calls`.
    Call(usize),
    /// The `function_call` of the deprecated form.
    FunctionCall,
    /// The whole message of a tool.
    Result,
}

impl PartPlace {
    pub const fn is_thought(self) -> bool {
        matches!(self, Self::Thought(_) | Self::ThoughtBlock(_))
    }
}

/// A part of the content form, and its position in the message.
pub type PlacedPart = (PartPlace, Value);

/// A part of an edited message.
pub struct EditedPart<'a> {
    /// Position in the message, and the unedited part; `None` for a new part.
    pub origin: Option<(PartPlace, &'a Document)>,
    pub part: &'a Document,
}

impl EditedPart<'_> {
    pub fn place(&self) -> Option<PartPlace> {
        self.origin.map(|(place, _)| place)
    }
}

/// Edited parts of a message.
pub struct EditedParts<'a> {
    pub parts: Vec<EditedPart<'a>>,
}

impl<'a> EditedParts<'a> {
    /// Pairs edited parts with their positions. `read` and `before` are the parts as they were
    /// read, in order, of which the first has the source `first`.
    pub fn new(
        read: &[PlacedPart],
        first: usize,
        before: &'a [Document],
        after: &'a [Document],
    ) -> Self {
        let origin = |part: &Document| {
            let number = source_of(part)?.checked_sub(first)?;
            let (place, _) = read.get(number)?;
            Some((*place, before.get(number)?))
        };
        let parts = after.iter().map(|part| EditedPart {
            origin: origin(part),
            part,
        });
        Self {
            parts: parts.collect(),
        }
    }

    /// Returns the edited part at a position; `None` if it was removed.
    pub fn at(&self, place: PartPlace) -> Option<&'a Document> {
        let mut parts = self.parts.iter();
        let found = parts.find(|part| part.place() == Some(place))?;
        Some(found.part)
    }

    /// Returns the blocks of a content with their edits, and those of new texts.
    pub fn blocks(
        &self,
        known: &[Document],
        is_text: impl Fn(&Document) -> Result<bool>,
    ) -> Result<Vec<Bytes>> {
        let mut written = Vec::with_capacity(self.parts.len());
        for EditedPart { origin, part } in &self.parts {
            match origin {
                Some((PartPlace::Block(index), before)) => {
                    if let Some(block) = known.get(*index) {
                        written.push(rewrite_block(block, before, part)?);
                    }
                }
                Some((PartPlace::ThoughtBlock(index), before)) => {
                    if let Some(block) = known.get(*index) {
                        written.push(rewrite_thought(block, before, part)?);
                    }
                }
                None if is_text(part)? => {
                    written.extend(part.string(TEXT)?.map(|text| text_block(&text)));
                }
                Some(_) | None => (),
            }
        }
        Ok(written)
    }

    /// Writes the calls of a whole message. Returns how many are left.
    pub fn write_calls(&self, message: &mut Document) -> Result<usize> {
        let calls = message.children(TOOL_CALLS)?.unwrap_or_default();
        let mut written: Vec<Bytes> = Vec::with_capacity(calls.len());
        for EditedPart { origin, part } in &self.parts {
            if let Some((PartPlace::Call(index), before)) = origin
                && let Some(call) = calls.get(*index)
            {
                written.push(rewrite_call(call, before, part)?);
            }
        }
        if written.is_empty() && !calls.is_empty() {
            message.remove(TOOL_CALLS)?;
        } else if !are_same(&written, &calls) {
            message.set_bytes(TOOL_CALLS, write_array(&written))?;
        }
        let Some(mut call) = message.child(FUNCTION_CALL)? else {
            return Ok(written.len());
        };
        let Some(part) = self.at(PartPlace::FunctionCall) else {
            message.remove(FUNCTION_CALL)?;
            return Ok(written.len());
        };
        rewrite_function_call(&mut call, part)?;
        if call.is_edited() {
            message.set_child(FUNCTION_CALL, &call)?;
        }
        Ok(written.len() + 1)
    }
}

/// Returns whether elements of a list are written as they were.
pub fn are_same(written: &[Bytes], known: &[Document]) -> bool {
    let known = known.iter().map(Document::to_bytes);
    known.eq(written.iter().cloned())
}

/// Returns whether any part is a refusal of the model.
pub fn has_refusal(parts: &[PlacedPart]) -> bool {
    let mut places = parts.iter().map(|(place, _)| *place);
    places.any(|place| place == PartPlace::Refusal)
}

/// Returns the parts of calls.
pub fn call_parts(calls: &[Document], function_call: Option<&Document>) -> Result<Vec<PlacedPart>> {
    let mut parts = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        let call = json!({ "functionCall": read_call(call)? });
        parts.push((PartPlace::Call(index), call));
    }
    if let Some(call) = function_call {
        let call = json!({ "functionCall": read_function_call(call)? });
        parts.push((PartPlace::FunctionCall, call));
    }
    Ok(parts)
}

/// Gives an id to each call of an answer without one, since its result is returned to the model
/// under the id. The id is too short to identify a session.
pub fn add_call_ids(parts: &mut [PlacedPart]) {
    for (place, part) in parts {
        let call = part.get_mut("functionCall");
        if let (PartPlace::Call(index), Some(call)) = (*place, call)
            && call.get("id").is_none_or(|id| id == "")
        {
            insert(call, "id", format!("call_{index}"));
        }
    }
}

/// Returns the parts of the calls in a message.
pub fn read_calls(message: &Document) -> Result<Vec<PlacedPart>> {
    let calls = message.children(TOOL_CALLS)?.unwrap_or_default();
    call_parts(&calls, message.child(FUNCTION_CALL)?.as_ref())
}
