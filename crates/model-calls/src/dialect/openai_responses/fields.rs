//! Field names and lookups that several files use, and the free-form fields of the API.

use bytes::Bytes;
use serde_json::json;
use strict_json::{FreeField, FreeFields, Names};

use crate::dialect::{
    document::{Document, first_byte},
    error::Result,
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
pub const ENCRYPTED_CONTENT: &[&str] = &["encrypted_content"];
pub const ERROR: &[&str] = &["error"];
pub const ID: &[&str] = &["id"];
pub const INCOMPLETE_DETAILS: &[&str] = &["incomplete_details"];
pub const INPUT: &[&str] = &["input"];
pub const INSTRUCTIONS: &[&str] = &["instructions"];
pub const ITEM: &[&str] = &["item"];
pub const MODEL: &[&str] = &["model"];
pub const NAME: &[&str] = &["name"];
pub const NAMESPACE: &[&str] = &["namespace"];
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
pub const USAGE: &[&str] = &["usage"];

const fn free(name: &'static str) -> FreeField {
    FreeField::new(name, 1)
}

/// Parses a body or the data of an event.
pub fn parse(bytes: Bytes) -> Result<Document> {
    Document::parse(bytes, NAMES)
}

/// Removes what repeats or refers to a text that was changed: annotations and tokens.
pub fn clear_marks(block: &mut Document) -> Result<()> {
    for field in ["annotations", "logprobs"] {
        if first_byte(block, &[field])? == Some(b'[') {
            block.set(&[field], &json!([]))?;
        }
    }
    Ok(())
}
