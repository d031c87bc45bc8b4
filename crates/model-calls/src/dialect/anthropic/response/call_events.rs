//! Events of calls, with their arguments.

use serde_json::{Value, json};
use strict_json::Names;

use crate::dialect::{
    anthropic::{
        fields::{ARGUMENTS, BLOCK, FUNCTION_CALL},
        response::message_event::{CONTENT_BLOCK, DELTA, MessageEvent, MessageEventKind},
        tool_use::INPUT,
    },
    document::Document,
    error::Result,
};

/// Returns the arguments in an edited part.
pub fn edited_input(part: &Document) -> Result<Option<Value>> {
    if let Some(block) = part.child(BLOCK)? {
        return block.get(INPUT);
    }
    let call = part.child(FUNCTION_CALL)?.unwrap_or_default();
    Ok(Some(call.get(ARGUMENTS)?.unwrap_or_else(|| json!({}))))
}

/// Returns the arguments that the events of a call carry.
pub fn collected_input(block: &Document, events: &[MessageEvent]) -> Result<Value> {
    let collected = joined_pieces(events)?;
    if collected.is_empty() {
        return Ok(block.get(INPUT)?.unwrap_or_else(|| json!({})));
    }
    Ok(serde_json::from_str(&collected).unwrap_or(Value::String(collected)))
}

fn joined_pieces(events: &[MessageEvent]) -> Result<String> {
    let mut joined = String::new();
    for event in events {
        let piece = event.child(DELTA)?.string(&["partial_json"])?;
        joined.push_str(&piece.unwrap_or_default());
    }
    Ok(joined)
}

/// Replaces the arguments of a call by one piece.
pub fn with_input(events: Vec<MessageEvent>, input: &Value) -> Result<Vec<MessageEvent>> {
    let pieces = joined_pieces(&events)?;
    let is_json = pieces.is_empty() || strict_json::check(pieces.as_bytes(), Names::Free).is_ok();
    let json = match input {
        // Arguments that are no JSON, such as cut ones, were shown as a text.
        Value::String(text) if !is_json => text.clone(),
        _ => input.to_string(),
    };
    let mut written = Vec::with_capacity(3);
    for mut event in events {
        match event.kind {
            MessageEventKind::BlockStart => {
                let index = event.index;
                // Some servers have the arguments in it, too.
                let empty = |block: &mut Document| block.set(INPUT, &json!({}));
                event.document.edit_child(CONTENT_BLOCK, empty)?;
                written.push(event);
                written.push(MessageEvent::block_delta(index, "input_json_delta", &json)?);
            }
            MessageEventKind::BlockDelta => (),
            _ => written.push(event),
        }
    }
    Ok(written)
}
