//! The response object: its end, and objects of our own.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::remove_labels,
    document::{Document, to_document, to_value},
    error::DialectError,
    google::part::Part,
    openai_responses::{
        calls::arguments_text,
        chunk_view::ChunkView,
        fields::{CONTENT, ID, NAME, OUTPUT, STATUS, SUMMARY},
        preceding::current_items,
        response::{
            item::{OutputKind, has_refusal},
            response_labels::visit_item,
            usage::new_usage,
        },
    },
};

const INCOMPLETE_DETAILS: &[&str] = &["incomplete_details"];

/// Maximum length of the part of an id that names its response, in characters. The API
/// accepts ids of at most 64.
const MAX_BASE_CHARS: usize = 40;

/// Returns the finish reason of a response; `None` if it has not ended.
pub fn finish_reason(response: &Document) -> Result<Option<&'static str>, DialectError> {
    let details = response.child(INCOMPLETE_DETAILS)?.unwrap_or_default();
    let reason = details.string(&["reason"])?;
    Ok(match response.string(STATUS)?.as_deref() {
        Some("completed") | None => {
            for item in response.children(OUTPUT)?.unwrap_or_default() {
                if OutputKind::of(&item)? == OutputKind::Message && has_refusal(&item)? {
                    return Ok(Some("SAFETY"));
                }
            }
            Some("STOP")
        }
        Some("incomplete") => Some(match reason.as_deref() {
            Some("max_output_tokens") => "MAX_TOKENS",
            Some("content_filter") => "SAFETY",
            Some(_) | None => "OTHER",
        }),
        Some("in_progress" | "queued") => None,
        Some(_) => Some("OTHER"),
    })
}

/// Returns the status of a response that ends for a reason, and its details.
pub fn status_of(reason: Option<&str>) -> (&'static str, Value) {
    match reason {
        Some("MAX_TOKENS") => ("incomplete", json!({ "reason": "max_output_tokens" })),
        // Agents show a refusal in the API's own form several times, or not at all.
        Some(_) | None => ("completed", Value::Null),
    }
}

/// Writes the end of a response.
pub fn set_finish_reason(
    response: &mut Document,
    reason: Option<&str>,
) -> Result<(), DialectError> {
    let (status, details) = status_of(reason);
    response.set(STATUS, &status.into())?;
    response.set(INCOMPLETE_DETAILS, &details)
}

/// Ids of items of our own in one response.
#[derive(Debug, Clone)]
pub struct NewIds {
    base: String,
    next: usize,
}

impl NewIds {
    /// Creates ids that derive from the id of a response.
    pub fn new(response_id: &str) -> Self {
        let id = response_id.strip_prefix("resp_").unwrap_or(response_id);
        let is_allowed = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
        Self {
            base: id.chars().filter(is_allowed).take(MAX_BASE_CHARS).collect(),
            next: 0,
        }
    }

    /// Creates ids for items of a response.
    pub fn of_response(response: &Document) -> Result<Self, DialectError> {
        Ok(Self::new(&response.string(ID)?.unwrap_or_default()))
    }

    /// Returns a new id with the prefix of its kind.
    pub fn next(&mut self, prefix: &str) -> String {
        let number = self.next;
        self.next += 1;
        format!("{prefix}_{}_hookgate{number}", self.base)
    }
}

/// Returns a message of our own.
pub fn new_message(ids: &mut NewIds, text: &str) -> Value {
    let block = json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text });
    json!({
        "id": ids.next("msg"),
        "type": "message",
        "status": "completed",
        "content": [block],
        "role": "assistant",
    })
}

/// Returns the items of a part of our own; none for thoughts, which no item can hold without
/// a signature of the model.
pub fn new_items(ids: &mut NewIds, part: &Part) -> Result<Vec<Document>, DialectError> {
    if let Some(text) = part.plain_text() {
        return Ok(vec![to_document(&new_message(ids, text))?]);
    }
    let mut items = current_items(&part.document)?;
    if !items.is_empty() {
        items.iter_mut().try_for_each(remove_unseen)?;
        return Ok(items);
    }
    let Some(call) = part.document.child(&["functionCall"])? else {
        return Ok(Vec::new());
    };
    let arguments = call.get(&["args"])?.unwrap_or_else(|| json!({}));
    let id = call.string(ID)?;
    Ok(vec![to_document(&json!({
        "id": ids.next("fc"),
        "type": "function_call",
        "status": "completed",
        "arguments": arguments_text(&arguments),
        "call_id": id.unwrap_or_else(|| ids.next("call")),
        "name": call.string(NAME)?.unwrap_or_default(),
    }))?])
}

/// Removes what hooks did not see of an item as it came from upstream: fields that hookgate does
/// not interpret, and texts of reasoning, which they saw and may have edited as parts of their own.
fn remove_unseen(item: &mut Document) -> Result<(), DialectError> {
    if OutputKind::of(item)? == OutputKind::Reasoning {
        item.set(SUMMARY, &json!([]))?;
        item.remove(CONTENT)?;
    }
    visit_item(item, &mut |object, known| remove_labels(object, known))
}

/// A response of our own.
#[derive(Debug)]
pub struct NewResponse {
    pub id: String,
    pub model: String,
    pub status: &'static str,
    pub details: Value,
    pub output: Vec<Value>,
    pub usage: Value,
}

impl NewResponse {
    /// Creates the response of a view without an original.
    pub fn of_view(view: &ChunkView) -> Result<Self, DialectError> {
        let id = new_response_id(view.response_id.as_deref());
        let mut ids = NewIds::new(&id);
        let mut output = Vec::new();
        for part in &view.parts {
            for item in new_items(&mut ids, part)? {
                output.push(to_value(&item)?);
            }
        }
        let (status, details) = status_of(view.finish_reason.as_deref());
        Ok(Self {
            id,
            model: view.model.clone().unwrap_or_default(),
            status,
            details,
            output,
            usage: new_usage(&view.usage.clone().unwrap_or_default())?,
        })
    }

    /// Returns the response object.
    pub fn to_value(&self) -> Value {
        json!({
            "id": self.id,
            "object": "response",
            "created_at": seconds_since_epoch(),
            "status": self.status,
            "background": false,
            "error": null,
            "incomplete_details": self.details,
            "instructions": null,
            "max_output_tokens": null,
            "model": self.model,
            "output": self.output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": { "effort": null, "summary": null },
            "store": false,
            "temperature": 1.0,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": self.usage,
            "user": null,
            "metadata": {},
        })
    }

    /// Returns the response as a body.
    pub fn to_bytes(&self) -> Bytes {
        self.to_value().to_string().into()
    }
}

/// Returns the id of a response of our own, with the prefix that the API uses.
pub fn new_response_id(id: Option<&str>) -> String {
    let id = id.unwrap_or("hookgate");
    if id.starts_with("resp_") {
        id.to_owned()
    } else {
        format!("resp_{id}")
    }
}

fn seconds_since_epoch() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}
