//! `BeforeToolSelection`: the tools of a model request.

use serde::{Deserialize, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
};
use crate::model::{LlmRequest, ToolConfig};

/// Model request to be sent, after the edits of `BeforeModel`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeforeToolSelection {
    /// Request in the stable form.
    pub llm_request: LlmRequest,
    /// Selection of the hooks before, if they run in sequence.
    #[serde(skip)]
    selected: Option<ToolConfig>,
}

impl BeforeToolSelection {
    /// Event of a request.
    pub const fn new(llm_request: LlmRequest) -> Self {
        Self {
            llm_request,
            selected: None,
        }
    }
}

impl EventDefinition for BeforeToolSelection {
    const HONOURS: &'static [OutputPart] = &[OutputPart::ToolSelection];
    /// Selection of tools; `None` leaves the request unchanged.
    type Verdict = Option<ToolConfig>;

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        Some(Self::new(self.llm_request.with_system_message()))
    }

    fn apply(&mut self, output: &HookOutput) {
        let Some(mut selection) = Self::evaluate(output) else {
            return;
        };
        if let Some(earlier) = &self.selected {
            selection = earlier.merge(&selection);
        }
        selection.mode.get_or_insert_default();
        self.llm_request.tool_config = Some(selection.clone());
        self.selected = Some(selection);
    }

    fn evaluate(merged: &HookOutput) -> Option<ToolConfig> {
        merged.specific("toolConfig").and_then(ToolConfig::read)
    }
}
