//! Events of calls, with their arguments.

use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        fields::{ARGUMENTS, BLOCK, FUNCTION_CALL},
        response::message_event::{DELTA, MessageEvent, MessageEventKind},
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
    let mut collected = String::new();
    for event in events {
        let piece = event.child(DELTA)?.string(&["partial_json"])?;
        collected.push_str(&piece.unwrap_or_default());
    }
    if collected.is_empty() {
        return Ok(block.get(INPUT)?.unwrap_or_else(|| json!({})));
    }
    Ok(serde_json::from_str(&collected).unwrap_or(Value::String(collected)))
}

/// Replaces the pieces of a call's arguments by one.
pub fn with_input(events: Vec<MessageEvent>, input: &Value) -> Result<Vec<MessageEvent>> {
    let mut written = Vec::with_capacity(3);
    for event in events {
        match event.kind {
            MessageEventKind::BlockStart => {
                let index = event.index;
                written.push(event);
                written.push(json_delta(index, input)?);
            }
            MessageEventKind::BlockDelta => (),
            _ => written.push(event),
        }
    }
    Ok(written)
}

fn json_delta(index: u64, input: &Value) -> Result<MessageEvent> {
    MessageEvent::from_json(&json!({
        "type": "content_block_delta",
        "index": index,
        "delta": { "type": "input_json_delta", "partial_json": input.to_string() },
    }))
}
