//! Edits of the content form, spliced back into the body that it was read from.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        block_content::write_blocks,
        block_edit::{create_blocks, edit_blocks},
        fields::{CONTAINER, CONTENT, CONTENTS, FALLBACKS, ID, MODEL, PARTS, type_of},
        request::{
            cut_thinking::without_cut_thinking,
            input_messages::{InputMessage, MESSAGES, read_messages},
            parameters::write_parameters,
            read::ReadBody,
            request_labels::REQUEST_LABELS,
            tools_edit::ToolsEdit,
        },
    },
    call::Call,
    content_form::{FALLBACK_MODELS, splice_list, write_labels},
    document::{Document, first_byte, write_array},
    error::Result,
};

const BODY_CONTAINER: &[&str] = &["container"];

/// Returns the body for upstream. What is equal in `form` and the body keeps its bytes, except for
/// thinking that was cut off.
///
/// # Errors
///
/// Fails if the edits cannot be written.
pub fn close_body(call: &Call, body: &Document, form: &Document) -> Result<Bytes> {
    let mut edited = body.clone();
    call.write_model(&mut edited)?;
    if form.is_edited() {
        write_form(&mut edited, ReadBody::read(body)?, form)?;
    }
    without_cut_thinking(edited)
}

fn write_form(body: &mut Document, mut read: ReadBody, form: &Document) -> Result<()> {
    write_parameters(body, &read.form, form)?;
    write_fallbacks(body, &read.form, form)?;
    write_container(body, form)?;
    REQUEST_LABELS.write(body, &read.form, form)?;
    // With the labels that were written into them.
    read.messages = read_messages(body)?;
    let originals = read.messages.iter();
    let originals = originals.map(|message| message.document.to_bytes());
    let mut originals: Vec<Bytes> = originals.collect();
    let unedited = originals.clone();
    let tools = ToolsEdit::new(body, form, &read.tools, &read.calls)?;
    tools.write(body, &mut read.messages, &mut originals)?;
    read.system
        .write(body, form, &read.messages, &mut originals)?;
    let before = read.form.children(CONTENTS)?.unwrap_or_default();
    let after = form.children(CONTENTS)?.unwrap_or_default();
    let rewrite = |index: usize, before: &Document, after: &Document| {
        let message = read.messages.get(index);
        message.map_or_else(|| Ok(Vec::new()), |one| rewrite_message(one, before, after))
    };
    let mut messages = splice_list(&originals, &before, &after, rewrite, create_message)?;
    messages.retain(|message| !message.is_empty());
    tools.remove_references(&mut messages)?;
    if messages != unedited {
        body.set_bytes(MESSAGES, write_array(messages))?;
    }
    Ok(())
}

/// Removes the fallback models that were removed from the content form.
fn write_fallbacks(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    if before.bytes_of(FALLBACK_MODELS)? == after.bytes_of(FALLBACK_MODELS)? {
        return Ok(());
    }
    let kept = after.get(FALLBACK_MODELS)?.unwrap_or_default();
    let kept = kept.as_array().cloned().unwrap_or_default();
    if kept.is_empty() {
        return body.remove(FALLBACKS);
    }
    let mut fallbacks = Vec::new();
    for fallback in body.children(FALLBACKS)?.unwrap_or_default() {
        if kept.contains(&json!(fallback.string(MODEL)?)) {
            fallbacks.push(fallback);
        }
    }
    if fallbacks.is_empty() {
        body.remove(FALLBACKS)
    } else {
        body.set_children(FALLBACKS, &fallbacks)
    }
}

/// Writes the container in which code of the model waits for a result. Its skills stay.
fn write_container(body: &mut Document, form: &Document) -> Result<()> {
    let Some(id) = form.bytes_of(&[CONTAINER])? else {
        return Ok(());
    };
    if first_byte(body, BODY_CONTAINER)? == Some(b'{') {
        return body.edit_child(BODY_CONTAINER, |container| container.set_bytes(ID, id));
    }
    body.set_bytes(BODY_CONTAINER, id)
}

fn is_thinking(block: &Bytes) -> bool {
    let kind = Document::from_checked(block.clone()).and_then(|block| type_of(&block));
    kind.is_ok_and(|kind| matches!(kind.as_str(), "thinking" | "redacted_thinking"))
}

/// Returns a message with the edits of its content; none if nothing is left of it.
fn rewrite_message(
    message: &InputMessage,
    before: &Document,
    after: &Document,
) -> Result<Vec<Bytes>> {
    let old = before.children(PARTS)?.unwrap_or_default();
    let new = after.children(PARTS)?.unwrap_or_default();
    let originals: Vec<Bytes> = message.blocks.iter().map(Document::to_bytes).collect();
    let mut blocks = edit_blocks(&originals, &old, &new)?;
    let ended_with_thinking = originals.last().is_some_and(is_thinking);
    while !ended_with_thinking && blocks.last().is_some_and(is_thinking) {
        // The API refuses it at the end of a message.
        blocks.pop();
    }
    let written = message.with_blocks(&blocks)?;
    if written.is_empty() {
        return Ok(Vec::new());
    }
    let mut written = Document::from_checked(written)?;
    write_labels(&mut written, before, after)?;
    Ok(vec![written.to_bytes()])
}

/// Returns the message of a new content; none if the API has no block for it.
fn create_message(content: &Document) -> Result<Vec<Bytes>> {
    let parts = content.children(PARTS)?.unwrap_or_default();
    let blocks = create_blocks(&parts)?;
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    let role = match content.string(&["role"])?.as_deref() {
        Some("model") => "assistant",
        Some(_) | None => "user",
    };
    let mut message = Document::empty();
    message.set(&["role"], &json!(role))?;
    message.set_bytes(CONTENT, write_blocks(&blocks, blocks.len() == 1)?)?;
    Ok(vec![message.to_bytes()])
}
