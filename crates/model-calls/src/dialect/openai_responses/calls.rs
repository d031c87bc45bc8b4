//! Items that call a tool which the agent runs.

use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, to_value, value_text},
    error::{Result, field_error},
    openai::arguments::read_arguments,
    openai_responses::fields::{ARGUMENTS, CALL_ID, ID, INPUT, NAME, NAMESPACE, TYPE},
};

/// Fields of calls that hold no text, beside their arguments.
pub const CALL_FIELDS: &[&str] = &[
    "call_id",
    "execution",
    "id",
    "name",
    "namespace",
    "status",
    "type",
];

/// Kind of a tool that the agent runs: how it is declared, called and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolCallKind {
    /// A function with JSON arguments.
    Function,
    /// A tool whose input is a text.
    Custom,
    /// One command on the agent's machine.
    LocalShell,
    /// Commands in a shell that the agent provides.
    Shell,
    /// A patch that the agent applies to a file.
    ApplyPatch,
    /// Actions on the agent's screen.
    Computer,
    /// A search among tools that the agent performs.
    ToolSearch,
}

impl ToolCallKind {
    /// Returns the kind of a call; `None` for other items, and for calls that run upstream.
    pub fn of_call(item: &Document) -> Result<Option<Self>> {
        Ok(Some(match item.string(TYPE)?.as_deref() {
            Some("function_call") => Self::Function,
            Some("custom_tool_call") => Self::Custom,
            Some("local_shell_call") => Self::LocalShell,
            Some("shell_call") if !runs_in_container(item)? => Self::Shell,
            Some("apply_patch_call") => Self::ApplyPatch,
            Some("computer_call") => Self::Computer,
            Some("tool_search_call") if runs_at_client(item)? => Self::ToolSearch,
            Some(_) | None => return Ok(None),
        }))
    }

    /// Returns the kind of a declared tool; `None` for tools that run upstream.
    pub fn of_declaration(tool: &Document) -> Result<Option<Self>> {
        let named = tool.string(TYPE)?;
        Ok(Some(match named.as_deref().unwrap_or_default() {
            "function" => Self::Function,
            "custom" => Self::Custom,
            "local_shell" => Self::LocalShell,
            "shell" if !runs_in_container(tool)? => Self::Shell,
            "apply_patch" => Self::ApplyPatch,
            "tool_search" if runs_at_client(tool)? => Self::ToolSearch,
            name if name.starts_with("computer") => Self::Computer,
            _ => return Ok(None),
        }))
    }

