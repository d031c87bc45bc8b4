//! MCP servers that the model API calls.

use crate::dialect::{
    document::{Document, repeated},
    error::Result,
};

const TOOLS: &[&str] = &["tools"];

/// Prefix of the names of MCP servers among the tools of a request.
const PREFIX: &str = "mcp:";

/// Names of the tool of the Gemini API that holds MCP servers.
const GEMINI: [&str; 2] = ["mcpServers", "mcp_servers"];

/// Returns whether a tool's name is that of MCP servers which the model API calls.
pub fn is_hosted_server(name: &str) -> bool {
    name.starts_with(PREFIX) || GEMINI.contains(&name)
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
