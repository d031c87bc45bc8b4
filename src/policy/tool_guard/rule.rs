//! Rules for one argument of a tool. Pure.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{command_line, path};
use crate::{
    dialect::FunctionCall,
    policy::matchers::{Glob, Pattern},
};

/// Constraints on one argument of a tool. All that are given must hold; for a list,
/// they must hold for each element.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolRule")]
pub(super) struct ToolRule {
    /// The tools to which the rule applies.
    tool: Glob,
    /// The argument, as a JSON pointer such as `/file_path`.
    #[schemars(regex(pattern = r"^(/([^/~]|~[01])*)+$"), extend("errorMessage" = "must be a JSON pointer such as `/file_path`"))]
    argument: String,
    /// A regular expression that the argument must match.
    matches: Option<Pattern>,
    /// A regular expression that the argument must not match.
    not_matches: Option<Pattern>,
    /// Folders in which the path must lie; `.` is the agent's working directory.
    within: Option<Vec<String>>,
    /// Allowed prefixes of each command in a command line, compared word by word.
    #[schemars(inner(regex(pattern = r"\S")))]
    commands: Option<Vec<String>>,
    /// True if the argument may be absent.
    #[serde(default)]
    optional: bool,
}

impl ToolRule {
    pub(super) fn applies_to(&self, tool: &str) -> bool {
        self.tool.0.is_match(tool)
    }

    /// Returns the tools to which it applies, as they are written.
    pub(super) fn glob(&self) -> &str {
        self.tool.0.glob().glob()
    }

    /// Returns whether the argument may be absent and have any value.
    pub(super) const fn permits_all(&self) -> bool {
        self.optional
            && self.matches.is_none()
            && self.not_matches.is_none()
            && self.within.is_none()
            && self.commands.is_none()
    }

    /// Returns how a call violates the rule, as the end of a sentence about the tool.
    pub(super) fn violation(&self, call: &FunctionCall, directory: Option<&str>) -> Option<String> {
        let name = &self.argument;
        let arguments = &call.arguments;
        if call.is_partial {
            return Some("may not be called with arguments in pieces".to_owned());
        }
        if !matches!(arguments, Value::Object(_) | Value::Null) {
            return Some("may not be called with such arguments".to_owned());
        }
        if self.has_other_spelling(arguments) {
            return Some(format!(
                "may not be called with another spelling of `{name}`"
            ));
        }
        match arguments.pointer(name) {
            None | Some(Value::Null) if self.optional => None,
            None | Some(Value::Null) => Some(format!("may not be called without `{name}`")),
            Some(Value::Array(list)) if list.is_empty() && !self.optional => {
                Some(format!("may not be called without `{name}`"))
            }
            Some(Value::Array(list)) => list
                .iter()
                .find_map(|value| self.value_violation(value, directory)),
            Some(value) => self.value_violation(value, directory),
        }
    }

    /// Returns whether a key differs from the argument's in case only: an agent may read either,
    /// in Go even if both are there.
    fn has_other_spelling(&self, arguments: &Value) -> bool {
        // In this order, two letters that are not ASCII become `s` and `k`, as in Go.
        let fold = |key: &str| key.to_uppercase().to_lowercase();
        let mut object = arguments;
        for name in self.argument.split('/').skip(1) {
            let name = name.replace("~1", "/").replace("~0", "~");
            let Value::Object(fields) = object else {
                return false;
            };
            let folded = fold(&name);
            let mut others = fields.keys().filter(|key| **key != name);
            if others.any(|key| fold(key) == folded) {
                return true;
            }
            object = fields.get(&name).unwrap_or(&Value::Null);
        }
        false
    }

    fn value_violation(&self, value: &Value, directory: Option<&str>) -> Option<String> {
        let name = &self.argument;
        let text: Cow<'_, str> = match value {
            Value::String(text) => text.into(),
            Value::Number(_) | Value::Bool(_) => value.to_string().into(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Some(format!("may not be called with such a `{name}`"));
            }
        };
        let is_within = |folders: &[String]| path::is_within(&text, folders, directory);
        if !self.within.as_deref().is_none_or(is_within) {
            return Some(format!("may not use the path in `{name}`"));
        }
        let has_prefix = |allowed: &[String]| command_line::has_allowed_prefixes(&text, allowed);
        if !self.commands.as_deref().is_none_or(has_prefix) {
            return Some(format!("may not run the command in `{name}`"));
        }
        let is_match = |pattern: &Pattern| pattern.0.is_match(&text);
        let matches = self.matches.as_ref().is_none_or(is_match)
            && !self.not_matches.as_ref().is_some_and(is_match);
        (!matches).then(|| format!("may not be called with this `{name}`"))
    }
}
