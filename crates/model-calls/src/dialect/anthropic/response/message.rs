//! Whole messages: answers of the Messages API that are no stream, read and written.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        block_edit::{create_blocks, edit_blocks},
        fields::{
            CANDIDATES, CONTENT, FINISH_REASON, FUNCTION_CALL, MODEL, MODEL_VERSION, RESPONSE_ID,
            USAGE, USAGE_METADATA, parse_strict, type_of, with_source,
        },
        preceding::PrecedingBlocks,
        response::{
            message_labels::visit_message,
            message_tokens::{MessageTokens, new_usage},
            response_part::{answer_form, read_block},
            seen_blocks::keep_seen,
            stop_reason::{STOP_REASON, edited_stop_reason, stop_reason_in, stop_sequence},
        },
    },
    content_form::{AnswerLabels, parts_in},
    document::{Document, to_document, to_value, write_array},
    error::{Result, field_error},
    google::response::document::ResponseDocument,
};

const STOP_SEQUENCE: &[&str] = &["stop_sequence"];

/// Reads a whole response.
///
/// # Errors
///
/// Fails if it is no message, or has a field of a wrong type.
pub fn open_message(body: Bytes) -> Result<ResponseDocument> {
    let message = parse_strict(body.clone())?;
    let form = read_form(&message)?;
    ResponseDocument::from_form_bytes(form.to_bytes(), vec![body])
}

/// Returns a whole response for the agent: the original with the edits, or a synthetic one.
///
/// # Errors
///
/// Fails if an edit cannot be written.
pub fn close_message(response: &ResponseDocument) -> Result<Bytes> {
    let form = Document::from_checked(response.to_bytes())?;
    match response.original_events() {
        Some([body]) if !response.is_edited() => Ok(body.clone()),
        Some([body]) => edit_message(Document::from_checked(body.clone())?, &form),
        Some(_) | None => create_message(&form, response.merged_end()),
    }
}

fn read_form(message: &Document) -> Result<Document> {
    if type_of(message)? != "message" {
        return Err(field_error("type", "`message`"));
    }
    let mut preceding = PrecedingBlocks::default();
    let mut parts = Vec::new();
    for (source, block) in content(message)?.into_iter().enumerate() {
        match type_of(&block)?.as_str() {
            "thinking" | "redacted_thinking" => preceding.push(block.to_bytes()),
            "text" => preceding.push_text(),
            _ => (),
        }
        if let Some(mut part) = read_block(&block)? {
            preceding.attach(&mut part, &block)?;
            parts.push(with_source(part, source)?);
        }
    }
    let mut form = answer_form(parts, message.string(STOP_REASON)?.as_deref())?;
    if let Some(usage) = message.child(USAGE)? {
        let mut counts = MessageTokens::default();
        counts.update(&usage)?;
        form.set(USAGE_METADATA, &counts.to_form())?;
    }
    for (field, from) in [(MODEL_VERSION, MODEL), (RESPONSE_ID, &["id"])] {
        if let Some(value) = message.string(from)? {
            form.set(field, &json!(value))?;
        }
    }
    for (key, value) in AnswerLabels::of(message, visit_message)?.to_fields() {
        form.set(&[&key], &value)?;
    }
    Ok(form)
}

/// Returns the blocks of a message. Ollama sends `null` for an empty list.
fn content(message: &Document) -> Result<Vec<Document>> {
    let content = message.children(CONTENT)?;
    if content.is_none() && !message.has(CONTENT) {
        return Err(field_error("content", "a list of blocks"));
    }
    Ok(content.unwrap_or_default())
}

/// Returns the first candidate and its parts.
fn first_candidate(form: &Document) -> Result<(Document, Vec<Document>)> {
    let candidates = form.children(CANDIDATES)?.unwrap_or_default();
    let candidate = candidates.into_iter().next().unwrap_or_default();
    let parts = parts_in(&candidate, CONTENT)?;
    Ok((candidate, parts))
}

fn edit_message(mut message: Document, form: &Document) -> Result<Bytes> {
    AnswerLabels::of_form(form)?.write(0, &mut message, visit_message)?;
    let before = read_form(&message)?;
    let (_, old_parts) = first_candidate(&before)?;
    let (candidate, parts) = first_candidate(form)?;
    let originals: Vec<Bytes> = content(&message)?.iter().map(Document::to_bytes).collect();
    let blocks = edit_blocks(&originals, &old_parts, &parts)?;
    if blocks != originals {
        message.set_bytes(CONTENT, write_array(blocks))?;
    }
    let stop = message.string(STOP_REASON)?;
    let finish = candidate.string(FINISH_REASON)?;
    let new = edited_stop_reason(stop.as_deref(), finish.as_deref(), has_calls(&parts));
    if stop.as_ref() != Some(&new) {
        message.set(STOP_REASON, &json!(new))?;
    }
    if form.bytes_of(USAGE_METADATA)? != before.bytes_of(USAGE_METADATA)? {
        let counts = form.child(USAGE_METADATA)?.unwrap_or_default();
        let mut usage = message.child(USAGE)?.unwrap_or_default();
        MessageTokens::of_form(&counts)?.write(&mut usage)?;
        message.set_child(USAGE, &usage)?;
    }
    Ok(message.to_bytes())
}

/// Writes a message anew; `end` is the last of the answers that are joined in it.
fn create_message(form: &Document, end: &[Bytes]) -> Result<Bytes> {
    let (candidate, mut parts) = first_candidate(form)?;
    keep_seen(&mut parts)?;
    let finish = candidate.string(FINISH_REASON)?;
    let original = stop_reason_in(end)?;
    let stop = edited_stop_reason(original.as_deref(), finish.as_deref(), has_calls(&parts));
    let mut message = synthetic_message(form, end)?;
    message.set_bytes(CONTENT, write_array(create_blocks(&parts)?))?;
    message.set(STOP_SEQUENCE, &stop_sequence(Some(&stop), form)?)?;
    message.set(STOP_REASON, &json!(stop))?;
    Ok(message.to_bytes())
}

/// Returns an empty message, with the token counts of an answer that is written anew.
pub fn synthetic_message(form: &Document, end: &[Bytes]) -> Result<Document> {
    let id = form.string(RESPONSE_ID)?;
    let model = form.string(MODEL_VERSION)?.unwrap_or_default();
    let message: Value = json!({
        "id": id.as_deref().unwrap_or("msg_hookgate"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": to_value(&new_usage(form, end)?)?,
    });
    to_document(&message)
}

fn has_calls(parts: &[Document]) -> bool {
    parts.iter().any(|part| part.has(FUNCTION_CALL))
}
