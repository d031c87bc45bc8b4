//! `AfterTool`: a tool has run; its result is about to reach the model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Event, EventKind, EventName, Flow, HookOutput, Part, Subject, Subjects};

/// A tool call and its result.
#[derive(Debug, Serialize, Deserialize)]
pub struct AfterTool {
    /// The tool's name as on the wire.
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: Map<String, Value>,
    /// What it returned.
    pub tool_response: ToolResponse,
    /// Where the tool comes from, if from an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Map<String, Value>>,
    /// The tool first asked for, if this call follows another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_request_name: Option<String>,
}

/// What a tool returned: `{llmContent, returnDisplay, error?}` and whatever
/// else the agent says of it.
pub type ToolResponse = Map<String, Value>;

impl EventKind for AfterTool {
    const NAME: EventName = EventName::AfterTool;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::AdditionalContext,
        Part::TailToolCall,
    ];
    const SUBJECTS: Subjects = Subjects::Tools;
    /// Context to append to the result, as it stands there; a denial's reason replaces it.
    type Verdict = Flow<Option<String>>;

    fn as_event(&self) -> Event<'_> {
        Event::AfterTool(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Tool(&self.tool_name)
    }

    fn judge(folded: &HookOutput) -> Self::Verdict {
        Flow::judge(folded, || folded.rendered_context())
    }
}
