//! What one argument of a tool must be. Pure.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{command_line, path};
use crate::{
    dialect::FunctionCall,
    policy::matchers::{Glob, Pattern},
};

/// What one argument of a tool must be. All that is given must hold; a list
/// holds if each of its elements does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolRule")]
pub(super) struct Rule {
    /// The tools it is for.
    tool: Glob,
    /// The argument, as a JSON pointer such as `/file_path`.
    #[schemars(regex(pattern = r"^(/([^/~]|~[01])*)+$"), extend("errorMessage" = "must be a JSON pointer such as `/file_path`"))]
    argument: String,
    /// A regular expression that must be found in it.
    matches: Option<Pattern>,
    /// A regular expression that must not be found in it.
    not_matches: Option<Pattern>,
    /// Folders that it must lie in; `.` is the agent's working directory.
    within: Option<Vec<String>>,
    /// What each command of a command line must begin with, word by word.
    #[schemars(inner(regex(pattern = r"\S")))]
    commands: Option<Vec<String>>,
    /// Whether the call may go without the argument.
    #[serde(default)]
    optional: bool,
}

impl Rule {
    /// Whether it is for this tool.
    pub(super) fn is_for(&self, tool: &str) -> bool {
        self.tool.matches(tool)
    }

    /// What is wrong with a call's arguments, if anything.
    pub(super) fn broken_by(&self, call: &FunctionCall, directory: Option<&str>) -> Option<String> {
        let name = &self.argument;
        let arguments = &call.arguments;
        if call.in_pieces {
            return Some("may not be called with arguments in pieces".to_owned());
        }
        if !matches!(arguments, Value::Object(_) | Value::Null) {
            return Some("may not be called with such arguments".to_owned());
        }
        match arguments.pointer(name) {
            None | Some(Value::Null) if self.optional => None,
            None | Some(Value::Null) => Some(format!("may not be called without `{name}`")),
            Some(Value::Array(list)) => {
                list.iter().find_map(|it| self.broken_by_one(it, directory))
            }
            Some(one) => self.broken_by_one(one, directory),
        }
    }

    fn broken_by_one(&self, value: &Value, directory: Option<&str>) -> Option<String> {
        let name = &self.argument;
        let text: Cow<'_, str> = match value {
            Value::String(text) => text.into(),
            Value::Number(_) | Value::Bool(_) => value.to_string().into(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Some(format!("may not be called with such a `{name}`"));
            }
        };
        let found = |it: &Pattern| it.is_in(&text);
        let inside = |folders: &[String]| path::lies_in(&text, folders, directory);
        let begins = |allowed: &[String]| command_line::begins_with(&text, allowed);
        if self.within.as_deref().is_some_and(|it| !inside(it)) {
            return Some(format!("may not use the path in `{name}`"));
        }
        if self.commands.as_deref().is_some_and(|it| !begins(it)) {
            return Some(format!("may not run the command in `{name}`"));
        }
        let fits = self.matches.as_ref().is_none_or(found)
            && !self.not_matches.as_ref().is_some_and(found);
        (!fits).then(|| format!("may not be called with this `{name}`"))
    }
}
