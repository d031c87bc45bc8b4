//! MCP servers that the model API calls.

use crate::dialect::{
    document::{Document, repeated},
    error::Result,
};

const TOOLS: &[&str] = &["tools"];

/// Prefix of the names of MCP servers among the tools of a request.
const PREFIX: &str = "mcp:";

/// Types of the entries of `tools` that declare an MCP server: of OpenAI's APIs, and of compatible
/// servers.
const TYPES: [&str; 2] = ["mcp", "url"];

/// Names of the tool of the Gemini API that holds MCP servers.
const GEMINI: [&str; 2] = ["mcpServers", "mcp_servers"];

/// Returns whether a tool's name is that of MCP servers which the model API calls.
pub fn is_hosted_server(name: &str) -> bool {
    name.starts_with(PREFIX) || GEMINI.contains(&name)
}

/// Returns the name of the MCP server that an entry of `tools` with this type declares; `None` for
/// other types. A server without a label is one, too.
///
/// # Errors
///
/// Fails if the label is no text.
pub fn declared_server(kind: &str, tool: &Document) -> Result<Option<String>> {
    if !TYPES.contains(&kind) {
        return Ok(None);
    }
    let label = tool.string(&["server_label"])?;
    let label = label.map_or_else(|| tool.string(&["name"]), |label| Ok(Some(label)))?;
    Ok(Some(format!("{PREFIX}{}", label.unwrap_or_default())))
}

/// Returns the names of the MCP servers in a request that the model API calls.
///
/// # Errors
///
/// Fails if the tools are ambiguous.
pub fn hosted_servers(document: &Document) -> Result<Vec<String>> {
    let tools = repeated(document, TOOLS)?.unwrap_or_default();
    let names = tools.iter().flat_map(Document::fields);
    let names = names.map(|(name, _)| name.into_owned());
    Ok(names.filter(|name| is_hosted_server(name)).collect())
}
