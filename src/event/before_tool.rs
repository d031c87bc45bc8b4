//! `BeforeTool`: a tool is about to run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Action, Decision, Event, EventKind, EventName, HookOutput, Part, Reason, Subject, Verdict,
};

/// A tool call.
#[derive(Debug, Serialize, Deserialize)]
pub struct BeforeTool {
    /// The tool's name as on the wire.
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: Map<String, Value>,
    /// Where the tool comes from, if from an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Map<String, Value>>,
    /// The tool first asked for, if this call follows another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_request_name: Option<String>,
}

/// What the hooks' outputs come to.
#[derive(Debug, PartialEq)]
pub enum BeforeToolVerdict {
    /// Run it, with these arguments laid over its own.
    Proceed(Map<String, Value>),
    /// Let the human decide.
    Ask(Reason),
    /// Do not run it; the reason is the tool's error.
    Deny(Reason),
    /// Do not run it and end the agent's loop.
    Stop(Reason),
}

impl EventKind for BeforeTool {
    const NAME: EventName = EventName::BeforeTool;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::Ask,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::ToolInput,
    ];
    type Verdict = BeforeToolVerdict;

    fn as_event(&self) -> Event<'_> {
        Event::BeforeTool(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Tool(&self.tool_name)
    }

    fn absorb(&mut self, output: &HookOutput) {
        self.tool_input.extend(arguments(output));
    }

    fn judge(folded: &HookOutput) -> BeforeToolVerdict {
        if let Some(reason) = folded.stop() {
            return BeforeToolVerdict::Stop(reason);
        }
        let reason = || Reason::new(folded.reason.as_deref());
        match folded.decision {
            Some(Decision::Deny) => BeforeToolVerdict::Deny(reason()),
            Some(Decision::Ask) => BeforeToolVerdict::Ask(reason()),
            Some(Decision::Allow) | None => BeforeToolVerdict::Proceed(arguments(folded)),
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

fn arguments(output: &HookOutput) -> Map<String, Value> {
    let given = output.specific("tool_input").and_then(Value::as_object);
    given.cloned().unwrap_or_default()
}
