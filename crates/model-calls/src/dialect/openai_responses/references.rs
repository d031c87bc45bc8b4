//! References to earlier responses: ids of stored ones, and encrypted summaries.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    content_reference::ContentReference,
    document::{Document, first_byte, is_set},
    error::Result,
    openai_responses::fields::{ENCRYPTED_CONTENT, ID, INPUT, ITEM, OUTPUT, TYPE, parse},
};

/// Types of the items that hold an encrypted summary.
const SUMMARIES: &[&str] = &["compaction", "compaction_summary", "context_compaction"];

/// Returns what a request refers to.
pub fn of_request(body: &Document) -> Result<Vec<ContentReference>> {
    let mut references = Vec::new();
    let previous = body.string(&["previous_response_id"])?;
    references.extend(previous.map(ContentReference::Response));
    if first_byte(body, INPUT)? == Some(b'[') {
        for item in body.children(INPUT)?.unwrap_or_default() {
            references.extend(compaction(&item)?);
        }
    }
    Ok(references)
}

/// Returns what a whole response or an event leaves for later requests.
pub fn of_response(data: &Bytes) -> Result<Vec<ContentReference>> {
    let data = parse(data.clone())?;
    let response = match data.string(TYPE)?.as_deref() {
        Some("response.output_item.done") => {
            let item = data.child(ITEM)?.unwrap_or_default();
            return Ok(compaction(&item)?.into_iter().collect());
        }
        Some("response.created" | "response.completed" | "response.incomplete") => {
            data.child(&["response"])?.unwrap_or_default()
        }
        Some(_) => return Ok(Vec::new()),
        None => data,
    };
    let mut references = Vec::new();
    let is_response = response.string(&["object"])?.as_deref() == Some("response");
    let is_stored = response.get(&["store"])? != Some(Value::Bool(false));
    if is_response
        && is_stored
        && let Some(id) = response.string(ID)?
    {
        let status = response.string(&["status"])?;
        if matches!(status.as_deref(), Some("completed" | "incomplete")) {
            references.push(ContentReference::Response(id.clone()));
        }
        references.push(ContentReference::StoredResponse(id));
    }
    for item in response.children(OUTPUT)?.unwrap_or_default() {
        references.extend(compaction(&item)?);
    }
    Ok(references)
}

/// Returns the reference to an encrypted summary; `None` for other items. A server may read the
/// encrypted content of any item but reasoning as a summary.
fn compaction(item: &Document) -> Result<Option<ContentReference>> {
    let is_summary = match item.string(TYPE)?.as_deref() {
        Some("reasoning") => false,
        Some(named) if SUMMARIES.contains(&named) => true,
        Some(_) | None => is_set(item, ENCRYPTED_CONTENT)?,
    };
    if !is_summary {
        return Ok(None);
    }
    let content = item.string(ENCRYPTED_CONTENT)?;
    Ok(Some(ContentReference::Compaction(
        content.unwrap_or_default(),
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encrypted_content_of_all_items_but_reasoning_is_a_summary() {
        let references = |item: Value| {
            let body = json!({ "input": [item] });
            of_request(&parse(body.to_string().into()).unwrap()).unwrap()
        };
        let summary = |content: &str| vec![ContentReference::Compaction(content.to_owned())];
        for named in ["compaction", "compaction_summary", "context_compaction"] {
            let item = json!({ "type": named, "encrypted_content": "abc" });
            assert_eq!(references(item), summary("abc"), "{named}");
            assert_eq!(references(json!({ "type": named })), summary(""), "{named}");
        }
        let unknown = json!({ "type": "digest", "encrypted_content": "abc" });
        assert_eq!(references(unknown), summary("abc"));
        let reasoning = json!({ "type": "reasoning", "encrypted_content": "abc" });
        assert_eq!(references(reasoning), []);
        let null = json!({ "type": "web_search_call", "encrypted_content": null });
        assert_eq!(references(null), []);
    }

    #[test]
    fn stored_responses_leave_their_id_and_can_be_continued_once_they_have_ended() {
        let response = |status: &str, store: Value| {
            let response = json!({
                "object": "response", "id": "resp_1", "status": status, "store": store,
                "output": [{ "type": "compaction", "encrypted_content": "abc" }],
            });
            let whole = of_response(&response.to_string().into()).unwrap();
            let event = match status {
                "in_progress" => "created",
                status => status,
            };
            let event = json!({ "type": format!("response.{event}"), "response": response });
            assert_eq!(of_response(&event.to_string().into()).unwrap(), whole);
            whole.len()
        };
        assert_eq!(response("completed", Value::Null), 3);
        assert_eq!(response("completed", json!(true)), 3);
        assert_eq!(response("incomplete", json!(true)), 3);
        assert_eq!(response("completed", json!(false)), 1);
        assert_eq!(response("in_progress", json!(true)), 2);
        assert_eq!(response("in_progress", json!(false)), 1);
    }
}
