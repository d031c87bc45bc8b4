//! Items that a call consists of for the API: the reasoning in front of it, and the call
//! itself. They travel with the call's part, so that a call can be given back to the model. So do
//! those of calls that ran upstream.

use serde_json::Value;

use crate::dialect::{
    content_form::{PRECEDING, read_labels},
    document::{Document, insert, to_document, to_value},
    error::Result,
    openai_responses::{
        calls::{CALL_FIELDS, ToolCallKind},
        fields::{ID, TYPE},
        visible_fields::{item_part, write_item},
    },
};

/// Adds its items to the part of a call, and the labels of the call, so that those of an answer that
/// is written anew are as policies edited them.
pub fn add_items(part: &mut Value, reasoning: &[Document], call: &Document) -> Result<()> {
    let items = reasoning.iter().chain([call]).map(to_value);
    let items: Vec<Value> = items.collect::<Result<_, _>>()?;
    insert(part, PRECEDING, items);
    add_labels(part, call)
}

fn add_labels(part: &mut Value, item: &Document) -> Result<()> {
    let Some(kind) = ToolCallKind::of_call(item)? else {
        return Ok(());
    };
    let labels = read_labels(item, &[CALL_FIELDS, kind.inputs()].concat())?;
    if !labels.is_empty() {
        insert(part, "labels", labels);
    }
    Ok(())
}

/// Returns the items of a part with its current arguments, labels or fields; none if the part has
/// none.
pub fn current_items(part: &Document) -> Result<Vec<Document>> {
    let mut items = part.children(&[PRECEDING])?.unwrap_or_default();
    if let Some(item) = items.last_mut() {
        let call = ToolCallKind::of_call(item)?;
        let mut before = item_part(call, item)?;
        add_labels(&mut before, item)?;
        write_item(item, call, &to_document(&before)?, part)?;
    }
    Ok(items)
}

/// Returns the reasoning items in front of a call.
pub fn reasoning_of(part: &Document) -> Result<Vec<Document>> {
    let mut reasoning = Vec::new();
    for item in part.children(&[PRECEDING])?.unwrap_or_default() {
        if item.string(TYPE)?.as_deref() == Some("reasoning") {
            reasoning.push(item);
        }
    }
    Ok(reasoning)
}

/// Returns whether two reasoning items are copies of one. Some agents omit its id.
pub fn is_same_reasoning(one: &Document, other: &Document) -> Result<bool> {
    for field in [ID, &["encrypted_content"]] {
        if let (Some(one), Some(other)) = (one.string(field)?, other.string(field)?)
            && !one.is_empty()
        {
            return Ok(one == other);
        }
    }
    Ok(false)
}
