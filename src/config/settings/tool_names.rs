//! Names of tools that mean the same.

use schemars::JsonSchema;
use serde::Deserialize;

/// The meaning of a tool's name for hooks that are written for other agents: the name of
/// a tool that does the same, or `false` for none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ToolMeaning {
    /// It means the same as the tool of this name.
    SameAs(String),
    /// It means nothing that has a name in hooks of other agents.
    Unmapped(bool),
}

/// The name of a tool that does the same, or `false`.
#[derive(JsonSchema)]
#[schemars(rename = "ToolMeaning", extend("type" = ["string", "boolean"], "minLength" = 1, "not" = {"const": true}, "errorMessage" = "must be the name of a tool that means the same, or `false`"))]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ToolMeaningSchema(String);
