//! `BeforeTool`: a tool call, before it runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    mcp::mcp_context,
    output::{ArgumentsMode, HookOutput, OutputPart},
};
use crate::dialect::FunctionCall;

/// Tool call to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeforeTool {
    /// Tool name as on the wire.
    pub tool_name: String,
    /// Arguments of the call.
    pub tool_input: Map<String, Value>,
    /// Set of tools to which the tool belongs, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset_name: Option<String>,
    /// MCP server of the tool, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Map<String, Value>>,
    /// Tool of the original call, if this is a tail call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_request_name: Option<String>,
}

/// The event of a call that hooks can inspect.
impl From<FunctionCall> for BeforeTool {
    fn from(call: FunctionCall) -> Self {
        Self {
            mcp_context: mcp_context(&call.name),
            tool_name: call.name,
            toolset_name: call.toolset,
            tool_input: match call.arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
            original_request_name: None,
        }
    }
}

impl EventDefinition for BeforeTool {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::Ask,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::ToolInput,
        OutputPart::AppendedText,
    ];
    const SUBJECTS: SubjectKind = SubjectKind::Tools;
    /// Callers read the merged output, because the config decides on `ask`.
    type Verdict = ();

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Tool(&self.tool_name)
    }

    fn toolset(&self) -> Option<&str> {
        self.toolset_name.as_deref()
    }

    fn tool_input(&self) -> Option<&Map<String, Value>> {
        Some(&self.tool_input)
    }

    fn with_tool(&self, name: &str, input: Map<String, Value>) -> Option<Self> {
        Some(Self {
            tool_name: name.to_owned(),
            tool_input: input,
            ..self.clone()
        })
    }

    fn apply(&mut self, output: &HookOutput) {
        if let Some(Value::Object(edit)) = output.specific("tool_input") {
            match output.interpretation.arguments {
                ArgumentsMode::Merge => self.tool_input.extend(edit.clone()),
                ArgumentsMode::Replace => self.tool_input.clone_from(edit),
            }
        }
    }

    fn evaluate(_merged: &HookOutput) {}
}
