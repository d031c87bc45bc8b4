//! `AfterAgent`: the final response of a turn.

use serde::{Deserialize, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
    verdict::FlowVerdict,
};

/// Prompt and final response of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AfterAgent {
    /// Prompt that started the turn.
    pub prompt: String,
    /// Final response of the turn.
    pub prompt_response: String,
    /// True if the turn continues because a hook refused an earlier response.
    #[serde(default)]
    pub stop_hook_active: bool,
}

impl EventDefinition for AfterAgent {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::ClearContext,
    ];
    /// A denial causes a retry with the reason as new prompt.
    type Verdict = FlowVerdict<()>;

    fn evaluate(merged: &HookOutput) -> Self::Verdict {
        FlowVerdict::evaluate(merged, || ())
    }
}
