//! `BeforeTool`: a tool is about to run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Action, ArgumentsMean, Decision, Event, EventKind, EventName, HookOutput, Part, Reason,
    Subject, Subjects, Verdict,
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
    /// Run it, with this change of its arguments.
    Proceed(ArgumentsEdit),
    /// Let the human decide.
    Ask(Reason),
    /// Do not run it; the reason is the tool's error.
    Deny(Reason),
    /// Do not run it and end the agent's loop.
    Stop(Reason),
}

/// A change of a tool call's arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentsEdit {
    /// These are laid over the call's own.
    Over(Map<String, Value>),
    /// These stand in the place of the call's own.
    Instead(Map<String, Value>),
}

impl ArgumentsEdit {
    /// Changes the arguments.
    pub fn apply(self, arguments: &mut Map<String, Value>) {
        match self {
            Self::Over(given) => arguments.extend(given),
            Self::Instead(given) => *arguments = given,
        }
    }

    /// The change that an output asks for.
    pub fn of(output: &HookOutput) -> Self {
        let given = output.specific("tool_input").and_then(Value::as_object);
        match (given.cloned(), output.meaning.arguments) {
            (Some(given), ArgumentsMean::Instead) => Self::Instead(given),
            (given, _) => Self::Over(given.unwrap_or_default()),
        }
    }
}

impl EventKind for BeforeTool {
    const NAME: EventName = EventName::BeforeTool;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::Ask,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::ToolInput,
        Part::Remark,
    ];
    const SUBJECTS: Subjects = Subjects::Tools;
    type Verdict = BeforeToolVerdict;

    fn as_event(&self) -> Event<'_> {
        Event::BeforeTool(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Tool(&self.tool_name)
    }

    fn absorb(&mut self, output: &HookOutput) {
        ArgumentsEdit::of(output).apply(&mut self.tool_input);
    }

    fn judge(folded: &HookOutput) -> BeforeToolVerdict {
        if let Some(reason) = folded.stop() {
            return BeforeToolVerdict::Stop(reason);
        }
        let reason = || Reason::new(folded.reason.as_deref());
        match folded.decision {
            Some(Decision::Deny) => BeforeToolVerdict::Deny(reason()),
            Some(Decision::Ask) => BeforeToolVerdict::Ask(reason()),
            Some(Decision::Allow) | None => BeforeToolVerdict::Proceed(ArgumentsEdit::of(folded)),
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
