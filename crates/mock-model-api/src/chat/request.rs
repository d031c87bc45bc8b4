//! Requests of Chat Completions in the content form.

use serde_json::{Value, json};

use crate::content::{self, ContentForm, Outcome, list, string};

/// Returns a request in the form of the Gemini API.
pub(crate) fn content_form(body: &Value) -> Value {
    let mut form = ContentForm::default();
    for message in list(body, "messages") {
        push(&mut form, message);
    }
    for tool in list(body, "tools") {
        match (tool.get("function"), tool.get("custom")) {
            (Some(function), _) => form.declare(function.get("name"), function.get("parameters")),
            (None, Some(custom)) => form.declare(custom.get("name"), Some(&free_text())),
            (None, None) => {}
        }
    }
    for function in list(body, "functions") {
        form.declare(function.get("name"), function.get("parameters"));
    }
    if let Some(choice) = body
        .get("tool_choice")
        .or_else(|| body.get("function_call"))
    {
        choose(&mut form, choice);
    }
    if thinks(body) {
        form.include_thoughts();
    }
    match body
        .pointer("/response_format/type")
        .and_then(Value::as_str)
    {
        Some("json_object") => form.want_json(None),
        Some("json_schema") => form.want_json(body.pointer("/response_format/json_schema/schema")),
        _ => {}
    }
    form.into_value()
}

/// Returns the schema of a tool whose input is text instead of JSON.
pub(crate) fn free_text() -> Value {
    json!({ "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"] })
}

fn push(form: &mut ContentForm, message: &Value) {
    let content = message.get("content").unwrap_or(&Value::Null);
    let texts = content::texts(content).filter_map(content::text_part);
    match string(message, "role") {
        "user" => form.push("user", &texts.collect::<Vec<_>>()),
        "tool" | "function" => form.push_result(content::result_part(content, Outcome::Output)),
        "assistant" => {
            let calls = list(message, "tool_calls").filter_map(|call| {
                let called = call.get("function").or_else(|| call.get("custom"))?;
                call_part(called)
            });
            let deprecated = message.get("function_call").and_then(call_part);
            let parts: Vec<Value> = texts.chain(calls).chain(deprecated).collect();
            form.push("model", &parts);
        }
        _ => {}
    }
}

fn call_part(called: &Value) -> Option<Value> {
    let args = called.get("arguments").or_else(|| called.get("input"))?;
    Some(content::call_part(called.get("name")?, args))
}

fn choose(form: &mut ContentForm, choice: &Value) {
    let name = |tool: &Value| {
        let named = tool.get("function").or_else(|| tool.get("custom"));
        named.unwrap_or(tool).get("name").cloned()
    };
    if choice == "none" {
        form.set_mode("NONE");
    } else if let Some(allowed) = choice.get("allowed_tools") {
        form.allow_only(list(allowed, "tools").filter_map(name).collect());
    } else if let Some(name) = name(choice) {
        form.allow_only(vec![name]);
    }
}

/// Reports whether a request asks for reasoning, which compatible servers return as
/// `reasoning_content`.
fn thinks(body: &Value) -> bool {
    let effort = body
        .get("reasoning_effort")
        .or_else(|| body.pointer("/reasoning/effort"));
    effort.is_some_and(|effort| effort != "none")
}
