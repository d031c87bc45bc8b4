//! `BeforeAgent`: a user's prompt is about to start a turn.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, Flow, HookOutput, Part};

/// The prompt.
#[derive(Debug, Serialize, Deserialize)]
pub struct BeforeAgent {
    /// As the user wrote it.
    pub prompt: String,
}

impl EventKind for BeforeAgent {
    const NAME: EventName = EventName::BeforeAgent;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::AdditionalContext,
    ];
    /// Context for every model call of the turn, as it stands there.
    type Verdict = Flow<Option<String>>;

    fn as_event(&self) -> Event<'_> {
        Event::BeforeAgent(self)
    }

    fn absorb(&mut self, output: &HookOutput) {
        if let Some(context) = output.plain_context() {
            self.prompt.push_str("\n\n");
            self.prompt.push_str(&context);
        }
    }

    fn judge(folded: &HookOutput) -> Self::Verdict {
        Flow::judge(folded, || folded.rendered_context())
    }
}
