//! MCP servers that the model API calls.

use crate::dialect::{document::Document, error::DialectError};

const TOOLS: &[&str] = &["tools"];

/// Prefix of the names of MCP servers among the tools of a request.
const PREFIX: &str = "mcp:";

/// Returns whether a request declares an MCP server that the model API calls.
///
/// # Errors
///
/// Fails if the tools are ambiguous.
pub fn has_hosted_server(document: &Document) -> Result<bool, DialectError> {
    for tool in document.children(TOOLS)?.unwrap_or_default() {
        if tool.fields().any(|(key, _)| key.starts_with(PREFIX)) {
            return Ok(true);
        }
    }
    Ok(false)
}
