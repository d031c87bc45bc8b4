//! Fields of items that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, RequestLabels, keep_fields},
    document::{Document, first_byte},
    error::Result,
    openai_responses::{
        calls::ToolCallKind,
        fields::{CONTENT, INPUT, OUTPUT},
        request::{content::text_field, input::InputKind, media::read_medium},
        visible_fields::OPAQUE,
    },
};

/// The fields of a request that are labels, such as `metadata` and `user`.
pub const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: INTERPRETED,
    inner: "input",
    visit: visit_items,
};

/// Fields of a request that hookgate interprets, or that hold no text.
const INTERPRETED: &[&str] = &[
    "background",
    "content_policy_fallbacks",
    "context_window_fallbacks",
    "conversation",
    "fallbacks",
    "include",
    "input",
    "instructions",
    "model",
    "models",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "text",
    "tool_choice",
    "tools",
    "truncation",
];

/// Fields of the result of a tool that hooks see otherwise, beside the opaque ones.
const RESULT_FIELDS: &[&str] = &["execution", "name", "output"];

/// Fields of a medium, which hooks see as a whole, beside the opaque ones.
pub const MEDIUM_FIELDS: &[&str] = &[
    "detail",
    "file_data",
    "file_id",
    "file_url",
    "filename",
    "image_url",
];

const AUDIO: &[&str] = &["input_audio"];

/// Visits the objects in the items of a request.
fn visit_items(body: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    if first_byte(body, INPUT)? != Some(b'[') {
        return Ok(());
    }
    body.edit_children(INPUT, |item| visit_item(item, act))
}

/// Visits an item. Of items of other kinds, hooks see all fields.
fn visit_item(item: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let known: &[&str] = match InputKind::of(item)? {
        InputKind::User | InputKind::Assistant | InputKind::System => {
            visit_blocks(item, CONTENT, act)?;
            &["content", "phase", "role"]
        }
        InputKind::Call(kind) => {
            let known = [OPAQUE, &["execution", "name", "namespace"], kind.inputs()];
            return act(item, &known.concat());
        }
        InputKind::Result(kind) => {
            match kind {
                ToolCallKind::Computer => item.edit_child(OUTPUT, |image| {
                    act(image, &[OPAQUE, MEDIUM_FIELDS].concat())
                })?,
                // Hooks see the whole output.
                ToolCallKind::Shell => (),
                _ => visit_blocks(item, OUTPUT, act)?,
            }
            RESULT_FIELDS
        }
        InputKind::Reasoning => &["content", "format", "signature", "summary"],
        InputKind::Hidden => &["execution", "tools"],
        InputKind::Hosted | InputKind::Unknown => return Ok(()),
    };
    act(item, &[OPAQUE, known].concat())
}

fn visit_blocks(item: &mut Document, field: &[&str], act: ActOnObject<'_>) -> Result<()> {
    if first_byte(item, field)? != Some(b'[') {
        return Ok(());
    }
    item.edit_children(field, |block| visit_block(block, act))
}

/// Visits a block. Of one that is neither a text nor a medium, hooks see all fields.
fn visit_block(block: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    if let Some(field) = text_field(block)? {
        return act(block, &[OPAQUE, &[field]].concat());
    }
    match read_medium(block)? {
        Some(_) if first_byte(block, AUDIO)? == Some(b'{') => {
            block.edit_child(AUDIO, |audio| act(audio, &["data", "format"]))?;
            act(block, &[OPAQUE, MEDIUM_FIELDS, AUDIO].concat())
        }
        Some(_) => act(block, &[OPAQUE, MEDIUM_FIELDS].concat()),
        None => Ok(()),
    }
}

/// Removes what a tool returned beside its output.
pub fn remove_result_labels(item: &mut Document) {
    let others: &[&str] = &["agent", "caller", "max_output_length"];
    keep_fields(item, &[OPAQUE, RESULT_FIELDS, others].concat());
}
