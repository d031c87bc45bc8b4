//! Thinking that a denial has cut off. The agent sends it back without its signature, and the API
//! refuses such a conversation for ever.

use bytes::Bytes;
use memchr::memmem;

use crate::dialect::{
    anthropic::{
        fields::{SIGNATURE, TYPE, type_of},
        request::input_messages::{InputMessage, InputRole, MESSAGES, read_messages},
    },
    document::{Document, try_any, write_array},
    error::Result,
};

/// Returns a body without the thinking blocks that lack a signature. An answer with a call was not
/// cut off: if one has such thinking, the server does not sign, and all stays.
pub fn without_cut_thinking(mut body: Document) -> Result<Bytes> {
    let bytes = body.to_bytes();
    if memmem::find(&bytes, b"\"thinking\"").is_none() {
        return Ok(bytes);
    }
    let messages = read_messages(&body)?;
    if try_any(&messages, is_unsigned_call)? {
        return Ok(bytes);
    }
    let mut is_edited = false;
    let mut written = Vec::new();
    for message in messages {
        let kept = kept_blocks(&message)?;
        if kept.len() == message.blocks.len() {
            written.push(message.document.to_bytes());
            continue;
        }
        is_edited = true;
        let left = message.with_blocks(&kept)?;
        written.extend((!left.is_empty()).then_some(left));
    }
    if !is_edited {
        return Ok(bytes);
    }
    body.set_bytes(MESSAGES, write_array(written))?;
    Ok(body.to_bytes())
}

/// Returns whether it is an answer with a call and unsigned thinking.
fn is_unsigned_call(message: &InputMessage) -> Result<bool> {
    let is_call = |block: &Document| Ok(block.string(TYPE)?.as_deref() == Some("tool_use"));
    Ok(message.role == InputRole::Assistant
        && try_any(&message.blocks, is_unsigned)?
        && try_any(&message.blocks, is_call)?)
}

fn kept_blocks(message: &InputMessage) -> Result<Vec<Bytes>> {
    let mut kept = Vec::with_capacity(message.blocks.len());
    for block in &message.blocks {
        if message.role != InputRole::Assistant || !is_unsigned(block)? {
            kept.push(block.to_bytes());
        }
    }
    Ok(kept)
}

fn is_unsigned(block: &Document) -> Result<bool> {
    Ok(type_of(block)? == "thinking"
        && block
            .string(SIGNATURE)?
            .is_none_or(|signature| signature.is_empty()))
}
