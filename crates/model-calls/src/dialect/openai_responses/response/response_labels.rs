//! The objects of a response that may have fields that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, visit_details},
    document::Document,
    error::Result,
    openai::usage::COUNT_DETAILS,
    openai_responses::{
        calls::CALL_FIELDS,
        fields::{INCOMPLETE_DETAILS, OUTPUT, USAGE},
        response::item::{BLOCK_LISTS, OutputKind, text_field},
    },
};

/// Fields of a response that hold no text, that hooks see otherwise, or that repeat what the
/// request has.
const RESPONSE_FIELDS: &[&str] = &[
    "background",
    "billing",
    "completed_at",
    "created_at",
    "id",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "object",
    "output",
    "output_text",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "status",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
];

/// Fields of messages and reasoning that hold no text, or that hooks see otherwise.
const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "encrypted_content",
    "id",
    "phase",
    "role",
    "status",
    "summary",
    "type",
];

/// Visits the objects of a response.
pub fn visit_response(response: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    response.edit_children(OUTPUT, |item| visit_item(item, act))?;
    response.edit_child(USAGE, |usage| visit_details(usage, COUNT_DETAILS, &[], act))?;
    response.edit_child(INCOMPLETE_DETAILS, |details| act(details, &["reason"]))?;
    act(response, RESPONSE_FIELDS)
}

/// Visits the objects of an item. Of items other than messages, reasoning and calls, hooks see all
/// fields.
pub fn visit_item(item: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    match OutputKind::of(item)? {
        OutputKind::Message | OutputKind::Reasoning => {
            for (field, _) in BLOCK_LISTS {
                item.edit_children(field, |block| visit_block(block, act))?;
            }
            act(item, MESSAGE_FIELDS)
        }
        OutputKind::Call(kind) => act(item, &[CALL_FIELDS, kind.inputs()].concat()),
        OutputKind::Other => Ok(()),
    }
}

/// Visits a block. Of one without a text, hooks see all fields.
pub fn visit_block(block: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    match text_field(block)? {
        // The sound of a transcript.
        Some(field @ "transcript") => act(block, &[field, "data", "logprobs", "type"]),
        Some(field) => act(block, &[field, "logprobs", "type"]),
        None => Ok(()),
    }
}
