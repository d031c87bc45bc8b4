//! The objects of messages and events that may have fields that hookgate does not interpret.

use crate::dialect::{
    anthropic::{
        fields::{CONTENT, TYPE, USAGE, type_of},
        response::message_event::{CONTENT_BLOCK, DELTA, MESSAGE},
    },
    content_form::{ActOnObject, visit_details},
    document::Document,
    error::Result,
};

/// Token counts of each sampling of the model for one answer.
pub const ITERATIONS: &[&str] = &["iterations"];

/// Fields of a message that hold no text, or that hooks see otherwise.
const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "id",
    "model",
    "role",
    "stop_reason",
    "type",
    "usage",
];

/// Fields of token counts that are names, or whose objects are visited.
const USAGE_FIELDS: &[&str] = &["inference_geo", "iterations", "service_tier", "speed"];

/// Fields with the details of token counts.
const COUNT_DETAILS: &[&str] = &["cache_creation", "output_tokens_details", "server_tool_use"];

/// Visits the objects of a message. Blocks that hooks see whole are left out.
pub fn visit_message(message: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    message.edit_children(CONTENT, |block| match type_of(block)?.as_str() {
        "tool_use" => act(block, CALL_FIELDS),
        _ => visit_block(block, act),
    })?;
    visit_envelope(message, act)
}

/// Fields of a call that hold no text, beside its input.
const CALL_FIELDS: &[&str] = &["id", "input", "name", "type"];

/// Visits the objects of an event.
pub fn visit_event(event: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let known: &[&str] = match event.string(TYPE)?.as_deref() {
        Some("message_start") => {
            event.edit_child(MESSAGE, |message| visit_envelope(message, act))?;
            &["message", "type"]
        }
        Some("content_block_start") => {
            event.edit_child(CONTENT_BLOCK, |block| match type_of(block)?.as_str() {
                // Its input is collected from several events.
                kind if kind.ends_with("tool_use") => act(block, CALL_FIELDS),
                _ => visit_block(block, act),
            })?;
            &["content_block", "index", "type"]
        }
        Some("content_block_delta") => {
            event.edit_child(DELTA, |delta| visit_delta(delta, act))?;
            &["delta", "index", "type"]
        }
        Some("message_delta") => {
            event.edit_child(DELTA, |delta| act(delta, &["stop_reason"]))?;
            event.edit_child(USAGE, |usage| visit_usage(usage, act))?;
            &["delta", "type", "usage"]
        }
        Some("content_block_stop") => &["index", "type"],
        Some("message_stop" | "ping" | "error") => &["type"],
        // Hooks see the whole event.
        Some(_) | None => return Ok(()),
    };
    act(event, known)
}

fn visit_envelope(message: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    message.edit_child(USAGE, |usage| visit_usage(usage, act))?;
    act(message, MESSAGE_FIELDS)
}

/// Visits the token counts of a message, and those of each iteration.
pub fn visit_usage(usage: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    usage.edit_children(ITERATIONS, |iteration| {
        visit_details(iteration, COUNT_DETAILS, &["model", "type"], act)
    })?;
    visit_details(usage, COUNT_DETAILS, USAGE_FIELDS, act)
}

/// Visits a block. Of one that hookgate does not interpret, hooks see all fields.
pub fn visit_block(block: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    match type_of(block)?.as_str() {
        "text" => act(block, &["text", "type"]),
        "thinking" => act(block, &["signature", "thinking", "type"]),
        "redacted_thinking" => act(block, &["data", "type"]),
        _ => Ok(()),
    }
}

fn visit_delta(delta: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    match type_of(delta)?.as_str() {
        "text_delta" => act(delta, &["text", "type"]),
        "thinking_delta" => act(delta, &["thinking", "type"]),
        "signature_delta" => act(delta, &["signature", "type"]),
        "input_json_delta" => act(delta, &["partial_json", "type"]),
        _ => Ok(()),
    }
}
