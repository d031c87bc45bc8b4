//! Declared tools: in `tools`, as MCP servers, and within the conversation.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::{DECLARATIONS, IS_TOOLSET, NAME, TOOL_CHANGES, TYPE, string_bytes, type_of},
        request::input_messages::{InputMessage, InputRole},
    },
    content_form::{SOURCE, declared_server, hosted_tool},
    document::{Document, copy_field},
    error::{Result, field_error},
};

pub const TOOLS: &[&str] = &["tools"];
pub const MCP_SERVERS: &[&str] = &["mcp_servers"];
pub const TOOL: &[&str] = &["tool"];

/// Prefixes of the types of tools that the agent runs, although the API defines them.
const CLIENT_TYPES: [&str; 4] = ["bash_", "text_editor_", "memory_", "computer_2"];

/// Sets of tools that the agent runs. Their types are the name, `_toolset_` and a date.
const TOOLSETS: [&str; 2] = ["browser", "computer"];

/// Position of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolPlace {
    /// Index in the list `tools`.
    Tools(usize),
    /// Index in the list `mcp_servers`.
    McpServers(usize),
    /// A block of a system message.
    Message { message: usize, block: usize },
    /// A change that a block of compacted history lists.
    Compaction {
        message: usize,
        block: usize,
        change: usize,
    },
}

/// A declared tool. Its number in the content form is its index in the list of all.
#[derive(Debug)]
pub struct DeclaredTool {
    pub place: ToolPlace,
    pub name: String,
    /// True if the agent runs it; else the API does.
    pub is_function: bool,
    /// True if its calls name the tools of a set, which the declaration does not list.
    pub is_toolset: bool,
    document: Document,
}

/// Reads all declared tools, wherever they are declared.
///
/// # Errors
///
/// Fails for a tool without a name.
pub fn read_tools(body: &Document, messages: &[InputMessage]) -> Result<Vec<DeclaredTool>> {
    let mut declared = Vec::new();
    let tools = body.children(TOOLS)?.unwrap_or_default();
    for (index, tool) in tools.into_iter().enumerate() {
        declared.push(DeclaredTool::read(ToolPlace::Tools(index), tool)?);
    }
    let servers = body.children(MCP_SERVERS)?.unwrap_or_default();
    for (index, server) in servers.into_iter().enumerate() {
        let name = server.string(NAME)?.unwrap_or_default();
        declared.push(DeclaredTool {
            place: ToolPlace::McpServers(index),
            name: format!("mcp:{name}"),
            is_function: false,
            is_toolset: false,
            document: server,
        });
    }
    for (index, message) in messages.iter().enumerate() {
        read_from_message(index, message, &mut declared)?;
    }
    Ok(declared)
}

fn read_from_message(
    index: usize,
    message: &InputMessage,
    declared: &mut Vec<DeclaredTool>,
) -> Result<()> {
    for (block_index, block) in message.blocks.iter().enumerate() {
        let kind = type_of(block)?;
        if kind == "tool_addition" && message.role == InputRole::System {
            if let Some(tool) = added_tool(block)? {
                let place = ToolPlace::Message {
                    message: index,
                    block: block_index,
                };
                declared.push(DeclaredTool::read(place, tool)?);
            }
        } else if kind == "compaction" {
            let changes = block.children(TOOL_CHANGES)?.unwrap_or_default();
            for (change, addition) in changes.iter().enumerate() {
                if let Some(tool) = added_tool(addition)? {
                    let place = ToolPlace::Compaction {
                        message: index,
                        block: block_index,
                        change,
                    };
                    declared.push(DeclaredTool::read(place, tool)?);
                }
            }
        }
    }
    Ok(())
}

