//! Edits of the arguments of a tool call.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Edit of a hook, compared with the arguments that it was shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArgumentsEdit {
    /// New and changed arguments.
    pub changed: Map<String, Value>,
    /// Names that a replacement leaves out.
    pub removed: HashSet<String>,
}

/// Effect of a hook's `tool_input` on the arguments of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArgumentsMode {
    /// Its keys are merged over the arguments.
    #[default]
    Merge,
    /// It replaces the arguments.
    Replace,
}
