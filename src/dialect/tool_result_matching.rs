//! Which call a tool's result answers. Pure.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    DialectError,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
};

/// A tool's result, and the call that it answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolResult {
    /// The place of its content.
    pub content: usize,
    /// The place of its part there.
    pub part: usize,
    /// The tool.
    pub name: String,
    /// The arguments of the call; `null` if it had none or is not there.
    pub args: Value,
    /// What the tool said; `null` if nothing.
    pub response: Value,
    /// Media that it returned, as parts.
    pub media: Vec<Value>,
}

/// The calls of a step, on the way through its results.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// By name and id: the arguments.
    by_id: HashMap<(String, String), Value>,
    /// By name, in order: the arguments.
    by_name: HashMap<String, Vec<Value>>,
    /// How many results of a name there were.
    met: HashMap<String, usize>,
}

impl Answered {
    /// None of these calls is answered yet.
    pub(super) fn to<'a>(parts: impl Iterator<Item = &'a Part>) -> Result<Self, DialectError> {
        let mut answered = Self::default();
        for part in parts {
            let Some(call) = part.document.child(FUNCTION_CALL)? else {
                continue;
            };
            let name = call.string(&["name"])?.unwrap_or_default();
            let args = call.get(&["args"])?.unwrap_or_default();
            if let Some(id) = call.string(&["id"])? {
                answered.by_id.insert((name.clone(), id), args.clone());
            }
            answered.by_name.entry(name).or_default().push(args);
        }
        Ok(answered)
    }

    /// The next result: it answers the call with its id, else the next one of its
    /// name.
    pub(super) fn result(
        &mut self,
        (content, part): (usize, usize),
        said: &Part,
    ) -> Result<Option<ToolResult>, DialectError> {
        let Some(result) = said.document.child(FUNCTION_RESPONSE)? else {
            return Ok(None);
        };
        let name = result.string(&["name"])?.unwrap_or_default();
        let met = self.met.entry(name.clone()).or_default();
        let in_order = self.by_name.get(&name).and_then(|it| it.get(*met));
        *met += 1;
        let id = result.string(&["id"])?;
        let by_id = id.and_then(|id| self.by_id.get(&(name.clone(), id)));
        let media = match result.get(&["parts"])? {
            Some(Value::Array(media)) => media,
            Some(_) | None => Vec::new(),
        };
        Ok(Some(ToolResult {
            content,
            part,
            media,
            args: by_id.or(in_order).cloned().unwrap_or_default(),
            name,
            response: result.get(&["response"])?.unwrap_or_default(),
        }))
    }
}
