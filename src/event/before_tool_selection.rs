//! `BeforeToolSelection`: the model is about to be offered tools.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, HookOutput, Part};
use crate::model::{LlmRequest, ToolConfig};

/// The request about to be sent, after `BeforeModel`'s edits.
#[derive(Debug, Serialize, Deserialize)]
pub struct BeforeToolSelection {
    /// In the stable form.
    pub llm_request: LlmRequest,
}

impl EventKind for BeforeToolSelection {
    const NAME: EventName = EventName::BeforeToolSelection;
    const HONOURS: &'static [Part] = &[Part::ToolSelection];
    /// The selection; none leaves the request as it is.
    type Verdict = Option<ToolConfig>;

    fn as_event(&self) -> Event<'_> {
        Event::BeforeToolSelection(self)
    }

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        let llm_request = self.llm_request.with_system_message();
        Some(Self { llm_request })
    }

    fn judge(folded: &HookOutput) -> Option<ToolConfig> {
        folded.specific("toolConfig").and_then(ToolConfig::read)
    }
}
