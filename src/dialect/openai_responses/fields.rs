//! Field names and lookups that several files use, and the free-form fields of the API.

use bytes::Bytes;
use serde_json::Value;
use strict_json::{FreeField, FreeFields, Names};

use crate::dialect::{
    document::{Document, read_json},
    error::DialectError,
};

/// Fields with free-form keys: arguments, schemas, labels. Below them only exact duplicates
/// of keys are refused.
const FREE_FORM: &FreeFields = &FreeFields::new(&[
    free("arguments"),
    free("attributes"),
    free("client_metadata"),
    free("default"),
    free("env"),
    free("example"),
    free("headers"),
    free("input_schema"),
    free("metadata"),
    free("output_schema"),
    free("parameters"),
    free("properties"),
    free("schema"),
    free("variables"),
]);

/// Comparison of the keys of requests, responses and events.
pub const NAMES: Names = Names::Fields(FREE_FORM);

pub const ARGUMENTS: &[&str] = &["arguments"];
pub const CALL_ID: &[&str] = &["call_id"];
pub const CONTENT: &[&str] = &["content"];
pub const ERROR: &[&str] = &["error"];
pub const ID: &[&str] = &["id"];
pub const INPUT: &[&str] = &["input"];
pub const INSTRUCTIONS: &[&str] = &["instructions"];
pub const ITEM: &[&str] = &["item"];
pub const MODEL: &[&str] = &["model"];
pub const NAME: &[&str] = &["name"];
pub const OUTPUT: &[&str] = &["output"];
/// A copy of all texts of a response that some servers add.
pub const OUTPUT_TEXT: &[&str] = &["output_text"];
pub const ROLE: &[&str] = &["role"];
pub const STATUS: &[&str] = &["status"];
pub const SUMMARY: &[&str] = &["summary"];
pub const TEXT: &[&str] = &["text"];
pub const TOOL_CHOICE: &[&str] = &["tool_choice"];
pub const TOOLS: &[&str] = &["tools"];
pub const TYPE: &[&str] = &["type"];

const fn free(name: &'static str) -> FreeField {
    FreeField::new(name, 1)
}

/// Parses a body or the data of an event.
pub fn parse(bytes: Bytes) -> Result<Document, DialectError> {
    Document::parse(bytes, NAMES)
}

/// Returns the first byte of a field's value; `None` for an absent field and for `null`.
pub fn first_byte(document: &Document, field: &[&str]) -> Result<Option<u8>, DialectError> {
    let value = document.bytes_of(field)?;
    let value = value.filter(|value| **value != *b"null");
    Ok(value.and_then(|value| value.first().copied()))
}

/// Returns a number that is no fraction and not negative.
pub fn integer(document: &Document, field: &[&str]) -> Result<Option<u64>, DialectError> {
    Ok(document.get(field)?.and_then(|value| value.as_u64()))
}

/// Returns a document as JSON.
pub fn to_value(document: &Document) -> Result<Value, DialectError> {
    read_json(&document.to_bytes())
}

/// Creates a document from JSON of our own.
pub fn object(value: &Value) -> Result<Document, DialectError> {
    Document::from_checked(value.to_string().into())
}
