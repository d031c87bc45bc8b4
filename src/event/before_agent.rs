//! `BeforeAgent`: a user prompt, before it starts a turn.

use serde::{Deserialize, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
    verdict::FlowVerdict,
};

/// Prompt of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeforeAgent {
    /// Text of the user.
    pub prompt: String,
}

impl BeforeAgent {
    /// Returns the readings of the prompt. A derived prompt has an empty line between two texts,
    /// which a model may read as one.
    pub fn readings(&self) -> [String; 2] {
        [self.prompt.clone(), self.prompt.replace("\n\n", "")]
    }
}

impl EventDefinition for BeforeAgent {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::AdditionalContext,
    ];
    /// Rendered context for every model call of the turn.
    type Verdict = FlowVerdict<Option<String>>;

    fn apply(&mut self, output: &HookOutput) {
        if let Some(context) = output.plain_context() {
            self.prompt.push_str("\n\n");
            self.prompt.push_str(&context);
        }
    }

    fn evaluate(merged: &HookOutput) -> Self::Verdict {
        FlowVerdict::evaluate(merged, || merged.rendered_context())
    }
}
