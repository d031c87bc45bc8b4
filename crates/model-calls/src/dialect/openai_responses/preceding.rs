//! Items that a call consists of for the API: the reasoning in front of it, and the call
//! itself. They travel with the call's part, so that a call can be given back to the model. So do
//! those of calls that ran upstream.

use serde_json::{Value, json};

use crate::dialect::{
    content_form::PRECEDING,
    document::{Document, insert, to_document, to_value},
    error::Result,
    openai_responses::{
        calls::ToolCallKind,
        fields::{ID, TYPE},
        visible_fields::{visible_fields, write_visible_fields},
    },
};

/// Adds its items to the part of a call.
pub fn add_items(part: &mut Value, reasoning: &[Document], call: &Document) -> Result<()> {
    let items = reasoning.iter().chain([call]).map(to_value);
    let items: Vec<Value> = items.collect::<Result<_, _>>()?;
    insert(part, PRECEDING, items);
    Ok(())
}

/// Returns the items of a part with its current arguments or fields; none if the part has none.
pub fn current_items(part: &Document) -> Result<Vec<Document>> {
    let mut items = part.children(&[PRECEDING])?.unwrap_or_default();
    let call = part.child(&["functionCall"])?;
    if let (Some(item), Some(call)) = (items.last_mut(), call)
        && let Some(kind) = ToolCallKind::of_call(item)?
    {
        let arguments = call.get(&["args"])?.unwrap_or_else(|| json!({}));
        if kind.arguments(item)? != arguments {
            kind.set_arguments(item, &arguments)?;
        }
    }
    if let (Some(item), Some(block)) = (items.last_mut(), part.child(&["block"])?) {
        let before = to_document(&visible_fields(item)?)?;
        write_visible_fields(item, &before, &block)?;
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
