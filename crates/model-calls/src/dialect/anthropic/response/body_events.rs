//! The events of whole blocks, and of a whole message, which some servers send in answer to a request
//! for a stream.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        fields::{
            CITATIONS, CONTENT, SIGNATURE, TEXT, THINKING, USAGE, parse_strict, string_bytes,
            type_of,
        },
        response::message_event::{BLOCK_DELTA, CONTENT_BLOCK, DELTA, MESSAGE, MessageEvent},
        tool_use::INPUT,
    },
    document::{Document, copy_field, elements, is_set, to_document},
    error::Result,
};

const CONTEXT_MANAGEMENT: &[&str] = &["context_management"];
const ENCRYPTED_CONTENT: &[&str] = &["encrypted_content"];

/// Fields of a message that the events of a stream have at its end.
const END_FIELDS: &[&str] = &["stop_reason", "stop_sequence", "stop_details", "container"];

/// Returns the events of a stream that a server sent as one JSON body.
///
/// # Errors
///
/// Fails for JSON that parsers could disagree about, and for a message with a field of a wrong
/// type.
pub fn body_events(body: &Bytes) -> Result<Vec<Bytes>> {
    match parse_strict(body.clone()) {
        Ok(message) if type_of(&message)? == "message" => message_events(&message),
        Ok(_) | Err(_) => elements(body),
    }
}

/// Writes the events of a block.
pub fn write_block(out: &mut BytesMut, index: u64, block: &Document) -> Result<()> {
    for event in block_events(index, block)? {
        MessageEvent::read(&event)?.write(out);
    }
    Ok(())
}

fn message_events(message: &Document) -> Result<Vec<Bytes>> {
    let mut started = message.clone();
    started.set(CONTENT, &json!([]))?;
    let mut delta = Document::empty();
    for field in END_FIELDS {
        copy_field(&mut delta, &[field], message, &[field])?;
        started.remove(&[field])?;
    }
    started.remove(CONTEXT_MANAGEMENT)?;
    for field in ["stop_reason", "stop_sequence"] {
        started.set(&[field], &Value::Null)?;
    }
    let mut start = to_document(&json!({ "type": "message_start" }))?;
    start.set_child(MESSAGE, &started)?;
    let mut events = vec![start.to_bytes()];
    for (index, block) in (0..).zip(message.children(CONTENT)?.iter().flatten()) {
        events.append(&mut block_events(index, block)?);
    }
    let mut end = to_document(&json!({ "type": "message_delta" }))?;
    end.set_child(DELTA, &delta)?;
    copy_field(&mut end, USAGE, message, USAGE)?;
    copy_field(&mut end, CONTEXT_MANAGEMENT, message, CONTEXT_MANAGEMENT)?;
    let stop = json!({ "type": "message_stop" }).to_string();
    events.extend([end.to_bytes(), stop.into()]);
    Ok(events)
}

/// Returns the events of a block. Clients expect texts and inputs in pieces, and ignore them in the
/// event with which the block starts.
fn block_events(index: u64, block: &Document) -> Result<Vec<Bytes>> {
    let mut started = block.clone();
    let mut deltas = Vec::new();
    match type_of(block)?.as_str() {
        "text" => {
            if is_set(block, CITATIONS)? {
                for citation in block.list(CITATIONS)?.unwrap_or_default() {
                    deltas.push(new_delta("citations_delta", "citation", citation)?);
                }
                started.set(CITATIONS, &json!([]))?;
            }
            let text = string_bytes(block, "text")?;
            deltas.push(new_delta("text_delta", "text", text)?);
            started.set(TEXT, &json!(""))?;
        }
        "thinking" => {
            let thinking = string_bytes(block, "thinking")?;
            deltas.push(new_delta("thinking_delta", "thinking", thinking)?);
            started.set(THINKING, &json!(""))?;
            if let Some(signature) = block.bytes_of(SIGNATURE)? {
                deltas.push(new_delta("signature_delta", "signature", signature)?);
                started.set(SIGNATURE, &json!(""))?;
            }
        }
        kind if kind.ends_with("tool_use") => {
            if let Some(input) = block.bytes_of(INPUT)? {
                let json = json!(String::from_utf8_lossy(&input)).to_string();
                deltas.push(new_delta("input_json_delta", "partial_json", json.into())?);
                started.set(INPUT, &json!({}))?;
            }
        }
        "compaction" => {
            let mut delta = to_document(&json!({ "type": "compaction_delta" }))?;
            copy_field(&mut delta, CONTENT, block, CONTENT)?;
            copy_field(&mut delta, ENCRYPTED_CONTENT, block, ENCRYPTED_CONTENT)?;
            deltas.push(delta);
            started.set(CONTENT, &Value::Null)?;
            started.remove(ENCRYPTED_CONTENT)?;
        }
        _ => (),
    }
    let start = block_event("content_block_start", index, CONTENT_BLOCK, &started)?;
    let mut events = vec![start];
    for delta in &deltas {
        events.push(block_event(BLOCK_DELTA, index, DELTA, delta)?);
    }
    let stop = json!({ "type": "content_block_stop", "index": index }).to_string();
    events.push(stop.into());
    Ok(events)
}

fn new_delta(kind: &str, field: &str, value: Bytes) -> Result<Document> {
    let mut delta = to_document(&json!({ "type": kind }))?;
    delta.set_bytes(&[field], value)?;
    Ok(delta)
}

fn block_event(kind: &str, index: u64, field: &[&str], value: &Document) -> Result<Bytes> {
    let mut event = to_document(&json!({ "type": kind, "index": index }))?;
    event.set_child(field, value)?;
    Ok(event.to_bytes())
}
