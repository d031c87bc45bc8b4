//! Content that is stored upstream, and summaries of earlier responses.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::dialect::{
    anthropic::{
        fields::{CONTENT, TYPE, parse_strict},
        request::input_messages::MESSAGES,
    },
    content_form::any_object_with,
    content_reference::ContentReference,
    document::{Document, first_byte, is_set},
    error::Result,
    method::Api,
    request_field::{AllowedFields, RequestField, STORED_PROMPTS},
};

const ENCRYPTED: &str = "encrypted_content";

/// Refuses content that is stored upstream, unless it is allowed.
///
/// # Errors
///
/// Fails for content that is not allowed.
pub fn refuse_stored(body: &Document, allowed: AllowedFields) -> Result<()> {
    let check = |field| allowed.check(Api::Anthropic, field);
    if is_set(body, &["thread"])? {
        check(RequestField::Thread)?;
    }
    for field in STORED_PROMPTS {
        if is_set(body, &[field])? {
            allowed.check_named(Api::Anthropic, RequestField::StoredPrompt, field)?;
        }
    }
    let names = |kind: &'static str| {
        move |fields: &Map<String, Value>| fields.get("type").and_then(Value::as_str) == Some(kind)
    };
    let search = |kind| any_object_with(body, MESSAGES, "file_id", "input", &names(kind));
    if is_set(body, &["container"])? || search("container_upload")? {
        check(RequestField::Container)?;
    }
    if search("file")? {
        check(RequestField::StoredFile)?;
    }
    Ok(())
}

/// Returns the encrypted summaries in a request.
///
/// # Errors
///
/// Fails if the messages are ambiguous.
pub fn request_references(body: &Document) -> Result<Vec<ContentReference>> {
    let mut references = Vec::new();
    for message in body.children(MESSAGES)?.unwrap_or_default() {
        if first_byte(&message, CONTENT)? == Some(b'[') {
            for block in message.children(CONTENT)?.unwrap_or_default() {
                references.extend(compaction(&block)?);
            }
        }
    }
    Ok(references)
}

/// Returns the encrypted summaries in a message or an event of a stream.
///
/// # Errors
///
/// Fails if the data cannot be parsed.
pub fn response_references(data: &Bytes) -> Result<Vec<ContentReference>> {
    let data = parse_strict(data.clone())?;
    let blocks = match data.string(TYPE)?.as_deref() {
        Some("message") => data.children(CONTENT)?.unwrap_or_default(),
        Some("content_block_start") => data.child(&["content_block"])?.into_iter().collect(),
        Some("content_block_delta") => data.child(&["delta"])?.into_iter().collect(),
        Some(_) | None => Vec::new(),
    };
    let blocks = blocks.iter();
    let found = blocks.filter_map(|block| compaction(block).transpose());
    found.collect()
}

/// Returns the reference to an encrypted summary; `None` for other blocks. A summary that is not
/// encrypted is inspected like any text.
fn compaction(block: &Document) -> Result<Option<ContentReference>> {
    let kind = block.string(TYPE)?;
    if !matches!(kind.as_deref(), Some("compaction" | "compaction_delta")) {
        return Ok(None);
    }
    let content = block.string(&[ENCRYPTED])?;
    Ok(content.map(ContentReference::Compaction))
}
