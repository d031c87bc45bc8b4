//! `BeforeTool`: a tool call, before it runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{ArgumentsMode, Decision, HookOutput, OutputPart, Reason},
};

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

/// Verdict on a tool call.
#[derive(Debug, PartialEq)]
pub enum BeforeToolVerdict {
    /// Run the tool, with the edits of the hooks.
    Proceed,
    /// Ask the human for permission.
    Ask(Reason),
    /// Refuse; the reason becomes the tool's error.
    Deny(Reason),
    /// Refuse and end the agent's loop.
    Stop(Reason),
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
    type Verdict = BeforeToolVerdict;

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

    fn evaluate(merged: &HookOutput) -> BeforeToolVerdict {
        if let Some(reason) = merged.stop() {
            return BeforeToolVerdict::Stop(reason);
        }
        let reason = || Reason::new(merged.reason.as_deref());
        match merged.decision {
            Some(Decision::Deny) => BeforeToolVerdict::Deny(reason()),
            Some(Decision::Ask) => BeforeToolVerdict::Ask(reason()),
            Some(Decision::Allow) | None => BeforeToolVerdict::Proceed,
        }
    }
}
