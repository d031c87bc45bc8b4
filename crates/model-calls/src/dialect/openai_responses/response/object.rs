//! The response object: its end, and synthetic objects.

use serde_json::{Value, json};

use crate::dialect::{
    content_form::{is_refusal, remove_labels},
    document::{Document, insert, to_document, try_any, value_text},
    error::Result,
    google::{fields::PHASE, part::Part},
    openai::{unix_seconds, usage::CountFields},
    openai_responses::{
        chunk_view::ChunkView,
        fields::{
            CONTENT, ERROR, ID, INCOMPLETE_DETAILS, NAME, OUTPUT, OUTPUT_TEXT, STATUS, SUMMARY,
            USAGE,
        },
        preceding::current_items,
        response::{
            item::{OutputKind, item_texts},
            response_labels::visit_item,
        },
    },
};

/// Names of the token counts.
pub const COUNTS: CountFields = CountFields(["input_tokens", "output_tokens", "total_tokens"]);

/// Maximum length of the part of an id that names its response, in characters. The API
/// accepts ids of at most 64.
const MAX_BASE_CHARS: usize = 40;

/// Returns the finish reason of a response; `None` if it has not ended.
pub fn finish_reason(response: &Document) -> Result<Option<&'static str>> {
    let details = response.child(INCOMPLETE_DETAILS)?.unwrap_or_default();
    let reason = details.string(&["reason"])?;
    Ok(match response.string(STATUS)?.as_deref() {
        Some("completed") | None if is_refused(response)? => Some("SAFETY"),
        Some("completed") | None => Some("STOP"),
        Some("incomplete") => Some(match reason.as_deref() {
            Some("max_output_tokens") => "MAX_TOKENS",
            Some("content_filter") => "SAFETY",
            Some(_) | None => "OTHER",
        }),
        Some("in_progress" | "queued") => None,
        Some(_) => Some("OTHER"),
    })
}

/// Returns whether a response has a refusal of the model.
fn is_refused(response: &Document) -> Result<bool> {
    try_any(response.children(OUTPUT)?.unwrap_or_default(), |item| {
        let is_message = OutputKind::of(&item)? == OutputKind::Message;
        Ok(is_message && item_texts(&item)?.iter().any(|text| text.is_refusal))
    })
}

/// Returns the status of a response that ends for a reason, and its details.
fn status_of(reason: Option<&str>) -> (&'static str, Value) {
    let incomplete = |cause| ("incomplete", json!({ "reason": cause }));
    match reason {
        Some("MAX_TOKENS") => incomplete("max_output_tokens"),
        Some(reason) if is_refusal(reason) => incomplete("content_filter"),
        Some(_) | None => ("completed", Value::Null),
    }
}

/// Writes the end of a response. One with a refusal of the model is complete: agents repeat a call
/// whose response is not.
pub fn set_finish_reason(response: &mut Document, reason: Option<&str>) -> Result<()> {
    let is_refused = is_refused(response)?;
    let reason = reason.filter(|reason| !(is_refused && is_refusal(reason)));
    let (status, details) = status_of(reason);
    response.set(STATUS, &status.into())?;
    response.set(INCOMPLETE_DETAILS, &details)
}

/// Ids of synthetic items in one response.
#[derive(Debug, Default)]
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
    pub fn of_response(response: &Document) -> Result<Self> {
        Ok(Self::new(&response.string(ID)?.unwrap_or_default()))
    }

    /// Returns a new id with the prefix of its kind.
    pub fn next(&mut self, prefix: &str) -> String {
        let number = self.next;
        self.next += 1;
        format!("{prefix}_{}_hookgate{number}", self.base)
    }
}

