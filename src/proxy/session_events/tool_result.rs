//! `AfterTool` events from the tool results of a request.

use serde_json::{Map, Value, json};

use crate::{
    dialect::{DialectError, History, ToolResult},
    event::{AfterTool, ToolResponse, mcp_context},
    session::{Item, YieldBudget},
};

/// Fields of a function response that hold all of its content if they are its only field.
const CONTENT_FIELDS: [&str; 4] = ["output", "result", "content", "error"];

/// Builds the events of tool results, in order.
pub async fn events<'a>(
    history: &History,
    items: impl Iterator<Item = &'a Item>,
) -> Result<Vec<AfterTool>, DialectError> {
    let mut events = Vec::new();
    let mut results = Vec::new();
    let mut budget = YieldBudget::default();
    for item in items {
        budget.step().await;
        let position = |result: &ToolResult| (result.content, result.part);
        let wanted = (item.content, item.part);
        // The results of one content are read at once: it may hold very many.
        if results.last().is_none_or(|last| position(last) < wanted) {
            results = history.results(item.content)?;
        }
        let index = results.binary_search_by_key(&wanted, position).ok();
        let result = index.and_then(|index| results.get(index)).cloned();
        events.push(event(result.unwrap_or_default()));
    }
    Ok(events)
}

fn event(result: ToolResult) -> AfterTool {
    let tool_input = match result.args {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    AfterTool {
        mcp_context: mcp_context(&result.name),
        tool_name: result.name,
        tool_input,
        tool_response: tool_response(result.response, result.media),
        original_request_name: None,
    }
}

/// Builds the tool response that hooks receive. Agents send back only what is for the model: a
/// text, or a list of parts if it contains media.
fn tool_response(response: Value, media: Vec<Value>) -> ToolResponse {
    let mut shown = ToolResponse::new();
    let content = match response {
        Value::Object(mut fields) => {
            if let Some(error) = fields.get("error") {
                shown.insert("error".to_owned(), json!({ "message": text_of(error) }));
            }
            let is_only = |field: &&&str| fields.len() == 1 && fields.contains_key(**field);
            match CONTENT_FIELDS.iter().find(is_only) {
                Some(field) => fields.remove(*field).unwrap_or_default(),
                None => Value::Object(fields),
            }
        }
        other => other,
    };
    let display = text_of(&content);
    let content = if media.is_empty() {
        content
    } else {
        let text = std::iter::once(json!({ "text": display }));
        Value::Array(text.chain(media).collect())
    };
    shown.insert("llmContent".to_owned(), content);
    shown.insert("returnDisplay".to_owned(), Value::String(display));
    shown
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
