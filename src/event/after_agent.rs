//! `AfterAgent`: a turn has come to its final answer.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, Flow, HookOutput, Part};

/// A prompt and its answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct AfterAgent {
    /// What started the turn.
    pub prompt: String,
    /// What it came to.
    pub prompt_response: String,
    /// Whether the turn goes on only because a hook refused an answer.
    #[serde(default)]
    pub stop_hook_active: bool,
}

impl EventKind for AfterAgent {
    const NAME: EventName = EventName::AfterAgent;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::ClearContext,
    ];
    /// A denial is a retry with the reason as new prompt.
    type Verdict = Flow<()>;

    fn as_event(&self) -> Event<'_> {
        Event::AfterAgent(self)
    }

    fn judge(folded: &HookOutput) -> Self::Verdict {
        Flow::judge(folded, || ())
    }
}
