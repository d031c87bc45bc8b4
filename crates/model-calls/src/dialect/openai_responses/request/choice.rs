//! The choice of tools: `tool_choice` as a function calling config, and back.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, first_byte},
    error::{Result, field_error},
    google::fields::TOOL_CONFIG,
    openai_responses::{
        calls::ToolCallKind,
        fields::{NAME, TOOL_CHOICE, TOOLS, TYPE},
        request::declarations::{Declarations, DeclaredNames},
    },
};

const CALLING_CONFIG: &[&str] = &["functionCallingConfig"];
const ALLOWED_NAMES: &[&str] = &["allowedFunctionNames"];
const MODE: &[&str] = &["mode"];

/// Returns the tool config of the content form; `None` if the request selects nothing.
pub fn read_choice(body: &Document, declarations: &Declarations) -> Result<Option<Value>> {
    let config = match first_byte(body, TOOL_CHOICE)? {
        None => return Ok(None),
        Some(b'"') => json!({ "mode": read_mode(body.string(TOOL_CHOICE)?.as_deref())? }),
        Some(_) => read_selection(body, declarations)?,
    };
    Ok(Some(json!({ "functionCallingConfig": config })))
}

fn read_mode(mode: Option<&str>) -> Result<&'static str> {
    match mode {
        None | Some("auto") => Ok("AUTO"),
        Some("none") => Ok("NONE"),
        Some("required") => Ok("ANY"),
        Some(_) => Err(field_error("tool_choice", "`auto`, `none` or `required`")),
    }
}

/// Returns the config of a choice of single tools.
fn read_selection(body: &Document, declarations: &Declarations) -> Result<Value> {
    let Some(choice) = body.child(TOOL_CHOICE)? else {
        return Ok(json!({ "mode": "AUTO" }));
    };
    let mut declared = declarations.names();
    if choice.string(TYPE)?.as_deref() != Some("allowed_tools") {
        let names = chosen_names(&choice, &mut declared)?;
        return Ok(json!({ "mode": "ANY", "allowedFunctionNames": names }));
    }
    let mode = read_mode(choice.string(MODE)?.as_deref())?;
    let tools = choice.children(TOOLS)?.unwrap_or_default();
    let names = tools.iter().map(|tool| chosen_names(tool, &mut declared));
    let names = names.collect::<Result<Vec<_>>>()?.concat();
    Ok(json!({ "mode": mode, "allowedFunctionNames": names }))
}

/// Returns the names of a chosen tool in the content form: a choice does not have its namespace.
/// Other tools are chosen by their type, which a tool in a namespace may have as its name. Removes
/// the names from those that are `declared` with the name, so that a repeated choice has none.
fn chosen_names(choice: &Document, declared: &mut HashMap<&str, Vec<&str>>) -> Result<Vec<String>> {
    let name = chosen_name(choice)?;
    let kind = ToolCallKind::of_declaration(choice)?;
    if kind.is_none_or(|kind| kind.fixed_name().is_some()) {
        return Ok(vec![name]);
    }
    Ok(match declared.get_mut(name.as_str()) {
        Some(names) => names.drain(..).map(str::to_owned).collect(),
        None => vec![name],
    })
}

fn chosen_name(choice: &Document) -> Result<String> {
    if let Some(kind) = ToolCallKind::of_declaration(choice)? {
        return kind.name(choice);
    }
    let named = choice.string(TYPE)?;
    match named.as_deref() {
        Some("mcp") => {
            let label = choice.string(&["server_label"])?.unwrap_or_default();
            Ok(format!("mcp:{label}"))
        }
        Some("namespace") => Ok(choice.string(NAME)?.unwrap_or_default()),
        Some(named) => Ok(named.to_owned()),
        None => Err(field_error("tool_choice", "a choice with a type")),
    }
}

/// Writes a changed selection. The API accepts none without tools.
pub fn write_choice(
    body: &mut Document,
    declarations: &Declarations,
    has_tools: bool,
    before: &Document,
    after: &Document,
) -> Result<()> {
    if !has_tools {
        body.remove(TOOL_CHOICE)?;
        return body.remove(&["parallel_tool_calls"]);
    }
    if before.bytes_of(TOOL_CONFIG)? == after.bytes_of(TOOL_CONFIG)? {
        return Ok(());
    }
    let config = after.child(TOOL_CONFIG)?.unwrap_or_default();
    let Some(config) = config.child(CALLING_CONFIG)? else {
        return body.remove(TOOL_CHOICE);
    };
    let choice = new_choice(declarations, &config)?;
    body.set(TOOL_CHOICE, &choice)
}

fn new_choice(declarations: &Declarations, config: &Document) -> Result<Value> {
    let mode = match config.string(MODE)?.as_deref() {
        Some("NONE") => return Ok(json!("none")),
        Some("ANY") => "required",
        Some(_) | None => "auto",
    };
    let names = config.get(ALLOWED_NAMES)?.unwrap_or_default();
    let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
    let (declared, hosted) = (declarations.by_name(), declarations.hosted_names());
    let mut tools = Vec::with_capacity(names.len());
    let mut seen = HashSet::with_capacity(names.len());
    for name in names.iter().filter_map(Value::as_str) {
        let choice = choice_of(name, &declared, &hosted);
        if seen.insert(choice.to_string()) {
            tools.push(choice);
        }
    }
    Ok(match (mode, tools.len()) {
        (mode, 0) => json!(mode),
        ("required", 1) => tools.pop().unwrap_or_default(),
        (mode, _) => json!({ "type": "allowed_tools", "mode": mode, "tools": tools }),
    })
}

/// Returns the choice of one tool.
fn choice_of(name: &str, declared: &DeclaredNames<'_>, hosted: &HashSet<&str>) -> Value {
    if let Some(label) = name.strip_prefix("mcp:") {
        return json!({ "type": "mcp", "server_label": label });
    }
    if hosted.contains(name) {
        return json!({ "type": name });
    }
    let tool = declared.find(name);
    match tool.kind {
        ToolCallKind::Function => json!({ "type": "function", "name": tool.name }),
        ToolCallKind::Custom => json!({ "type": "custom", "name": tool.name }),
        ToolCallKind::LocalShell
        | ToolCallKind::Shell
        | ToolCallKind::ApplyPatch
        | ToolCallKind::Computer
        | ToolCallKind::ToolSearch => json!({ "type": name }),
    }
}
