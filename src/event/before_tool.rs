//! `BeforeTool`: a tool call, before it runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{ArgumentsMode, Decision, HookOutput, OutputPart, Reason},
    verdict::{Action, Verdict},
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
    /// Run the tool with edited arguments.
    Proceed(ArgumentsEdit),
    /// Ask the human for permission.
    Ask(Reason),
    /// Refuse; the reason becomes the tool's error.
    Deny(Reason),
    /// Refuse and end the agent's loop.
    Stop(Reason),
}

/// Edit of a tool call's arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentsEdit {
    mode: ArgumentsMode,
    arguments: Map<String, Value>,
}

impl ArgumentsEdit {
    /// Returns the edit of a hook's output.
    pub fn from_output(output: &HookOutput) -> Self {
        match output.specific("tool_input").and_then(Value::as_object) {
            Some(arguments) => Self {
                mode: output.interpretation.arguments,
                arguments: arguments.clone(),
            },
            None => Self {
                mode: ArgumentsMode::Merge,
                arguments: Map::new(),
            },
        }
    }

    /// Applies the edit to `arguments`.
    pub fn apply(self, arguments: &mut Map<String, Value>) {
        match self.mode {
            ArgumentsMode::Merge => arguments.extend(self.arguments),
            ArgumentsMode::Replace => *arguments = self.arguments,
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
        ArgumentsEdit::from_output(output).apply(&mut self.tool_input);
    }

    fn evaluate(merged: &HookOutput) -> BeforeToolVerdict {
        if let Some(reason) = merged.stop() {
            return BeforeToolVerdict::Stop(reason);
        }
        let reason = || Reason::new(merged.reason.as_deref());
        match merged.decision {
            Some(Decision::Deny) => BeforeToolVerdict::Deny(reason()),
            Some(Decision::Ask) => BeforeToolVerdict::Ask(reason()),
            Some(Decision::Allow) | None => {
                BeforeToolVerdict::Proceed(ArgumentsEdit::from_output(merged))
            }
        }
    }
}

impl Verdict for BeforeToolVerdict {
    fn action(&self) -> Action {
        match self {
            Self::Proceed(_) => Action::Proceed,
            Self::Ask(_) => Action::Ask,
            Self::Deny(_) => Action::Deny,
            Self::Stop(_) => Action::Stop,
        }
    }
}
