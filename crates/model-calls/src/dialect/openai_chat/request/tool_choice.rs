//! The choice between tools: `tool_choice`, or `function_call` in the deprecated form.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, refuse_pair},
    error::{DialectError, Result, field_error},
    google::fields::TOOL_CONFIG,
    openai_chat::fields::{
        CUSTOM, FUNCTION, FUNCTION_CALL, FUNCTIONS, NAME, TOOL_CHOICE, TOOLS, TYPE,
    },
};

const ALLOWED_TOOLS: &[&str] = &["allowed_tools"];
const CALLING_CONFIG: &[&str] = &["functionCallingConfig"];

/// Returns the `toolConfig` of the content form, if the request chooses.
///
/// # Errors
///
/// Fails for a choice that hooks would not understand.
pub fn read_tool_choice(body: &Document) -> Result<Option<Value>> {
    refuse_pair(body, TOOL_CHOICE, FUNCTION_CALL)?;
    let field = if body.has(TOOL_CHOICE) {
        TOOL_CHOICE
    } else {
        FUNCTION_CALL
    };
    let calling = match body.get(field)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(mode)) => json!({ "mode": mode_of(&mode)? }),
        Some(_) => match body.child(field)? {
            Some(choice) => read_object(&choice)?,
            None => return Ok(None),
        },
    };
    Ok(Some(json!({ "functionCallingConfig": calling })))
}

fn mode_of(mode: &str) -> Result<&'static str> {
    match mode {
        "auto" => Ok("AUTO"),
        "none" => Ok("NONE"),
        "required" | "any" => Ok("ANY"),
        _ => Err(unknown_choice()),
    }
}

fn unknown_choice() -> DialectError {
    field_error("tool_choice", "a choice that the API has")
}

fn read_object(choice: &Document) -> Result<Value> {
    if choice.string(TYPE)?.as_deref() == Some("allowed_tools") {
        let allowed = choice.child(ALLOWED_TOOLS)?.ok_or_else(unknown_choice)?;
        let mode = allowed.string(&["mode"])?;
        let mode = mode_of(mode.as_deref().unwrap_or("auto"))?;
        let tools = allowed.children(TOOLS)?.unwrap_or_default();
        let names = tools.iter().map(read_name);
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        return Ok(json!({ "mode": mode, "allowedFunctionNames": names }));
    }
    let name = read_name(choice)?;
    Ok(json!({ "mode": "ANY", "allowedFunctionNames": [name] }))
}

/// Returns the name in a reference to a tool; the deprecated form has nothing but a name.
fn read_name(tool: &Document) -> Result<String> {
    refuse_pair(tool, FUNCTION, CUSTOM)?;
    let named = match tool.string(TYPE)?.as_deref() {
        Some("function") => tool.child(FUNCTION)?,
        Some("custom") => tool.child(CUSTOM)?,
        Some(hosted) => return Ok(hosted.to_owned()),
        None => tool.child(FUNCTION)?.or_else(|| Some(tool.clone())),
    };
    let name = named.unwrap_or_default().string(NAME)?;
    name.ok_or_else(unknown_choice)
}

/// Writes an edited choice. The deprecated form names one function at most.
pub fn write_tool_choice(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    if before.bytes_of(TOOL_CONFIG)? == after.bytes_of(TOOL_CONFIG)? {
        return Ok(());
    }
    let is_deprecated = body.has(FUNCTIONS);
    let field = if is_deprecated {
        FUNCTION_CALL
    } else {
        TOOL_CHOICE
    };
    let config = after.child(TOOL_CONFIG)?.unwrap_or_default();
    let Some(calling) = config.child(CALLING_CONFIG)? else {
        return body.remove(field);
    };
    let names = match calling.get(&["allowedFunctionNames"])? {
        Some(Value::Array(names)) => names,
        Some(_) | None => Vec::new(),
    };
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let mode = match calling.string(&["mode"])?.as_deref() {
        Some("NONE") => "none",
        Some("ANY") => "required",
        Some(_) | None => "auto",
    };
    let choice = if is_deprecated {
        deprecated_choice(mode, &names)
    } else {
        choice(mode, &names, &custom_names(body)?)
    };
    body.set(field, &choice)
}

fn deprecated_choice(mode: &str, names: &[&str]) -> Value {
    match (mode, names) {
        ("none", _) => "none".into(),
        ("required", [name]) => json!({ "name": name }),
        _ => "auto".into(),
    }
}

fn choice(mode: &str, names: &[&str], custom: &HashSet<String>) -> Value {
    let reference = |name: &&str| {
        let kind = if custom.contains(*name) {
            "custom"
        } else {
            "function"
        };
        json!({ "type": kind, kind: { "name": name } })
    };
    match (mode, names) {
        ("none", _) | (_, []) => mode.into(),
        ("required", [name]) => reference(name),
        _ => {
            let tools: Vec<Value> = names.iter().map(reference).collect();
            let allowed = json!({ "mode": mode, "tools": tools });
            json!({ "type": "allowed_tools", "allowed_tools": allowed })
        }
    }
}

/// Returns the names of the custom tools that a request declares.
fn custom_names(body: &Document) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for tool in body.children(TOOLS)?.unwrap_or_default() {
        let custom = tool.child(CUSTOM)?.unwrap_or_default();
        names.extend(custom.string(NAME)?);
    }
    Ok(names)
}