/// Returns the items of a synthetic part; none for thoughts, which no item can hold without
/// a signature of the model.
pub fn new_items(ids: &mut NewIds, part: &Part) -> Result<Vec<Document>> {
    if let Some(text) = part.plain_text() {
        let block = if part.is_refusal() {
            json!({ "type": "refusal", "refusal": text })
        } else {
            json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text })
        };
        let mut message = json!({
            "id": ids.next("msg"),
            "type": "message",
            "status": "completed",
            "content": [block],
            "role": "assistant",
        });
        if let Some(phase) = part.document.string(&[PHASE])? {
            insert(&mut message, "phase", phase);
        }
        return Ok(vec![to_document(&message)?]);
    }
    let mut items = current_items(&part.document)?;
    if !items.is_empty() {
        for item in &mut items {
            if OutputKind::of(item)? == OutputKind::Reasoning {
                // Hooks see its texts and labels elsewhere, and may have edited them there.
                item.set(SUMMARY, &json!([]))?;
                item.remove(CONTENT)?;
                visit_item(item, &mut remove_labels)?;
            }
        }
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
        "arguments": value_text(&arguments),
        "call_id": id.unwrap_or_else(|| ids.next("call")),
        "name": call.string(NAME)?.unwrap_or_default(),
    }))?])
}

/// Returns the response of a view without an original.
pub fn new_response(view: &ChunkView) -> Result<Document> {
    let mut response = new_envelope(view)?;
    let mut ids = NewIds::of_response(&response)?;
    let mut items = Vec::new();
    for part in &view.parts {
        items.append(&mut new_items(&mut ids, part)?);
    }
    end_response(&mut response, &items, view)?;
    Ok(response)
}

/// Returns a response without items: that with which the merged answers end, or a synthetic one.
pub fn new_envelope(view: &ChunkView) -> Result<Document> {
    if let Some(end) = &view.end {
        return Ok(end.clone());
    }
    let id = match view.response_id.as_deref().unwrap_or("hookgate") {
        id if id.starts_with("resp_") => id.to_owned(),
        id => format!("resp_{id}"),
    };
    to_document(&json!({
        "id": id,
        "object": "response",
        "created_at": unix_seconds(),
        "status": "completed",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "model": view.model.as_deref().unwrap_or_default(),
        "output": [],
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
        "usage": new_usage(&view.usage.clone().unwrap_or_default())?,
        "user": null,
        "metadata": {},
    }))
}

/// Returns a response as it begins: without items, and without what is known at its end.
pub fn started(response: &Document) -> Result<Document> {
    let mut started = response.clone();
    started.set(OUTPUT, &json!([]))?;
    started.set(STATUS, &json!("in_progress"))?;
    started.remove(OUTPUT_TEXT)?;
    for field in [USAGE, ERROR, INCOMPLETE_DETAILS, &["completed_at"]] {
        if started.has(field) {
            started.set(field, &Value::Null)?;
        }
    }
    Ok(started)
}

/// Writes its items and its end into a response that is written anew.
pub fn end_response<'a>(
    response: &mut Document,
    items: impl IntoIterator<Item = &'a Document>,
    view: &ChunkView,
) -> Result<()> {
    let reason = view.finish_reason.as_deref();
    let is_edited = view.end.is_none() || finish_reason(response)? != reason;
    response.set_children(OUTPUT, items)?;
    if is_edited {
        set_finish_reason(response, reason)?;
    }
    if let Some(counts) = &view.usage {
        response.edit_child(USAGE, |usage| COUNTS.write(usage, counts))?;
    }
    if let Some(error) = &view.error {
        response.set(STATUS, &json!("failed"))?;
        response.set_child(ERROR, error)?;
    }
    Ok(())
}

/// Returns the usage of a synthetic response.
pub fn new_usage(counts: &Document) -> Result<Value> {
    let mut usage = COUNTS.create(counts)?;
    let cached = json!({ "cached_tokens": 0 });
    let reasoning = json!({ "reasoning_tokens": 0 });
    usage.insert("input_tokens_details".to_owned(), cached);
    usage.insert("output_tokens_details".to_owned(), reasoning);
    Ok(Value::Object(usage))
}
