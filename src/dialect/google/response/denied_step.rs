//! The contents that inform the model of refused calls.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    error::Result,
    google::{
        content::Content,
        part::Part,
        response::{candidate::ProposedCall, function_calls::refusal_text},
    },
};

/// Result of a call that was not refused, but belongs to a step with a refused one.
const NOT_RUN: &str =
    "Not run, because another call of this step was blocked. Ask for it again if it is needed.";

/// Returns a step that the agent does not receive as two contents: text and calls of the
/// model, and one result for each call. Calls that were not refused get a result, too,
/// because the API requires it; the model may repeat them.
pub fn denied_step(text: &str, calls: &[ProposedCall]) -> Result<[Bytes; 2]> {
    let mut proposed = Vec::with_capacity(calls.len() + 1);
    if !text.is_empty() {
        proposed.push(Part::from_text(text)?);
    }
    for call in calls {
        proposed.push(call.part.complete_call()?);
    }
    let results: Vec<Part> = calls.iter().map(result).collect::<Result<_, _>>()?;
    Ok([content("model", proposed)?, content("user", results)?])
}

fn content(role: &str, parts: Vec<Part>) -> Result<Bytes> {
    Ok(Content::new(role, parts)?.document.to_bytes())
}

/// Returns the function response with the refusal.
fn result(call: &ProposedCall) -> Result<Part> {
    let error = match &call.refusal {
        Some(reason) => refusal_text(reason),
        None => NOT_RUN.to_owned(),
    };
    let mut response = json!({ "name": call.name, "response": { "error": error } });
    if let (Some(id), Some(fields)) = (call.part.call_id()?, response.as_object_mut()) {
        fields.insert("id".to_owned(), Value::String(id));
    }
    Part::from_json(&json!({ "functionResponse": response }))
}
