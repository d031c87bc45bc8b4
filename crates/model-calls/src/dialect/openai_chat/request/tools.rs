//! Declared tools, and the choice between them.

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{SOURCE, declared_server, hosted_tool, source_of},
    document::{Document, add_field, is_set, refuse_pair, required_child, retain_elements},
    error::{Result, field_error},
    openai::hosted_search::{SEARCH_TOOL, has_search, remove_search},
    openai_chat::fields::{
        CUSTOM, FUNCTION, FUNCTION_CALL, FUNCTIONS, NAME, PARALLEL_TOOL_CALLS, TOOL_CHOICE, TOOLS,
        TYPE,
    },
};

const DECLARATIONS: &[&str] = &["functionDeclarations"];

/// Returns the tools of the content form, one for each entry of the request.
///
/// # Errors
///
/// Fails if a server could read an entry in two ways.
pub fn read_tools(body: &Document) -> Result<Vec<Value>> {
    refuse_pair(body, TOOLS, FUNCTIONS)?;
    let mut tools = Vec::new();
    for entry in body.children(TOOLS)?.unwrap_or_default() {
        tools.push(read_tool(&entry, tools.len())?);
    }
    for function in body.children(FUNCTIONS)?.unwrap_or_default() {
        tools.push(declaration(read_function(&function)?, tools.len()));
    }
    if has_search(body)? {
        tools.push(json!({ SEARCH_TOOL: {}, SOURCE: tools.len() }));
    }
    Ok(tools)
}

fn read_tool(entry: &Document, source: usize) -> Result<Value> {
    refuse_pair(entry, FUNCTION, CUSTOM)?;
    let kind = entry.string(TYPE)?;
    let declared = match kind.as_deref() {
        Some("function") | None => read_function(&required_child(entry, "function")?)?,
        Some("custom") => read_function(&required_child(entry, "custom")?)?,
        Some(_) if is_set(entry, FUNCTION)? || is_set(entry, CUSTOM)? => {
            let expected = "the one kind of tool that the entry holds";
            return Err(field_error("type", expected));
        }
        Some(hosted) => return read_hosted_tool(entry, hosted, source),
    };
    Ok(declaration(declared, source))
}

fn read_function(function: &Document) -> Result<Map<String, Value>> {
    let mut declared = Map::new();
    let name = function.string(NAME)?;
    let name = name.ok_or_else(|| field_error("name", "the name of a function"))?;
    declared.insert("name".to_owned(), name.into());
    let description = function.string(&["description"])?;
    add_field(&mut declared, "description", description);
    let schema = function.get(&["parameters"])?;
    add_field(&mut declared, "parametersJsonSchema", schema);
    Ok(declared)
}

fn declaration(mut declared: Map<String, Value>, source: usize) -> Value {
    declared.insert(SOURCE.to_owned(), source.into());
    json!({ "functionDeclarations": [declared], SOURCE: source })
}

/// Returns a tool that runs upstream. One of an MCP server is named by the server.
fn read_hosted_tool(entry: &Document, kind: &str, source: usize) -> Result<Value> {
    let name = declared_server(kind, entry)?.unwrap_or_else(|| kind.to_owned());
    let own_names = ["functionDeclarations", "function_declarations", SOURCE];
    if own_names.contains(&name.as_str()) {
        return Err(field_error("type", "a kind of tool"));
    }
    hosted_tool(&name, entry, source)
}

/// Removes the entries of tools that are missing in `after`, and what the API refuses beside
/// no tools.
pub fn write_tools(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    if before.bytes_of(TOOLS)? == after.bytes_of(TOOLS)? {
        return Ok(());
    }
    let mut kept = vec![false; before.list(TOOLS)?.unwrap_or_default().len()];
    for tool in after.children(TOOLS)?.unwrap_or_default() {
        if is_used(&tool)?
            && let Some(number) = source_of(&tool)
            && let Some(slot) = kept.get_mut(number)
        {
            *slot = true;
        }
    }
    let mut kept = kept.into_iter();
    retain_elements(body, TOOLS, |_| kept.next().unwrap_or(true))?;
    retain_elements(body, FUNCTIONS, |_| kept.next().unwrap_or(true))?;
    if kept.next() == Some(false) {
        remove_search(body)?;
    }
    if body.has(TOOLS) || body.has(FUNCTIONS) {
        return Ok(());
    }
    let mut choices = [TOOL_CHOICE, FUNCTION_CALL, PARALLEL_TOOL_CALLS].iter();
    choices.try_for_each(|field| body.remove(field))
}

/// Returns whether a tool of the content form still offers anything.
fn is_used(tool: &Document) -> Result<bool> {
    if let Some(declarations) = tool.list(DECLARATIONS)? {
        return Ok(!declarations.is_empty());
    }
    let mut fields = tool.fields();
    Ok(fields.any(|(key, _)| key != SOURCE && tool.has(&[&*key])))
}
