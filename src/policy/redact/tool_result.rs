//! `redact` on a tool's result that is an event.

use serde_json::Value;

use super::redactor::{FoundDetectors, Redact, RedactionMode, RedactionScope};
use crate::{
    dialect,
    event::{AfterTool, HookOutput},
};

/// Places in a part or block that hold media.
const MEDIA: &[&str] = &[
    "/inlineData",
    "/inline_data",
    "/fileData",
    "/file_data",
    "/file/file_data",
    "/resource/blob",
];

/// Types of blocks that hold media.
const MEDIUM_TYPES: &[&str] = &[
    "audio",
    "image",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
];

/// Masks a result as one text, which is what the model reads of it.
pub(super) fn redact_result(redact: &Redact, event: &AfterTool) -> HookOutput {
    let mut found = FoundDetectors::new();
    let mut result = Value::Object(event.tool_response.clone());
    let mut is_edited = match result.get_mut("llmContent") {
        Some(Value::Array(items)) => redact_runs(redact, items, text_of, &mut found),
        _ => false,
    };
    is_edited |= redact_lists(redact, &mut result, &mut found);
    let mut edit = |text: &str| redact.redact(RedactionScope::ToolResults, text, &mut found);
    is_edited |= dialect::edit_json_strings(&mut result, &mut edit);
    if !is_edited {
        return HookOutput::default();
    }
    if redact.mode == RedactionMode::Deny {
        return redact.output(&found);
    }
    let content = match result.get("llmContent").unwrap_or(&result) {
        Value::String(text) => text.clone(),
        Value::Array(items) => lines_of(items),
        other => other.to_string(),
    };
    // The texts of blocks are searched as lines, too: an agent receives them so.
    let masked = redact.redact(RedactionScope::ToolResults, &content, &mut found);
    HookOutput::result_replacement(masked.unwrap_or(content))
}

/// Masks the runs of blocks with texts in all lists below a value. Returns whether any was found.
fn redact_lists(redact: &Redact, value: &mut Value, found: &mut FoundDetectors) -> bool {
    let mut is_edited = false;
    match value {
        Value::Array(items) => {
            is_edited |= redact_runs(redact, items, text_of_block, found);
            for item in items {
                is_edited |= redact_lists(redact, item, found);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                is_edited |= redact_lists(redact, value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
    is_edited
}

/// Masks the runs of texts in a list. Returns whether any was found.
fn redact_runs(
    redact: &Redact,
    items: &mut [Value],
    text_of: fn(&Value) -> Option<&str>,
    found: &mut FoundDetectors,
) -> bool {
    let mut is_edited = false;
    for run in items.chunk_by_mut(|item, next| text_of(item).and(text_of(next)).is_some()) {
        let texts = run.iter().filter_map(text_of);
        let mut texts: Vec<String> = texts.map(str::to_owned).collect();
        if texts.len() > 1 && redact.redact_joined(RedactionScope::ToolResults, &mut texts, found) {
            is_edited = true;
            for (item, text) in run.iter_mut().zip(texts) {
                match item.get_mut("text") {
                    Some(shown) => *shown = text.into(),
                    None => *item = text.into(),
                }
            }
        }
    }
    is_edited
}

/// Returns the items of a list as lines, without media and empty texts. What is no text is JSON.
fn lines_of(items: &[Value]) -> String {
    let lines = items.iter().filter(|item| !is_medium(item));
    let lines = lines.map(|item| text_of(item).map_or_else(|| item.to_string(), str::to_owned));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// Returns the text of an item: a string, a part with a text, or a block with one.
fn text_of(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| text_of_block(item))
}

fn text_of_block(item: &Value) -> Option<&str> {
    let fields = item.as_object()?;
    let text = fields.get("text")?.as_str();
    let kind = fields.get("type").and_then(Value::as_str);
    text.filter(|_| fields.len() == 1 || kind.is_some_and(|kind| kind.ends_with("text")))
}

fn is_medium(item: &Value) -> bool {
    let text = |place: &str| item.pointer(place).and_then(Value::as_str);
    text("/type").is_some_and(|kind| MEDIUM_TYPES.contains(&kind))
        || text("/source/type") == Some("base64")
        || MEDIA.iter().any(|place| item.pointer(place).is_some())
}
