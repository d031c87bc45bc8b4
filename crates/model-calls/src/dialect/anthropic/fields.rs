//! Field names of the content form and of the API, and the API's free-form fields.

use bytes::Bytes;
use serde_json::json;
use strict_json::{FreeField, FreeFields, Names};

pub use crate::dialect::google::fields::{
    CALLER, CANDIDATES, CONTAINER, CONTENT, CONTENTS, DECLARATIONS, FINISH_REASON, FUNCTION_CALL,
    FUNCTION_RESPONSE, GENERATION_CONFIG, IS_TOOLSET, LABELS, MODEL, PARTS, SYSTEM_INSTRUCTION,
    TOOL_CONFIG, TOOLSET_NAME,
};
use crate::dialect::{
    content_form::SOURCE,
    document::Document,
    error::{Result, field_error},
};

pub const ARGUMENTS: &[&str] = &["args"];
/// Original block of a part that has no other form.
pub const BLOCK: &[&str] = &["block"];
pub const CITATIONS: &[&str] = &["citations"];
pub const ID: &[&str] = &["id"];
/// Error of the API that ends an answer.
pub const ERROR: &[&str] = &["error"];
/// Models that answer if the named one refuses to.
pub const FALLBACKS: &[&str] = &["fallbacks"];
pub const INLINE_DATA: &[&str] = &["inlineData"];
/// Present if the block of a part is an event or a piece of a block, which no message can hold.
pub const EVENT: &[&str] = &["event"];
pub const FILE_DATA: &[&str] = &["fileData"];
pub const MODEL_VERSION: &[&str] = &["modelVersion"];
pub const NAME: &[&str] = &["name"];
pub const RESPONSE: &[&str] = &["response"];
pub const RESPONSE_ID: &[&str] = &["responseId"];
pub const SIGNATURE: &[&str] = &["signature"];
pub const TEXT: &[&str] = &["text"];
pub const THINKING: &[&str] = &["thinking"];
pub const THOUGHT: &[&str] = &["thought"];
/// Set of tools to which a called tool belongs.
pub const TOOLSET: &[&str] = &["toolset_name"];
/// Tools that became available in compacted history.
pub const TOOL_CHANGES: &[&str] = &["tool_changes"];
pub const TYPE: &[&str] = &["type"];
pub const USAGE: &[&str] = &["usage"];
pub const USAGE_METADATA: &[&str] = &["usageMetadata"];

/// Fields of a text block that hooks see, or that hold no text. Others are labels.
pub const TEXT_BLOCK_FIELDS: &[&str] = &["cache_control", "text", "type"];

/// Fields with free-form keys: arguments, schemas, examples and settings by tool name.
const FREE_FORM: &FreeFields = &FreeFields::new(&[
    FreeField::new("input", 1),
    FreeField::new("input_schema", 1),
    FreeField::new("input_examples", 1),
    FreeField::new("schema", 1),
    FreeField::new("configs", 1),
]);

/// Parses a document of the API.
///
/// # Errors
///
/// Fails if the bytes are no JSON object, or parsers could disagree about them.
pub fn parse_strict(bytes: Bytes) -> Result<Document> {
    Document::parse(bytes, Names::Fields(FREE_FORM))
}

/// Returns the type of a block, an event or a tool.
///
/// # Errors
///
/// Fails if it is absent.
pub fn type_of(document: &Document) -> Result<String> {
    let kind = document.string(TYPE)?;
    kind.ok_or_else(|| field_error("type", "a string"))
}

/// Returns the JSON of a field that must be a string.
///
/// # Errors
///
/// Fails if it is absent or has another type.
pub fn string_bytes(document: &Document, field: &'static str) -> Result<Bytes> {
    let bytes = document.bytes_of(&[field])?;
    let text = bytes.filter(|bytes| bytes.first() == Some(&b'"'));
    text.ok_or_else(|| field_error(field, "a string"))
}

/// Returns a part with one field.
pub fn field_part(field: &[&str], value: Bytes) -> Result<Document> {
    let mut part = Document::empty();
    part.set_bytes(field, value)?;
    Ok(part)
}

/// Returns a part with its source.
pub fn with_source(mut part: Document, source: usize) -> Result<Bytes> {
    part.set(&[SOURCE], &json!(source))?;
    Ok(part.to_bytes())
}
