//! `AfterTool`: a tool result, before the model sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{HookOutput, OutputPart},
    verdict::FlowVerdict,
};

/// Tool call and its result.
#[derive(Debug, Serialize, Deserialize)]
pub struct AfterTool {
    /// Tool name as on the wire.
    pub tool_name: String,
    /// Arguments of the call.
    pub tool_input: Map<String, Value>,
    /// Result of the call.
    pub tool_response: ToolResponse,
    /// MCP server of the tool, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Map<String, Value>>,
    /// Tool of the original call, if this is a tail call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_request_name: Option<String>,
}

/// Tool result: `{llmContent, returnDisplay, error?}` and further fields of the
/// agent.
pub type ToolResponse = Map<String, Value>;

impl EventDefinition for AfterTool {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::AdditionalContext,
        OutputPart::TailToolCall,
    ];
    const SUBJECTS: SubjectKind = SubjectKind::Tools;
    /// Rendered context to append to the result; a denial's reason replaces it.
    type Verdict = FlowVerdict<Option<String>>;

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Tool(&self.tool_name)
    }

    fn evaluate(merged: &HookOutput) -> Self::Verdict {
        FlowVerdict::evaluate(merged, || merged.rendered_context())
    }
}
