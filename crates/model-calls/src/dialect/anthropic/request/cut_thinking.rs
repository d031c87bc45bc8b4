//! Thinking that a denial has cut off. The agent sends it back without its signature, and the API
//! refuses such a conversation for ever.

use bytes::Bytes;
use memchr::memmem;

use crate::dialect::{
    anthropic::{
        fields::{TYPE, type_of},
        request::input_messages::{InputMessage, InputRole, MESSAGES, read_messages},
    },
    document::{Document, try_any, write_array},
    error::Result,
};

const SIGNATURE: &[&str] = &["signature"];

/// Removes thinking blocks without signature from the answers in a conversation. An answer with a
/// call was not cut off: its thinking is that of a server without signatures, and stays.
pub fn remove_cut_thinking(body: &mut Document) -> Result<()> {
    if memmem::find(&body.to_bytes(), b"\"thinking\"").is_none() {
        return Ok(());
    }
    let mut is_edited = false;
    let mut written = Vec::new();
    for message in read_messages(body)? {
        let kept = kept_blocks(&message)?;
        if kept.len() == message.blocks.len() {
            written.push(message.document.to_bytes());
            continue;
        }
        is_edited = true;
        let left = message.with_blocks(&kept)?;
        written.extend((!left.is_empty()).then_some(left));
    }
    if is_edited {
        body.set_bytes(MESSAGES, write_array(written))?;
    }
    Ok(())
}

fn kept_blocks(message: &InputMessage) -> Result<Vec<Bytes>> {
    let is_call = |block: &Document| Ok(block.string(TYPE)?.as_deref() == Some("tool_use"));
    let is_whole = message.role != InputRole::Assistant || try_any(&message.blocks, is_call)?;
    let mut kept = Vec::with_capacity(message.blocks.len());
    for block in &message.blocks {
        if is_whole || !is_unsigned(block)? {
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
