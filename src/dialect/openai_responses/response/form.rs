//! The content form of a response object.

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{AnswerLabels, with_source},
    document::{Document, insert},
    error::DialectError,
    openai_responses::{
        fields::{ERROR, ID, MODEL, OUTPUT, OUTPUT_TEXT},
        response::{
            item::{OutputKind, item_parts_with, item_texts},
            object::finish_reason,
            response_labels::visit_response,
            usage::COUNTS,
        },
    },
};

/// Returns the content form of a response.
pub fn read_form(body: &Document) -> Result<Value, DialectError> {
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
    let mut form = Map::new();
    form.insert("candidates".to_owned(), json!([candidate]));
    let usage = body.child(&["usage"])?;
    let usage = usage.map(|usage| COUNTS.read(&usage)).transpose()?;
    form.extend(usage.map(|usage| ("usageMetadata".to_owned(), usage)));
    for (key, field) in [("modelVersion", MODEL), ("responseId", ID)] {
        let value = body.string(field)?;
        form.extend(value.map(|value| (key.to_owned(), value.into())));
    }
    if let Some(error @ Value::Object(_)) = body.get(ERROR)? {
        form.insert("error".to_owned(), error);
    }
    form.extend(AnswerLabels::of(body, visit_response)?.to_fields());
    Ok(Value::Object(form))
}

/// Checks the copy of all texts that some servers add.
///
/// # Errors
///
/// Fails if it holds another text than the items.
pub fn check_copy(body: &Document) -> Result<(), DialectError> {
    let Some(copy) = body.string(OUTPUT_TEXT)? else {
        return Ok(());
    };
    let mut whole = String::new();
    for item in body.children(OUTPUT)?.unwrap_or_default() {
        if OutputKind::of(&item)? == OutputKind::Message {
            whole.extend(item_texts(&item)?.into_iter().map(|(_, text)| text));
        }
    }
    if copy == whole {
        return Ok(());
    }
    Err(DialectError::Ambiguous("output_text".to_owned()))
}
