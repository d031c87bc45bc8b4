//! MCP servers of tools, by naming conventions of agents. Pure.

use serde_json::{Map, Value};

/// Returns `server_name` and `tool_name` of a tool such as `mcp_github_search`,
/// `mcp__github__search` or `github__search`.
pub fn mcp_context(name: &str) -> Option<Map<String, Value>> {
    let (server, tool) = mcp_tool(name)?;
    let fields = [("server_name", server), ("tool_name", tool)];
    let fields = fields.map(|(key, text)| (key.to_owned(), Value::String(text.to_owned())));
    Some(Map::from_iter(fields))
}

/// Returns server and tool of the name of an MCP tool.
pub fn mcp_tool(name: &str) -> Option<(&str, &str)> {
    let (server, tool) = match (name.strip_prefix("mcp__"), name.strip_prefix("mcp_")) {
        (Some(rest), _) => rest.split_once("__")?,
        (None, Some(rest)) => rest.split_once('_')?,
        (None, None) => name.split_once("__")?,
    };
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_names_of_mcp_tools_have_a_server() {
        let github = json!({ "server_name": "github", "tool_name": "search_issues" });
        for name in [
            "mcp_github_search_issues",
            "mcp__github__search_issues",
            "github__search_issues",
        ] {
            assert_eq!(mcp_context(name).map(Value::Object).as_ref(), Some(&github));
        }
        for name in ["read_file", "mcp_github", "mcp__x", "__x", "x__", ""] {
            assert_eq!(mcp_context(name), None, "{name}");
        }
    }
}