    /// Returns the name of a tool that has no name of its own.
    pub const fn fixed_name(self) -> Option<&'static str> {
        match self {
            Self::Function | Self::Custom => None,
            Self::LocalShell => Some("local_shell"),
            Self::Shell => Some("shell"),
            Self::ApplyPatch => Some("apply_patch"),
            Self::Computer => Some("computer"),
            Self::ToolSearch => Some("tool_search"),
        }
    }

    /// Returns the type of items that call the tool.
    pub const fn call_type(self) -> &'static str {
        match self {
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
            Self::LocalShell => "local_shell_call",
            Self::Shell => "shell_call",
            Self::ApplyPatch => "apply_patch_call",
            Self::Computer => "computer_call",
            Self::ToolSearch => "tool_search_call",
        }
    }

    /// Returns the fields of a call that hold its arguments.
    pub const fn inputs(self) -> &'static [&'static str] {
        match self {
            Self::Function | Self::ToolSearch => ARGUMENTS,
            Self::Custom => INPUT,
            Self::LocalShell | Self::Shell => &["action"],
            Self::ApplyPatch => &["operation"],
            Self::Computer => &["action", "actions"],
        }
    }

    /// Returns the name of the called tool, with that of its MCP server.
    pub fn name(self, item: &Document) -> Result<String> {
        if let Some(name) = self.fixed_name() {
            return Ok(name.to_owned());
        }
        let name = item.string(NAME)?;
        let name = name.ok_or_else(|| field_error("name", "the name of a tool"))?;
        let namespace = item.string(NAMESPACE)?.unwrap_or_default();
        Ok(name_in(&namespace, &name))
    }

    /// Returns the arguments of a call. Text that is no unambiguous JSON object stays a string,
    /// which guards refuse.
    pub fn arguments(self, item: &Document) -> Result<Value> {
        let field = self.inputs();
        match self {
            Self::Function => {
                let text = item.string(field)?.unwrap_or_default();
                Ok(read_arguments(&text).unwrap_or_else(|| json!({})))
            }
            Self::Custom => {
                let input = item.string(field)?.unwrap_or_default();
                Ok(json!({ "input": input }))
            }
            Self::ToolSearch => match item.get(field)?.unwrap_or_default() {
                Value::String(text) => Ok(read_arguments(&text).unwrap_or_else(|| json!({}))),
                Value::Object(fields) => Ok(Value::Object(fields)),
                Value::Null => Ok(json!({})),
                _ => Err(field_error("arguments", "an object")),
            },
            Self::Computer => {
                let mut fields = Map::new();
                for key in field {
                    let value = item.get(&[key])?.filter(|value| !value.is_null());
                    fields.extend(value.map(|value| ((*key).to_owned(), value)));
                }
                Ok(Value::Object(fields))
            }
            Self::LocalShell | Self::Shell | Self::ApplyPatch => {
                to_value(&item.child(field)?.unwrap_or_default())
            }
        }
    }

    /// Writes other arguments into a call.
    pub fn set_arguments(self, item: &mut Document, arguments: &Value) -> Result<()> {
        let field = self.inputs();
        match self {
            Self::Function => item.set(field, &value_text(arguments).into()),
            Self::Custom => item.set(field, &input_text(arguments).into()),
            Self::ToolSearch if matches!(item.get(field)?, Some(Value::String(_))) => {
                item.set(field, &value_text(arguments).into())
            }
            Self::Computer => field.iter().try_for_each(|key| {
                let value = arguments.get(key);
                value.map_or(Ok(()), |value| item.set(&[key], value))
            }),
            Self::LocalShell | Self::Shell | Self::ApplyPatch => {
                let mut arguments = arguments.clone();
                self.add_required(&mut arguments, item)?;
                item.set(field, &arguments)
            }
            Self::ToolSearch => item.set(field, arguments),
        }
    }

    /// Adds the fields of arguments that the API requires, and that no hook needs to return.
    fn add_required(self, arguments: &mut Value, item: &Document) -> Result<()> {
        let Value::Object(fields) = arguments else {
            return Ok(());
        };
        let original = item.child(self.inputs())?.unwrap_or_default();
        if let Some(tag) = original.string(TYPE)? {
            fields.entry("type").or_insert(tag.into());
        }
        if self == Self::LocalShell {
            fields.entry("env").or_insert_with(|| json!({}));
        }
        Ok(())
    }
}

/// Returns the name of a tool in a namespace, as hooks see it. In that of an MCP server of Codex it
/// is the one that Codex shows to its own hooks, `mcp__SERVER__TOOL`.
pub fn name_in(namespace: &str, name: &str) -> String {
    if !namespace.starts_with("mcp__") {
        return name.to_owned();
    }
    let server = namespace.trim_end_matches('_');
    format!("{server}__{}", name.trim_start_matches('_'))
}

/// Returns the part of a call.
pub fn call_part(kind: ToolCallKind, item: &Document) -> Result<Value> {
    let call = json!({
        "id": call_id(item)?,
        "name": kind.name(item)?,
        "args": kind.arguments(item)?,
    });
    Ok(json!({ "functionCall": call }))
}

/// Returns the input of a custom tool.
pub fn input_text(arguments: &Value) -> String {
    match arguments.get("input") {
        Some(Value::String(text)) => text.clone(),
        Some(_) | None => arguments.to_string(),
    }
}

/// Returns the id by which the result of a call names it.
pub fn call_id(item: &Document) -> Result<Option<String>> {
    let id = item.string(CALL_ID)?;
    id.map_or_else(|| item.string(ID), |id| Ok(Some(id)))
}

/// Returns whether the commands of a shell run in a container upstream.
pub fn runs_in_container(item: &Document) -> Result<bool> {
    let environment = item.child(&["environment"])?.unwrap_or_default();
    let named = environment.string(TYPE)?;
    Ok(named.is_some_and(|named| named.starts_with("container")))
}

/// Returns whether the agent searches tools itself.
fn runs_at_client(item: &Document) -> Result<bool> {
    Ok(item.string(&["execution"])?.as_deref() == Some("client"))
}
