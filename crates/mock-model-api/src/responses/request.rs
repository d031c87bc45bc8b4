//! Requests of the Responses API in the content form.

use serde_json::Value;

use crate::{
    chat::free_text,
    content::{self, ContentForm, Outcome, list, string},
};

/// Returns a request in the form of the Gemini API.
pub(crate) fn content_form(body: &Value) -> Value {
    let mut form = ContentForm::default();
    if let Some(prompt) = body.get("input").and_then(Value::as_str) {
        form.push("user", content::text_part(prompt).as_slice());
    }
    for item in list(body, "input") {
        push(&mut form, item);
    }
    for tool in declarations(body) {
        match string(tool, "type") {
            "custom" => form.declare(tool.get("name"), Some(&free_text())),
            _ => form.declare(tool.get("name"), tool.get("parameters")),
        }
    }
    if let Some(choice) = body.get("tool_choice") {
        choose(&mut form, choice);
    }
    if thinks(body) {
        form.include_thoughts();
    }
    match body.pointer("/text/format/type").and_then(Value::as_str) {
        Some("json_object") => form.want_json(None),
        Some("json_schema") => form.want_json(body.pointer("/text/format/schema")),
        _ => {}
    }
    form.into_value()
}

/// Returns the functions and custom tools of a request, wherever they are declared.
pub(crate) fn declarations(body: &Value) -> Vec<&Value> {
    let later = list(body, "input").filter(|item| string(item, "type") == "additional_tools");
    let entries = list(body, "tools").chain(later.flat_map(|item| list(item, "tools")));
    let tools = entries.flat_map(|tool| match string(tool, "type") {
        "namespace" => list(tool, "tools").collect(),
        _ => vec![tool],
    });
    let is_function = |tool: &&Value| matches!(string(tool, "type"), "function" | "custom");
    tools.filter(is_function).collect()
}

/// Returns the name of the namespace that declares a function.
pub(crate) fn namespace<'a>(body: &'a Value, function: &str) -> Option<&'a Value> {
    let declares = |tool: &&Value| {
        let mut functions = list(tool, "tools");
        string(tool, "type") == "namespace"
            && functions.any(|declared| string(declared, "name") == function)
    };
    list(body, "tools").find(declares)?.get("name")
}

fn push(form: &mut ContentForm, item: &Value) {
    let kind = string(item, "type");
    if kind.ends_with("_output") {
        let output = item.get("output").unwrap_or(&Value::Null);
        form.push_result(content::result_part(output, Outcome::Output));
        return;
    }
    match (kind, string(item, "role")) {
        ("message" | "", "user") => form.push("user", &texts(item)),
        ("message" | "", "assistant") => form.push("model", &texts(item)),
        ("function_call" | "custom_tool_call", _) => {
            let args = item.get("arguments").or_else(|| item.get("input"));
            let name = item.get("name").unwrap_or(&Value::Null);
            let call = content::call_part(name, args.unwrap_or(&Value::Null));
            form.push("model", &[call]);
        }
        _ => {}
    }
}

fn texts(message: &Value) -> Vec<Value> {
    let content = message.get("content").unwrap_or(&Value::Null);
    content::texts(content)
        .filter_map(content::text_part)
        .collect()
}

fn choose(form: &mut ContentForm, choice: &Value) {
    if choice == "none" {
        form.set_mode("NONE");
    } else if string(choice, "type") == "allowed_tools" {
        let names = list(choice, "tools").filter_map(|tool| tool.get("name").cloned());
        form.allow_only(names.collect());
    } else if let Some(name) = choice.get("name") {
        form.allow_only(vec![name.clone()]);
    }
}

fn thinks(body: &Value) -> bool {
    let reasoning = body.get("reasoning").filter(|value| value.is_object());
    reasoning.is_some_and(|value| string(value, "effort") != "none")
}
