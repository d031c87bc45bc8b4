//! The content form of a response object.

use serde_json::{Value, json};

use crate::dialect::{
    content_form::{AnswerLabels, with_source},
    document::{Document, insert},
    error::{DialectError, Result},
    openai_responses::{
        fields::{ERROR, ID, MODEL, OUTPUT, OUTPUT_TEXT, USAGE},
        response::{
            item::{OutputKind, item_parts_with, item_texts},
            object::{COUNTS, finish_reason},
            response_labels::visit_response,
        },
    },
};

/// Returns the content form of a response.
pub fn read_form(body: &Document) -> Result<Value> {
    check_copy(body)?;
    let mut parts = Vec::new();
    let mut reasoning = Vec::new();
    for item in body.children(OUTPUT)?.unwrap_or_default() {
        for part in item_parts_with(&reasoning, &item)? {
            parts.push(with_source(part, parts.len()));
        }
        match OutputKind::of(&item)? {
            OutputKind::Reasoning => reasoning.push(item),
            _ => reasoning.clear(),
        }
    }
    let mut candidate = json!({
        "index": 0,
        "content": { "role": "model", "parts": parts },
    });
    if let Some(reason) = finish_reason(body)? {
        insert(&mut candidate, "finishReason", reason);
    }
    let mut form = json!({ "candidates": [candidate] });
    if let Some(usage) = body.child(USAGE)? {
        insert(&mut form, "usageMetadata", COUNTS.read(&usage)?);
    }
    read_envelope(&mut form, body)?;
    if let Some(error @ Value::Object(_)) = body.get(ERROR)? {
        insert(&mut form, "error", error);
    }
    for (key, labels) in AnswerLabels::of(body, visit_response)?.to_fields() {
        insert(&mut form, &key, labels);
    }
    Ok(form)
}

/// Reads the model and the id of a response into its content form.
pub fn read_envelope(form: &mut Value, response: &Document) -> Result<()> {
    for (key, field) in [("modelVersion", MODEL), ("responseId", ID)] {
        if let Some(value) = response.string(field)? {
            insert(form, key, value);
        }
    }
    Ok(())
}

/// Checks the copy of all texts that some servers add.
///
/// # Errors
///
/// Fails if it holds another text than the items.
pub fn check_copy(body: &Document) -> Result<()> {
    let Some(copy) = body.string(OUTPUT_TEXT)? else {
        return Ok(());
    };
    let mut whole = String::new();
    for item in body.children(OUTPUT)?.unwrap_or_default() {
        if OutputKind::of(&item)? == OutputKind::Message {
            whole.extend(item_texts(&item)?.into_iter().map(|complete| complete.text));
        }
    }
    if copy == whole {
        return Ok(());
    }
    Err(DialectError::Ambiguous("output_text".to_owned()))
}
