//! Events of compatible servers in the form of the API. Hooks see each text once, so that copies
//! are not sent.

use crate::dialect::{
    document::{Document, first_byte, integer, is_set, write_array},
    error::Result,
    openai_chat::{
        fields::{CHOICES, DELTA, INDEX, MESSAGE, ROLE, TEXT, TOOL_CALLS},
        message_parts::PlacedPart,
        response::answer::{REASONING, THOUGHT_DETAILS, has_calls, read_message, read_texts},
        stream::event::CHUNK_OBJECT,
    },
};

const THINKING_BLOCKS: &[&str] = &["thinking_blocks"];
const PROVIDER_FIELDS: &[&str] = &["provider_specific_fields"];

/// Kinds of pieces of a choice.
#[derive(Debug, Default, Clone, Copy)]
pub struct PieceKinds {
    pub has_thoughts: bool,
    pub has_text: bool,
    pub has_calls: bool,
}

impl PieceKinds {
    /// Adds the pieces of a delta.
    pub fn add(&mut self, texts: &[PlacedPart], has_calls: bool) {
        for (place, _) in texts {
            if place.is_thought() {
                self.has_thoughts = true;
            } else {
                self.has_text = true;
            }
        }
        self.has_calls |= has_calls;
    }

    /// Removes the fields of a message that repeat the pieces.
    fn remove_copies(self, message: &mut Document) -> Result<()> {
        let kinds: [(bool, &[&str]); 4] = [
            (self.has_thoughts, &REASONING),
            (self.has_thoughts, &THOUGHT_DETAILS),
            (self.has_text, &["content", "refusal"]),
            (self.has_calls, &["function_call", "tool_calls"]),
        ];
        let copies = kinds.into_iter().filter(|(has_pieces, _)| *has_pieces);
        let mut copies = copies.flat_map(|(_, fields)| fields);
        copies.try_for_each(|field| message.remove(&[*field]))
    }
}

/// Gives an event the form of the API. `known` returns the kinds of pieces that earlier events have
/// of a choice; `None` if they do not have the choice. Returns whether it was a whole answer behind
/// its pieces.
///
/// # Errors
///
/// Fails for wrong types.
pub fn write_standard_form(
    event: &mut Document,
    known: impl Fn(u64) -> Option<PieceKinds>,
) -> Result<bool> {
    let mut was_whole = false;
    let mut position = 0;
    event.edit_children(CHOICES, |choice| {
        let index = integer(choice, INDEX)?.unwrap_or(position);
        position += 1;
        choice.edit_child(DELTA, write_standard_delta)?;
        was_whole |= move_message(choice, known(index))?;
        if is_set(choice, DELTA)? {
            // Together repeats the content of the delta there.
            choice.remove(TEXT)?;
        }
        Ok(())
    })?;
    if was_whole {
        event.set(&["object"], &CHUNK_OBJECT.into())?;
    }
    Ok(was_whole)
}

/// Writes the only call of a delta as a list (TGI), and removes blocks of thoughts that repeat
/// others of the delta (LiteLLM).
fn write_standard_delta(delta: &mut Document) -> Result<()> {
    if first_byte(delta, TOOL_CALLS)? == Some(b'{') {
        let call = delta.bytes_of(TOOL_CALLS)?;
        delta.set_bytes(TOOL_CALLS, write_array(call))?;
    }
    let has_blocks = is_set(delta, THINKING_BLOCKS)?;
    if has_blocks && first_byte(delta, PROVIDER_FIELDS)? == Some(b'{') {
        delta.edit_child(PROVIDER_FIELDS, |fields| fields.remove(THINKING_BLOCKS))?;
    }
    Ok(())
}

/// Removes a message that repeats the delta beside it (Perplexity) or the pieces of earlier events
/// (MiniMax). Its other parts are moved to the delta. Returns whether there was no delta.
fn move_message(choice: &mut Document, known: Option<PieceKinds>) -> Result<bool> {
    let Some(mut message) = choice.child(MESSAGE)? else {
        return Ok(false);
    };
    let delta = choice.child(DELTA)?;
    let was_whole = delta.is_none();
    if was_whole && known.is_none() {
        return Ok(false);
    }
    if known.is_some() {
        message.remove(ROLE)?;
    }
    let mut delta = delta.unwrap_or_default();
    let mut known = known.unwrap_or_default();
    known.add(&read_texts(&delta)?, has_calls(&delta)?);
    known.remove_copies(&mut message)?;
    if !read_message(&message)?.is_empty() {
        let fields = message.fields();
        delta.write_fields(fields.map(|(field, value)| (field, Some(value))));
    }
    choice.remove(MESSAGE)?;
    if was_whole || delta.is_edited() {
        choice.set_child(DELTA, &delta)?;
    }
    Ok(was_whole)
}
