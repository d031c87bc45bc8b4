//! Requests of the Messages API in the content form.

use serde_json::Value;

use crate::content::{self, ContentForm, Outcome, list, string};

use super::block::{blocks, kind};

/// Returns a request in the form of the Gemini API.
pub(crate) fn content_form(body: &Value) -> Value {
    let mut form = ContentForm::default();
    for message in list(body, "messages") {
        match string(message, "role") {
            "assistant" => push(&mut form, "model", message),
            "user" => push(&mut form, "user", message),
            // Instructions in between; they may declare tools.
            _ => list(message, "content").for_each(|block| declare_added(&mut form, block)),
        }
    }
    for tool in list(body, "tools") {
        declare(&mut form, tool);
    }
    if let Some(choice) = body.get("tool_choice") {
        match kind(choice) {
            "none" => form.set_mode("NONE"),
            "tool" => form.allow_only(choice.get("name").cloned().into_iter().collect()),
            _ => {}
        }
    }
    if thinks(body) {
        form.include_thoughts();
    }
    let format = body.pointer("/output_config/format");
    if let Some(format) = format.or_else(|| body.get("output_format")) {
        form.want_json(format.get("schema"));
    }
    form.into_value()
}

/// Reports whether a request asks for thinking.
pub(crate) fn thinks(body: &Value) -> bool {
    let kind = body.get("thinking").map(kind);
    matches!(kind, Some("enabled" | "adaptive"))
}

fn push(form: &mut ContentForm, role: &str, message: &Value) {
    let parts: Vec<Value> = blocks(message).iter().filter_map(part).collect();
    form.push(role, &parts);
}

fn part(block: &Value) -> Option<Value> {
    match kind(block) {
        "text" => content::text_part(string(block, "text")),
        "tool_use" => Some(content::call_part(block.get("name")?, block.get("input")?)),
        "tool_result" => {
            let outcome = match block.get("is_error") {
                Some(Value::Bool(true)) => Outcome::Error,
                _ => Outcome::Output,
            };
            let content = block.get("content").unwrap_or(&Value::Null);
            Some(content::result_part(content, outcome))
        }
        _ => None,
    }
}

/// Declares a tool that the agent runs; tools of the API itself have no schema.
fn declare(form: &mut ContentForm, tool: &Value) {
    let schema = tool.get("input_schema");
    if schema.is_some() {
        form.declare(tool.get("name"), schema);
    }
}

fn declare_added(form: &mut ContentForm, block: &Value) {
    if kind(block) == "tool_addition"
        && let Some(definition) = block.pointer("/tool/definition")
    {
        declare(form, definition);
    }
}
