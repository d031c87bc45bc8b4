//! Matching of tool results with the calls that they answer.

use std::collections::HashMap;

use serde_json::Value;

use crate::dialect::{
    error::Result,
    google::{
        fields::{ARGUMENTS, FUNCTION_CALL, FUNCTION_RESPONSE, RESPONSE, TOOLSET_NAME},
        part::Part,
    },
};

/// A tool's result and the call that it answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolResult {
    /// Index of its content.
    pub content: usize,
    /// Index of its part in the content.
    pub part: usize,
    /// Name of the tool.
    pub name: String,
    /// Set of tools to which the tool belongs, if it has one.
    pub toolset: Option<String>,
    /// Arguments of the call; `null` if it had none or was not found.
    pub args: Value,
    /// Response of the tool; `null` if there is none.
    pub response: Value,
    /// Returned media, as parts.
    pub media: Vec<Value>,
}

/// The calls before a sequence of results.
#[derive(Debug, Default)]
pub struct PrecedingCalls {
    /// Arguments by name and id.
    by_id: HashMap<(String, String), Value>,
    /// Arguments by name, in order.
    by_name: HashMap<String, Vec<Value>>,
    /// Number of results read, by name.
    results_read: HashMap<String, usize>,
}

impl PrecedingCalls {
    pub fn read<'a>(parts: impl Iterator<Item = &'a Part>) -> Result<Self> {
        let mut calls = Self::default();
        for part in parts {
            let Some(call) = part.document.child(FUNCTION_CALL)? else {
                continue;
            };
            let name = call.string(&["name"])?.unwrap_or_default();
            let args = call.get(ARGUMENTS)?.unwrap_or_default();
            if let Some(id) = call.string(&["id"])? {
                calls.by_id.insert((name.clone(), id), args.clone());
            }
            calls.by_name.entry(name).or_default().push(args);
        }
        Ok(calls)
    }

    /// Reads the next result. It answers the call with its id, or else the next call of its
    /// name. Sets everything but the position.
    pub fn next_result(&mut self, part: &Part) -> Result<Option<ToolResult>> {
        let Some(result) = part.document.child(FUNCTION_RESPONSE)? else {
            return Ok(None);
        };
        let name = result.string(&["name"])?.unwrap_or_default();
        let position = self.results_read.entry(name.clone()).or_default();
        let in_order = self.by_name.get(&name).and_then(|args| args.get(*position));
        *position += 1;
        let id = result.string(&["id"])?;
        let by_id = id.and_then(|id| self.by_id.get(&(name.clone(), id)));
        Ok(Some(ToolResult {
            args: by_id.or(in_order).cloned().unwrap_or_default(),
            toolset: result.string(TOOLSET_NAME)?,
            response: result.get(RESPONSE)?.unwrap_or_default(),
            media: match result.get(&["parts"])? {
                Some(Value::Array(media)) => media,
                Some(_) | None => Vec::new(),
            },
            name,
            ..ToolResult::default()
        }))
    }
}