/// Returns the definition in a change of the declared tools; `None` if it refers to a declared
/// one.
///
/// # Errors
///
/// Fails for anything else: a server could find a definition where hooks do not see it.
fn added_tool(change: &Document) -> Result<Option<Document>> {
    let tool = change.child(TOOL)?;
    let tool = tool.ok_or_else(|| field_error("tool", "a tool or a reference to one"))?;
    match type_of(&tool)?.as_str() {
        "tool_reference" | "mcp_tool_reference" | "mcp_toolset_reference" => Ok(None),
        "tool_definition" => {
            let definition = tool.child(&["definition"])?;
            let definition = definition.ok_or_else(|| field_error("definition", "a tool"))?;
            Ok(Some(definition))
        }
        _ => Ok(Some(tool)),
    }
}

/// Returns the name of the tool that a change refers to, if it refers to a declared one.
pub fn referred_tool(change: &Document) -> Result<Option<String>> {
    let Some(tool) = change.child(TOOL)? else {
        return Ok(None);
    };
    match type_of(&tool)?.as_str() {
        "tool_reference" => tool.string(NAME),
        "mcp_tool_reference" | "mcp_toolset_reference" => {
            let server = tool.string(&["server_name"])?;
            Ok(server.map(|server| format!("mcp:{server}")))
        }
        _ => Ok(None),
    }
}

/// Returns the name of a toolset that the agent runs: its calls have it beside their own.
fn toolset_name(kind: &str) -> Option<&str> {
    let (name, _) = kind.split_once("_toolset_")?;
    TOOLSETS.contains(&name).then_some(name)
}

/// Returns the name of a tool that Anthropic runs, whatever the tool is named: its type without
/// the date. Types of other servers have no date.
fn without_date(kind: &str) -> Option<&str> {
    let (name, date) = kind.rsplit_once('_')?;
    let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
    is_date.then_some(name)
}

impl DeclaredTool {
    fn read(place: ToolPlace, document: Document) -> Result<Self> {
        let kind = document.string(TYPE)?;
        let toolset = kind.as_deref().and_then(toolset_name);
        let is_function = match kind.as_deref() {
            None | Some("custom") => true,
            Some(kind) => {
                toolset.is_some() || CLIENT_TYPES.iter().any(|prefix| kind.starts_with(prefix))
            }
        };
        let name = match (toolset, document.string(NAME)?, kind.as_deref()) {
            (Some(toolset), _, _) => toolset.to_owned(),
            (None, _, Some("mcp_toolset")) => {
                let server = document.string(&["mcp_server_name"])?.unwrap_or_default();
                format!("mcp:{server}")
            }
            (None, name, Some(kind)) if !is_function => match without_date(kind) {
                Some(known) => known.to_owned(),
                None => declared_server(kind, &document)?
                    .or(name)
                    .unwrap_or_else(|| kind.to_owned()),
            },
            (None, Some(name), _) => name,
            (None, None, _) => {
                string_bytes(&document, "name")?;
                String::new()
            }
        };
        Ok(Self {
            place,
            name,
            is_function,
            is_toolset: toolset.is_some(),
            document,
        })
    }

    /// Returns the tool in the content form.
    pub fn to_form(&self, number: usize) -> Result<Bytes> {
        if !self.is_function {
            let hosted = hosted_tool(&self.name, &self.document, number)?;
            return Ok(hosted.to_string().into());
        }
        let mut declaration = Document::empty();
        declaration.set(NAME, &json!(self.name))?;
        let names = [
            ("description", "description"),
            ("parametersJsonSchema", "input_schema"),
        ];
        for (field, from) in names {
            copy_field(&mut declaration, &[field], &self.document, &[from])?;
        }
        if self.is_toolset {
            declaration.set(&[IS_TOOLSET], &json!(true))?;
        }
        declaration.set(&[SOURCE], &json!(number))?;
        let mut tool = Document::empty();
        tool.set_children(DECLARATIONS, [&declaration])?;
        tool.set(&[SOURCE], &json!(number))?;
        Ok(tool.to_bytes())
    }
}
